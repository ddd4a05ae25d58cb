// Package seamclient is the client side of the seam: it opens sessions on other
// nodes, streams frames to them and tokens from them, and asks about receipts,
// audits and round trips. Package seam says how frames travel.
//
// The seam's server uses it towards the next hop; the driver (engine/session),
// the composition of the engine, the benchmark and tests import it. It knows
// nothing of stages or the tracker, nor what a session is for.
//
// Rules of net/http that shape the code, each found by measuring:
//
//   - the request body must be one whose Read ends with the context, for the
//     transport waits for a blocked Read even after its deadline;
//   - the transport's own timer for response headers starts at the end of the
//     body, so we keep one of our own.
package seamclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/tlsio"
	"neuron/engine/seam/wire"
	"neuron/internal/identity"
)

// Client talks to the seams of other nodes. It keeps connections, one pool per
// node id, and is safe for concurrent use. Every error is a *protocol.Error.
type Client struct {
	id         *identity.Identity
	headerWait time.Duration
	silence    time.Duration
	pingEvery  time.Duration
	upgrade    bool
	ctx        context.Context // ends with Close, and all streams with it
	cancel     context.CancelFunc

	mu      sync.Mutex // guards below
	closed  bool
	peers   map[protocol.NodeID]*http.Transport
	streams map[*stream]struct{}
}

// Option changes a client at New.
type Option func(*Client)

// WithUpgrade carries streams over "Upgrade: neuron-seam/1", bare frames on
// the connection, instead of a full-duplex POST: the same frames, fewer copies.
func WithUpgrade() Option { return func(c *Client) { c.upgrade = true } }

// WithHeaderWait bounds the wait for response headers; 10 s if not given.
func WithHeaderWait(d time.Duration) Option { return func(c *Client) { c.headerWait = d } }

// WithLiveness sets how long a peer may be silent beyond its stated step time
// (3 s if not given) and how often we give a sign of life (1 s).
func WithLiveness(silence, pingEvery time.Duration) Option {
	return func(c *Client) { c.silence, c.pingEvery = silence, pingEvery }
}

// maxPeers bounds the pools; the measured peers of a node are far fewer.
const maxPeers = 256

// New returns a client that shows id to its peers. Close it.
func New(id *identity.Identity, opts ...Option) *Client {
	c := &Client{
		id: id, headerWait: wire.DefaultHeaderWait, silence: wire.DefaultSilence, pingEvery: wire.DefaultPingEvery,
		peers: map[protocol.NodeID]*http.Transport{}, streams: map[*stream]struct{}{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, o := range opts {
		o(c)
	}
	return c
}

// Close ends all streams and connections and waits for their goroutines.
func (c *Client) Close() {
	c.cancel()
	c.mu.Lock()
	c.closed = true
	var open []*stream
	for s := range c.streams {
		open = append(open, s)
	}
	peers := c.peers
	c.peers = map[protocol.NodeID]*http.Transport{}
	c.mu.Unlock()
	for _, s := range open {
		<-s.readDone
		<-s.writeDone
	}
	for _, t := range peers {
		t.CloseIdleConnections()
	}
}

// transport returns the pool of a node. Pools pin the node's key, so they are
// kept per node and not per address.
func (c *Client) transport(node protocol.NodeID) (*http.Transport, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, protocol.Errorf(protocol.CodeShutdown, "the seam client is closed")
	}
	if t, ok := c.peers[node]; ok {
		return t, nil
	}
	if len(c.peers) >= maxPeers {
		for n, t := range c.peers { // any one; it is made anew when needed
			t.CloseIdleConnections()
			delete(c.peers, n)
			break
		}
	}
	conf := c.id.ClientTLS(node)
	t := &http.Transport{
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return tlsio.Dial(ctx, network, addr, conf, c.headerWait)
		},
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
		MaxIdleConnsPerHost: 4,
		// Shorter than the server's, so that we seldom meet a closing one.
		IdleConnTimeout:        60 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 16 << 10,
		// A decode frame of the usual widths goes out in one write.
		WriteBufferSize: 64 << 10,
		ReadBufferSize:  32 << 10,
	}
	c.peers[node] = t
	return t, nil
}

// maxReplyBody bounds a short answer, in bytes.
const maxReplyBody = 1 << 20

// call makes a request with a short answer. want is the expected status; out
// is filled from the answer unless it is nil.
func (c *Client) call(ctx context.Context, hop protocol.Hop, method, path string, wait time.Duration, in any, want int, out any) error {
	t, err := c.transport(hop.Node)
	if err != nil {
		return err
	}
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return protocol.Errorf(protocol.CodeInternal, "encode request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+hop.Addr+path, body)
	if err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "address %.100q: %w", hop.Addr, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", wire.ContentJSON)
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return c.lost(ctx, hop, protocol.CodeUnavailable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		return wire.ReadError(resp)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReplyBody+1))
	if err != nil {
		return c.lost(ctx, hop, protocol.CodeUnavailable, err)
	}
	if len(b) > maxReplyBody {
		return protocol.Errorf(protocol.CodeRequestTooLarge, "answer of node %s exceeds %d bytes", hop.Node.Short(), maxReplyBody)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "answer of node %s is malformed: %w", hop.Node.Short(), err)
	}
	return nil
}

// lost turns a transport's error into a coded one: of the context, of the
// handshake (wrong key), or code.
func (c *Client) lost(ctx context.Context, hop protocol.Hop, code protocol.Code, err error) *protocol.Error {
	var e *protocol.Error
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errNoSign):
		return protocol.Errorf(protocol.CodeStageFrozen, "node %s gave no sign of life for %s", hop.Node.Short(), c.silence)
	case errors.Is(cause, context.DeadlineExceeded), errors.Is(cause, errHeaderWait):
		return protocol.Errorf(protocol.CodeTimeout, "node %s did not answer in time: %w", hop.Node.Short(), err)
	case cause != nil:
		return protocol.Errorf(protocol.CodeCancelled, "the request was cancelled: %w", cause)
	case errors.As(err, &e):
		return e
	}
	return protocol.Errorf(code, "node %s cannot be reached at %s: %w", hop.Node.Short(), hop.Addr, err)
}
