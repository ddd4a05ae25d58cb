package control

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"net/url"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// Client keeps one connection to the tracker. All methods are safe for
// concurrent use; Run owns every goroutine.
type Client struct {
	o      Options
	out    *outbox
	report chan struct{} // room for one: "report now"

	mu sync.Mutex
	// Protected by mu.
	state   State
	key     ed25519.PublicKey // trusted tracker key, nil until known
	token   string            // of the newest welcome
	link    *link             // nil unless connected
	linked  chan struct{}     // closed while link is set
	nextID  uint64
	running bool
}

// New checks o and reads the remembered tracker key; it does not connect.
func New(o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{o: o, out: newOutbox(), report: make(chan struct{}, 1), key: o.PinnedTracker, linked: make(chan struct{})}
	c.state = State{URL: o.URL, Status: StatusIdle, Since: o.Clock.Now()}
	if c.key == nil && o.Trust != nil {
		if c.key, err = o.Trust.Key(o.URL); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Run connects, serves the connection and connects again until ctx ends (nil)
// or a newer process with the same identity took over (CodeSuperseded). It may
// run once.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.running {
		c.mu.Unlock()
		return protocol.Errorf(protocol.CodeInternal, "the control channel runs already")
	}
	c.running = true
	c.mu.Unlock()

	backoff := minBackoff
	for attempts := 0; ; {
		c.setState(State{Status: StatusConnecting, Attempts: attempts})
		end := c.serve(ctx)
		if ctx.Err() != nil {
			c.setState(State{Status: StatusStopped})
			return nil
		}
		if end.err.Code == protocol.CodeSuperseded {
			c.setState(State{Status: StatusSuperseded, Error: end.err})
			c.o.Logger.Error("control channel superseded", "code", end.err.Code)
			return end.err
		}
		if end.stood >= steadyAfter {
			backoff = minBackoff
		}
		if end.welcomed {
			attempts = 0
		}
		attempts++
		pause := backoff/2 + time.Duration(c.o.Clock.Jitter()*float64(backoff/2))
		backoff = min(backoff*2, maxBackoff)
		status := StatusWaiting
		if end.refused {
			status = StatusRefused
		}
		switch {
		case end.retryAfter > 0:
			// Spread over a tenth, so that a tracker that sent everybody away
			// is not met by everybody at once.
			pause = max(pause, end.retryAfter+time.Duration(c.o.Clock.Jitter()*float64(end.retryAfter/10)))
		case end.refused:
			pause = longRetry
		}
		c.setState(State{Status: status, Error: end.err, Retry: c.o.Clock.Now().Add(pause), Attempts: attempts})
		c.o.Logger.Warn("control channel lost", "code", end.err.Code, "reason", end.err.Message, "pause", pause)
		if err := c.o.Clock.Wait(ctx, pause); err != nil {
			c.setState(State{Status: StatusStopped})
			return nil
		}
	}
}

// setState fills in what does not change with the status.
func (c *Client) setState(s State) {
	c.mu.Lock()
	s.URL, s.Since = c.state.URL, c.o.Clock.Now()
	if s.Epoch == 0 {
		s.Epoch = c.state.Epoch
	}
	if s.Status == StatusConnecting {
		s.Error = c.state.Error // keep the last reason visible while trying
	}
	if s.Status != StatusConnected {
		s.Network = c.state.Network
	}
	c.state = s
	c.mu.Unlock()
	if c.o.OnState != nil {
		c.o.OnState(s)
	}
}

// State is a snapshot for status displays.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Connected reports whether questions can be asked now.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link != nil
}

// Await waits until questions can be asked, or for ctx's error.
func (c *Client) Await(ctx context.Context) error {
	c.mu.Lock()
	linked := c.linked
	c.mu.Unlock()
	select {
	case <-linked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TrackerKey is the key that leases must be signed with, nil before the first
// contact with a tracker that is neither pinned nor remembered.
func (c *Client) TrackerKey() ed25519.PublicKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.key
}

// AnnounceToken is this node's way to private models, "" before the first
// contact. It is a secret.
func (c *Client) AnnounceToken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token
}

// maxToken bounds it; it becomes part of URLs.
const maxToken = 512

func (c *Client) keepToken(token string) {
	if len(token) > maxToken || url.PathEscape(token) != token {
		c.o.Logger.Warn("announce token is not usable", "bytes", len(token))
		return
	}
	c.mu.Lock()
	c.token = token
	c.mu.Unlock()
}

// checkKey compares the offered key with the trusted one.
func (c *Client) checkKey(offered ed25519.PublicKey) *protocol.Error {
	if len(offered) != ed25519.PublicKeySize {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the tracker's key has %d bytes", len(offered))
	}
	if known := c.TrackerKey(); known != nil && !bytes.Equal(known, offered) {
		return protocol.Errorf(protocol.CodeUnauthorized, "the tracker has another key than the one this node trusts")
	}
	return nil
}

