// Package server is the tracker as a value: it puts registry, routing,
// sessions, store, control channel and status page together, and owns their
// one lock and all goroutines.
//
// Only the main package and tests import it. Decisions live in the pure
// packages; this one moves data between them.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"neuron/engine/protocol"
	"neuron/internal/syserr"
	"neuron/tracker-server/audit/numeric"
	"neuron/tracker-server/billing"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
)

// Options configures a Server.
type Options struct {
	// Name is what the network is called in its members' windows, "" for nothing.
	Name string
	// Listen is host:port; port 0 takes a free one.
	Listen string
	// Data is the data folder: database, key, lock.
	Data string
	// TLSCert and TLSKey are PEM files; both or none.
	TLSCert, TLSKey string
	// Insecure allows plain HTTP on addresses other than loopback.
	Insecure bool
	Logger   *slog.Logger     // default: discard
	Now      func() time.Time // default: time.Now

	// ReportEvery is what nodes are told; default 5 s.
	ReportEvery time.Duration
	// LeaseFor is the life of a lease; default 2 h.
	LeaseFor time.Duration
	// MaxConns and MaxPerAddress bound the control channel; see package channel.
	MaxConns, MaxPerAddress int
	// PublicURL is where others reach this tracker; default: where it listens.
	// Published torrents carry it.
	PublicURL string
	// Credit says whether sessions cost credit; default billing.Optional.
	Credit billing.Policy
	// StartingCredit is what each new owner is given, in micro-credits.
	StartingCredit store.Credit
	// TelemetryDays is how long the history of sessions is kept; 0: not at all.
	TelemetryDays int
	// Audits are the rules of numeric audits; the zero value samples nothing.
	Audits numeric.Config
	// Proxies are the addresses of reverse proxies whose X-Forwarded-For is
	// believed.
	Proxies []netip.Prefix
	// Admission says whether new nodes have to be approved; default standing.Open.
	Admission standing.Policy
	// PublishFrom are folders out of which the operator's pages may publish.
	PublishFrom []string
}

// KeepFor is how long ended sessions and silent nodes stay in the database.
const KeepFor = 90 * 24 * time.Hour

// maxName bounds Options.Name, in characters; clients cut longer ones.
const maxName = 64

func (o *Options) fill() error {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:7700"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ReportEvery == 0 {
		o.ReportEvery = 5 * time.Second
	}
	if o.LeaseFor == 0 {
		o.LeaseFor = 2 * time.Hour
	}
	var err error
	if o.Admission, err = standing.ParsePolicy(string(o.Admission)); err != nil {
		return err
	}
	for i, dir := range o.PublishFrom {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return protocol.Errorf(protocol.CodeInvalidRequest, "--publish-from %s: there is no such folder", dir)
		}
		if o.PublishFrom[i], err = filepath.Abs(dir); err != nil {
			return err
		}
	}
	if o.Credit == "" {
		o.Credit = billing.Optional
	}
	if err := o.Credit.Check(); err != nil {
		return err
	}
	if o.StartingCredit < 0 || o.StartingCredit > ledger.MaxGrant {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a starting credit of %s; 0 to %s are possible", o.StartingCredit, ledger.MaxGrant)
	}
	if n := utf8.RuneCountInString(o.Name); n > maxName || !utf8.ValidString(o.Name) || strings.ContainsFunc(o.Name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the network's name has at most %d characters, in one line", maxName)
	}
	if o.ReportEvery < time.Second || o.ReportEvery > 20*time.Second {
		return protocol.Errorf(protocol.CodeInvalidRequest, "reports every %s; 1 s to 20 s are possible", o.ReportEvery)
	}
	if !(o.Audits.Share >= 0 && o.Audits.Share <= 1) {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a share of %g of the sessions is audited; 0 to 1 are possible", o.Audits.Share)
	}
	if o.TelemetryDays < 0 || o.TelemetryDays > maxTelemetryDays {
		return protocol.Errorf(protocol.CodeInvalidRequest, "telemetry is kept for 0 to %d days, not %d", maxTelemetryDays, o.TelemetryDays)
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a certificate needs its key, and a key its certificate")
	}
	if o.PublicURL != "" {
		if u, err := url.Parse(o.PublicURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return protocol.Errorf(protocol.CodeInvalidRequest, "the public URL %.200q is not http(s)://HOST/", o.PublicURL)
		}
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "listen address %q is not HOST:PORT", o.Listen)
	}
	if o.TLSCert == "" && !o.Insecure && !isLoopback(host) {
		return protocol.Errorf(protocol.CodeInvalidRequest,
			"%s is reachable from other computers: give a certificate (--tls-cert, --tls-key), or --insecure when a proxy in front does TLS", o.Listen)
	}
	return nil
}

// onLoopback reports whether only this computer can reach the tracker.
func (o *Options) onLoopback() bool {
	host, _, err := net.SplitHostPort(o.Listen)
	return err == nil && isLoopback(host)
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func (o *Options) registryConfig() registry.Config {
	return registry.Config{ReportEvery: o.ReportEvery, ExpireAfter: 60 * time.Second}
}

func (o *Options) sessionsConfig() sessions.Config { return sessions.DefaultConfig() }

// listen opens the port with errors that help.
func listen(addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case syserr.AddrInUse(err):
		return nil, protocol.Errorf(protocol.CodePortInUse, "another program listens on %s", addr)
	case errors.Is(err, syscall.EACCES):
		return nil, protocol.Errorf(protocol.CodeForbidden, "this user may not listen on %s", addr)
	default:
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
}
