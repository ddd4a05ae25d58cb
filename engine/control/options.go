package control

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"neuron/engine/protocol"
)

// Identity is the node's key as this package needs it; internal/identity has it.
type Identity interface {
	ID() protocol.NodeID
	Public() ed25519.PublicKey
	Sign(msg []byte) []byte
}

// Options configure a Client. Zero durations take the defaults.
type Options struct {
	// URL is the tracker: ws, wss, http or https. Without a path it gets
	// "/v1/nodes".
	URL      string
	Identity Identity
	Role     protocol.Role
	Build    protocol.Build
	Engine   string // version of this program
	Addr     string // host:port of our seam, "" for a pure gateway
	Host     string // what computer this is, in words

	// PinnedTracker is the only tracker key to accept. When empty, Trust
	// decides, and without Trust the first key seen by this Client stays.
	PinnedTracker ed25519.PublicKey
	Trust         Trust
	// TLS is for wss; nil takes the system's roots.
	TLS *tls.Config

	// Report makes the node's report; nil sends none. It is called by the
	// connection's writer and must return quickly.
	Report func() protocol.Report
	// OnPeers and OnEndSession are called by the connection's reader, one at a
	// time; while one runs nothing else is read. Both may be nil.
	OnPeers      func([]protocol.Peer)
	OnEndSession func(protocol.SessionID, *protocol.Error)
	// OnOther gets messages of kinds that this package does not know, as OnPeers
	// does, and says whether it knows the kind; its error is answered. May be nil.
	OnOther func(*protocol.Envelope) (known bool, err error)
	// OnState is called after each change of State, by the goroutine of Run.
	OnState func(State)
	// OnWelcome is called with each welcome, when the connection stands, by the
	// goroutine of Run; it must return quickly. It may be nil.
	OnWelcome func(protocol.Welcome)

	Logger *slog.Logger
	Clock  Clock

	// HandshakeTimeout bounds dial and hello each (10 s), CallTimeout one
	// question (10 s), WriteTimeout one message (10 s). Silence is how long
	// the tracker may say nothing, pings included (45 s: it pings every 20 s
	// and two may get lost).
	HandshakeTimeout, CallTimeout, WriteTimeout, Silence time.Duration
}

// Clock are the hooks for time; nil fields take the real ones.
type Clock struct {
	Now func() time.Time
	// Wait returns after d, or with ctx's error when that ends first.
	Wait func(ctx context.Context, d time.Duration) error
	// Jitter returns a number in [0, 1).
	Jitter func() float64
}

// Bounds of the pause between two attempts to connect.
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
	// longRetry is the pause after a refusal that this build cannot cure by
	// itself; the tracker may have been updated meanwhile.
	longRetry = 10 * time.Minute
	// steadyAfter is how long a connection must stand before its loss starts
	// the backoff from the beginning.
	steadyAfter = 10 * time.Second
)

func (o Options) withDefaults() (Options, error) {
	u, err := trackerURL(o.URL)
	if err != nil {
		return o, err
	}
	o.URL = u
	if o.Identity == nil {
		return o, protocol.Errorf(protocol.CodeInvalidRequest, "control channel without an identity")
	}
	if n := len(o.PinnedTracker); n != 0 && n != ed25519.PublicKeySize {
		return o, protocol.Errorf(protocol.CodeInvalidRequest, "pinned tracker key of %d bytes", n)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock.Now == nil {
		o.Clock.Now = time.Now
	}
	if o.Clock.Wait == nil {
		o.Clock.Wait = wait
	}
	if o.Clock.Jitter == nil {
		o.Clock.Jitter = rand.Float64
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.HandshakeTimeout, 10*time.Second)
	def(&o.CallTimeout, 10*time.Second)
	def(&o.WriteTimeout, 10*time.Second)
	def(&o.Silence, 45*time.Second)
	return o, nil
}

// trackerURL brings the forms that people type to ws or wss with a path.
func trackerURL(s string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil {
		return "", protocol.Errorf(protocol.CodeInvalidRequest, "tracker address: %w", err)
	}
	switch u.Scheme {
	case "http":
		u.Scheme = "ws"
	case "https":
		u.Scheme = "wss"
	case "ws", "wss":
	default:
		return "", protocol.Errorf(protocol.CodeInvalidRequest, "tracker address %.200q: want http, https, ws or wss", s)
	}
	if u.Host == "" {
		return "", protocol.Errorf(protocol.CodeInvalidRequest, "tracker address %.200q has no host", s)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/nodes"
	}
	u.Fragment = ""
	return u.String(), nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
