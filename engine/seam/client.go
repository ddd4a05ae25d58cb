package seam

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/tlsio"
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

// ClientOption changes a client at NewClient.
type ClientOption func(*Client)

// WithUpgrade carries streams over "Upgrade: neuron-seam/1", bare frames on
// the connection, instead of a full-duplex POST: the same frames, fewer copies.
func WithUpgrade() ClientOption { return func(c *Client) { c.upgrade = true } }

// WithHeaderWait bounds the wait for response headers; 10 s if not given.
func WithHeaderWait(d time.Duration) ClientOption { return func(c *Client) { c.headerWait = d } }

// WithLiveness sets how long a peer may be silent beyond its stated step time
// (3 s if not given) and how often we give a sign of life (1 s).
func WithLiveness(silence, pingEvery time.Duration) ClientOption {
	return func(c *Client) { c.silence, c.pingEvery = silence, pingEvery }
}

// maxPeers bounds the pools; the measured peers of a node are far fewer.
const maxPeers = 256

// NewClient returns a client that shows id to its peers. Close it.
func NewClient(id *identity.Identity, opts ...ClientOption) *Client {
	c := &Client{
		id: id, headerWait: defaultHeaderWait, silence: defaultSilence, pingEvery: defaultPingEvery,
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
		return nil, errorf(protocol.CodeShutdown, "the seam client is closed")
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
			return errorf(protocol.CodeInternal, "encode request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+hop.Addr+path, body)
	if err != nil {
		return errorf(protocol.CodeInvalidRequest, "address %.100q: %w", hop.Addr, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", contentJSON)
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return c.lost(ctx, hop, protocol.CodeUnavailable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		return readError(resp)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReplyBody+1))
	if err != nil {
		return c.lost(ctx, hop, protocol.CodeUnavailable, err)
	}
	if len(b) > maxReplyBody {
		return errorf(protocol.CodeRequestTooLarge, "answer of node %s exceeds %d bytes", hop.Node.Short(), maxReplyBody)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return errorf(protocol.CodeInvalidRequest, "answer of node %s is malformed: %w", hop.Node.Short(), err)
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
		return errorf(protocol.CodeStageFrozen, "node %s gave no sign of life for %s", hop.Node.Short(), c.silence)
	case errors.Is(cause, context.DeadlineExceeded), errors.Is(cause, errHeaderWait):
		return errorf(protocol.CodeTimeout, "node %s did not answer in time: %w", hop.Node.Short(), err)
	case cause != nil:
		return errorf(protocol.CodeCancelled, "the request was cancelled: %w", cause)
	case errors.As(err, &e):
		return e
	}
	return errorf(code, "node %s cannot be reached at %s: %w", hop.Node.Short(), hop.Addr, err)
}

// Open opens the session of r's lease on hop, which is the route's hop r.Hop.
func (c *Client) Open(ctx context.Context, hop protocol.Hop, r *protocol.OpenRequest) (*protocol.OpenReply, error) {
	var reply protocol.OpenReply
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := c.expectSigns(ctx, cancel)
	defer stop()
	err := c.call(ctx, hop, http.MethodPost, pathSessions, openWait, r, http.StatusCreated, &reply)
	if err != nil {
		return nil, protocol.AsError(err).AtHop(r.Hop).InPhase(protocol.PhaseOpening)
	}
	return &reply, nil
}

// expectSigns cancels a request that opens something when its node gives no
// sign of life for the client's silence: a busy one sends interim responses
// (see Server.signs), a frozen one gives no error by itself. The returned
// context is for the request; stop ends the watch.
func (c *Client) expectSigns(ctx context.Context, cancel context.CancelCauseFunc) (_ context.Context, stop func()) {
	watch := time.AfterFunc(c.silence, func() { cancel(errNoSign) })
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			watch.Reset(c.silence)
			return nil
		},
	}), func() { watch.Stop() }
}

// State asks how a session is doing on hop, also for a while after its end.
func (c *Client) State(ctx context.Context, hop protocol.Hop, s protocol.SessionID) (*protocol.SessionState, error) {
	var st protocol.SessionState
	if err := c.call(ctx, hop, http.MethodGet, sessionPath(s), c.headerWait, nil, http.StatusOK, &st); err != nil {
		return nil, err
	}
	return &st, nil
}

// Release ends a session on hop and returns when its KV is free there. A
// session that the hop does not know is released.
func (c *Client) Release(ctx context.Context, hop protocol.Hop, s protocol.SessionID) error {
	err := c.call(ctx, hop, http.MethodDelete, sessionPath(s), openWait, nil, http.StatusNoContent, nil)
	if isCode(err, protocol.CodeSessionUnknown) {
		return nil
	}
	return err
}

// Report asks a node for its stage's capability report.
func (c *Client) Report(ctx context.Context, addr string, node protocol.NodeID) (*protocol.Capability, error) {
	var r protocol.Capability
	hop := protocol.Hop{Node: node, Addr: addr}
	if err := c.call(ctx, hop, http.MethodGet, pathReport, c.headerWait, nil, http.StatusOK, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// Ping measures one round trip to a node over a kept connection; when there is
// none it makes one first, whose handshakes are not part of the figure.
func (c *Client) Ping(ctx context.Context, addr string, node protocol.NodeID) (time.Duration, error) {
	hop := protocol.Hop{Node: node, Addr: addr}
	for try := 0; ; try++ {
		var reused bool
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused },
		})
		start := time.Now()
		if err := c.call(traced, hop, http.MethodGet, pathPing, c.headerWait, nil, http.StatusNoContent, nil); err != nil {
			return 0, err
		}
		if reused || try == 2 {
			return time.Since(start), nil
		}
	}
}

// Stream opens the session's frame stream to hop, the route's first one, and
// through it the whole chain: a stream means that every hop stands. The
// session lives as long as ctx and the stream.
func (c *Client) Stream(ctx context.Context, hop protocol.Hop, s protocol.SessionID) (Stream, error) {
	st, err := c.openStream(ctx, ctx, hop, 0, s, c.headerWait)
	if err != nil {
		return nil, err.InPhase(protocol.PhaseOpening)
	}
	return st, nil
}

// Tokens opens the stream of tokens from the route's last hop to the driver.
func (c *Client) Tokens(ctx context.Context, hop protocol.Hop, s protocol.SessionID) (TokenStream, error) {
	car, resp, err := c.dial(ctx, ctx, hop, http.MethodGet, tokensPath(s), false, c.headerWait)
	if err != nil {
		return nil, err.InPhase(protocol.PhaseOpening)
	}
	return c.adopt(ctx, car, resp, hop, -1, func(k protocol.Kind) bool {
		return k == protocol.KindToken || k == protocol.KindAck
	})
}

// openStream opens a frame stream to the route's hop index. The stream lives
// as long as life; ctx bounds only its opening.
func (c *Client) openStream(life, ctx context.Context, hop protocol.Hop, index int, s protocol.SessionID, wait time.Duration) (*stream, *protocol.Error) {
	car, resp, err := c.dial(life, ctx, hop, http.MethodPost, streamPath(s), c.upgrade, wait)
	if err != nil {
		if err.Code != protocol.CodeCancelled {
			err = err.AtHop(index)
		}
		return nil, err
	}
	st, aerr := c.adopt(life, car, resp, hop, index, func(k protocol.Kind) bool { return k == protocol.KindAck })
	if aerr != nil {
		return nil, protocol.AsError(aerr)
	}
	return st.(*stream), nil
}
