package control

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
	"neuron/internal/proxy"
)

func (c *Client) dial(ctx context.Context) (*websocket.Conn, error) {
	d := websocket.Dialer{
		Proxy: proxy.For, TLSClientConfig: c.o.TLS,
		HandshakeTimeout: c.o.HandshakeTimeout, ReadBufferSize: 16 << 10, WriteBufferSize: 16 << 10,
	}
	dctx, cancel := context.WithTimeout(ctx, c.o.HandshakeTimeout)
	defer cancel()
	ws, resp, err := d.DialContext(dctx, c.o.URL, nil)
	if err == nil {
		return ws, nil
	}
	if resp == nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the tracker cannot be reached: %w", err)
	}
	f := &farewell{err: protocol.Errorf(protocol.CodeUnavailable, "the tracker answered with status %d", resp.StatusCode)}
	if s, aerr := strconv.Atoi(resp.Header.Get("Retry-After")); aerr == nil {
		f.retry = clampRetry(s)
	}
	if resp.StatusCode == http.StatusUpgradeRequired {
		f.refused = true
		f.err.Code = protocol.CodeProtocolVersion
	}
	return nil, f
}

// hello reads the challenge, proves our key and reads the verdict.
func (c *Client) hello(ws *websocket.Conn) (*protocol.Welcome, error) {
	deadline := time.Now().Add(c.o.HandshakeTimeout)
	ws.SetReadDeadline(deadline)
	ws.SetWriteDeadline(deadline)
	e, err := readEnvelope(ws)
	if err != nil {
		return nil, err
	}
	if e.Kind == protocol.MsgRefused {
		return nil, refusal(e)
	}
	if e.Kind != protocol.MsgChallenge {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the tracker opened with %.64q", string(e.Kind))
	}
	ch, err := protocol.Unpack[protocol.Challenge](e)
	if err != nil {
		return nil, err
	}
	if ch.Protocol != protocol.Version {
		return nil, &farewell{refused: true, err: protocol.Errorf(protocol.CodeProtocolVersion,
			"the tracker speaks protocol %d, this build %d", ch.Protocol, protocol.Version)}
	}
	if len(ch.Nonce) != 32 {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the tracker's nonce has %d bytes", len(ch.Nonce))
	}
	if err := c.checkKey(ch.Tracker); err != nil {
		return nil, &farewell{refused: true, err: err}
	}
	h, err := protocol.Pack(protocol.MsgHello, 0, protocol.Hello{
		Protocol: protocol.Version, Engine: c.o.Engine, Build: c.o.Build, Role: c.o.Role,
		Key: c.o.Identity.Public(), Sig: c.o.Identity.Sign(protocol.HelloPayload(ch.Nonce, ch.Tracker)),
		Addr: c.o.Addr, Host: c.o.Host,
	})
	if err != nil {
		return nil, err
	}
	if err := ws.WriteJSON(h); err != nil {
		return nil, err
	}
	if e, err = readEnvelope(ws); err != nil {
		return nil, err
	}
	switch e.Kind {
	case protocol.MsgRefused:
		return nil, refusal(e)
	case protocol.MsgWelcome:
	default:
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the tracker answered hello with %.64q", string(e.Kind))
	}
	w, err := protocol.Unpack[protocol.Welcome](e)
	if err != nil {
		return nil, err
	}
	if w.Node != c.o.Identity.ID() || string(w.Tracker) != string(ch.Tracker) {
		return nil, protocol.Errorf(protocol.CodeUnauthorized, "the tracker's welcome is for another node or from another key")
	}
	c.acceptKey(ch.Tracker)
	return w, nil
}

// refusal turns a refused or bye message into the way the connection ends.
func refusal(e *protocol.Envelope) *farewell {
	r := &protocol.Refused{}
	if u, err := protocol.Unpack[protocol.Refused](e); err == nil {
		r = u
	}
	f := &farewell{retry: clampRetry(r.RetryAfter)}
	if e.Kind == protocol.MsgBye {
		f.err = cleanError(r.Error, protocol.CodeUnavailable, "the tracker left")
		return f
	}
	f.err = cleanError(r.Error, protocol.CodeForbidden, "the tracker refused this node")
	f.refused = true
	return f
}
