// Package accounts is the engine's client of the tracker's account API
// (docs/protocol/accounts.md): prices, who owns a node, pairing, balances,
// statements and API keys. Its types are also those of the local API.
//
// engine/ownership, engine/localapi, the composition and the command line import
// it. It keeps no keys on disk and decides nothing; what the tracker answers is
// checked for its form only.
package accounts

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"neuron/engine/protocol"
	"neuron/internal/proxy"
	"neuron/internal/signed"
)

// Options configure a Client.
type Options struct {
	// URL is the tracker's, http or https, without a slash at its end.
	URL string
	// TrackerKey is the tracker's public key, for which requests are signed; nil
	// while it is not known. It is asked at each use.
	TrackerKey func() ed25519.PublicKey
	// TLS is for https; nil takes the system's roots.
	TLS *tls.Config
	Now func() time.Time // default time.Now
}

// Client is safe for concurrent use and starts no goroutines but those of its
// connections. Requests that need a key take it as an argument: an owner's, or
// a node's, which may read. Errors of all methods: the tracker's own (not_found
// for a key without an account), unavailable, cancelled.
type Client struct {
	o    Options
	http *http.Client

	mu      sync.Mutex
	signers map[string]*signed.Client // by public key and audience; guarded by mu
}

const (
	requestTime = 30 * time.Second
	// maxSigners bounds what is kept: a node's key and an owner's.
	maxSigners = 8
)

// New connects to nothing.
func New(o Options) *Client {
	t := &http.Transport{
		Proxy: proxy.For, TLSClientConfig: o.TLS, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: requestTime,
		MaxIdleConns: 2, IdleConnTimeout: 15 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
	return &Client{o: o, signers: make(map[string]*signed.Client), http: &http.Client{
		Transport: t, Timeout: requestTime,
		// What is signed is signed for this tracker.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// do sends a request that key signs.
func (c *Client) do(ctx context.Context, key ed25519.PrivateKey, method, path string, in, out any) error {
	audience := c.o.TrackerKey()
	if len(audience) != ed25519.PublicKeySize {
		return protocol.Errorf(protocol.CodeUnavailable, "the tracker's key is not known yet: this computer has not reached the tracker")
	}
	err := c.signer(key, audience).Do(ctx, method, c.o.URL+path, in, out)
	var e *protocol.Error
	if !errors.As(err, &e) {
		return err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return protocol.Errorf(protocol.CodeCancelled, "the question to the tracker ended: %w", context.Cause(ctx))
	}
	c2 := *e
	c2.Message = Clean(e.Message, maxSentence)
	return &c2
}

// maxSentence bounds texts of the tracker that are shown to people, in bytes.
const maxSentence = 400

// Clean makes a text of somebody else's computer safe to show: no control
// characters, valid UTF-8, at most limit bytes.
func Clean(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), limit)], "")
}

func (c *Client) signer(key ed25519.PrivateKey, audience ed25519.PublicKey) *signed.Client {
	name := string(key.Public().(ed25519.PublicKey)) + string(audience)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.signers[name]
	if s == nil {
		if len(c.signers) >= maxSigners {
			clear(c.signers)
		}
		s = &signed.Client{HTTP: c.http, Key: key, Audience: audience, Now: c.o.Now}
		c.signers[name] = s
	}
	return s
}
