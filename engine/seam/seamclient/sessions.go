package seamclient

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/wire"
)

// Open opens the session of r's lease on hop, which is the route's hop r.Hop.
func (c *Client) Open(ctx context.Context, hop protocol.Hop, r *protocol.OpenRequest) (*protocol.OpenReply, error) {
	var reply protocol.OpenReply
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := c.expectSigns(ctx, cancel)
	defer stop()
	err := c.call(ctx, hop, http.MethodPost, wire.PathSessions, wire.OpenWait, r, http.StatusCreated, &reply)
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
	if err := c.call(ctx, hop, http.MethodGet, wire.SessionPath(s), c.headerWait, nil, http.StatusOK, &st); err != nil {
		return nil, err
	}
	return &st, nil
}

// Release ends a session on hop and returns when its KV is free there. A
// session that the hop does not know is released.
func (c *Client) Release(ctx context.Context, hop protocol.Hop, s protocol.SessionID) error {
	err := c.call(ctx, hop, http.MethodDelete, wire.SessionPath(s), wire.OpenWait, nil, http.StatusNoContent, nil)
	if errors.Is(err, &protocol.Error{Code: protocol.CodeSessionUnknown}) {
		return nil
	}
	return err
}

// Report asks a node for its stage's capability report.
func (c *Client) Report(ctx context.Context, addr string, node protocol.NodeID) (*protocol.Capability, error) {
	var r protocol.Capability
	hop := protocol.Hop{Node: node, Addr: addr}
	if err := c.call(ctx, hop, http.MethodGet, wire.PathReport, c.headerWait, nil, http.StatusOK, &r); err != nil {
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
		if err := c.call(traced, hop, http.MethodGet, wire.PathPing, c.headerWait, nil, http.StatusNoContent, nil); err != nil {
			return 0, err
		}
		if reused || try == 2 {
			return time.Since(start), nil
		}
	}
}