// acceptKey makes offered the trusted key; a store that cannot be written is
// not a reason to stay away from the network.
func (c *Client) acceptKey(offered ed25519.PublicKey) {
	c.mu.Lock()
	first := c.key == nil
	if first {
		c.key = bytes.Clone(offered)
	}
	c.mu.Unlock()
	if first && c.o.Trust != nil {
		if err := c.o.Trust.Remember(c.o.URL, offered); err != nil {
			c.o.Logger.Error("tracker key not saved", "error", err)
		}
	}
}

// SendSession hands telemetry to the tracker. It never blocks; of snapshots
// that wait, the newest of each phase is kept, also across a lost connection.
func (c *Client) SendSession(t protocol.Telemetry) { c.out.putTelemetry(t) }

// HopFailed blames a hop; it never blocks and survives a lost connection.
func (c *Client) HopFailed(s protocol.SessionID, n protocol.NodeID, e *protocol.Error) {
	c.out.putBlame(protocol.HopFailed{Session: s, Node: n, Error: e})
}

// ReportNow sends a report as soon as possible; it never blocks.
func (c *Client) ReportNow() {
	select {
	case c.report <- struct{}{}:
	default:
	}
}

// Route asks for a lease. Errors: what the tracker answers (no_route,
// kv_budget, model_not_found...), unavailable without a connection, timeout.
// The lease comes as it is; the caller verifies it against TrackerKey.
func (c *Client) Route(ctx context.Context, r protocol.RouteRequest) (*protocol.RouteReply, error) {
	e, err := c.call(ctx, protocol.MsgRoute, r, protocol.MsgLease)
	if err != nil {
		return nil, err
	}
	reply, err := protocol.Unpack[protocol.RouteReply](e)
	if err != nil {
		return nil, badAnswer(err)
	}
	if reply.Lease == nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the tracker answered without a lease")
	}
	return reply, nil
}

// Models asks what the network serves. Entries that are not well formed are
// left out.
func (c *Client) Models(ctx context.Context) ([]protocol.ModelInfo, error) {
	e, err := c.call(ctx, protocol.MsgModels, struct{}{}, protocol.MsgModels)
	if err != nil {
		return nil, err
	}
	m, err := protocol.Unpack[protocol.Models](e)
	if err != nil {
		return nil, badAnswer(err)
	}
	out := m.Models[:0]
	for _, i := range m.Models {
		if _, err := protocol.ParseModelID(string(i.Model)); err == nil && i.Name != "" && len(i.Name) <= 256 &&
			i.Layers > 0 && i.Layers <= 4096 && len(i.Replicas) <= i.Layers && i.Context >= 0 {
			out = append(out, i)
		}
	}
	return out, nil
}

// Place asks what this node should hold. The caller checks the range against
// the model's manifest.
func (c *Client) Place(ctx context.Context, q protocol.PlaceRequest) (*protocol.Placement, error) {
	e, err := c.call(ctx, protocol.MsgPlace, q, protocol.MsgPlace)
	if err != nil {
		return nil, err
	}
	p, err := protocol.Unpack[protocol.Placement](e)
	if err != nil {
		return nil, badAnswer(err)
	}
	if _, err := protocol.ParseModelID(string(p.Model)); err != nil {
		return nil, badAnswer(err)
	}
	if p.Range.First < 0 || p.Range.Len() < 1 || p.Name == "" || len(p.Name) > 256 || len(p.Reason) > 1024 {
		return nil, badAnswer(protocol.Errorf(protocol.CodeRangeInvalid, "a placement of layers %s", p.Range))
	}
	return p, nil
}

func badAnswer(err error) *protocol.Error {
	return protocol.Errorf(protocol.CodeUnavailable, "the tracker's answer is malformed: %w", err)
}

// call asks one question and waits for its answer.
func (c *Client) call(ctx context.Context, kind protocol.MessageKind, body any, want protocol.MessageKind) (*protocol.Envelope, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	defer cancel()
	c.mu.Lock()
	l := c.link
	c.nextID++
	id := c.nextID
	c.mu.Unlock()
	if l == nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "no connection to the tracker")
	}
	e, err := protocol.Pack(kind, id, body)
	if err != nil {
		return nil, err
	}
	answer := l.expect(id)
	defer l.forget(id)
	ended := func() error {
		if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
			return protocol.Errorf(protocol.CodeTimeout, "the tracker did not answer within %s", c.o.CallTimeout)
		}
		return protocol.Errorf(protocol.CodeCancelled, "the question to the tracker was cancelled: %w", ctx.Err())
	}
	lost := func() error {
		return protocol.Errorf(protocol.CodeUnavailable, "the connection to the tracker was lost")
	}
	select {
	case l.send <- e:
	case <-l.done:
		return nil, lost()
	case <-ctx.Done():
		return nil, ended()
	}
	select {
	case a := <-answer:
		switch a.Kind {
		case want:
			return a, nil
		case protocol.MsgError:
			pe, _ := protocol.Unpack[protocol.Error](a)
			return nil, cleanError(pe, protocol.CodeUnavailable, "the tracker answered with an error")
		}
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the tracker answered %s with %.64q", string(kind), string(a.Kind))
	case <-l.done:
		return nil, lost()
	case <-ctx.Done():
		return nil, ended()
	}
}
