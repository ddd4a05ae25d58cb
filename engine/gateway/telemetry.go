package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/gateway/events"
	"neuron/engine/protocol"
)

// listSessions serves GET /v1/sessions: the newest snapshot of each session
// that this gateway started lately, newest session first.
func (g *Gateway) listSessions(w http.ResponseWriter, _ *http.Request) {
	data := []protocol.Telemetry{}
	for _, id := range g.recent.Newest() {
		if t, ok := g.o.Backend.Telemetry(id); ok {
			data = append(data, g.recent.Correct(t))
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Object string               `json:"object"`
		Data   []protocol.Telemetry `json:"data"`
	}{"list", data})
}

// session finds the snapshot that a path names.
func (g *Gateway) session(r *http.Request) (protocol.Telemetry, *protocol.Error) {
	id, err := protocol.ParseSessionID(r.PathValue("id"))
	if err != nil {
		return protocol.Telemetry{}, protocol.AsError(err)
	}
	t, ok := g.o.Backend.Telemetry(id)
	if !ok {
		return t, protocol.Errorf(protocol.CodeSessionUnknown, "there is no session %s here, or it ended long ago", id)
	}
	return g.recent.Correct(t), nil
}

// getSession serves GET /v1/sessions/{id}.
func (g *Gateway) getSession(w http.ResponseWriter, r *http.Request) {
	t, err := g.session(r)
	if err != nil {
		writeError(w, err, 0)
		return
	}
	writeJSON(w, http.StatusOK, t)
}

// watchSession serves the websocket GET /v1/sessions/{id}/watch: snapshots as
// JSON texts, the first at once, the last when the session has ended; then the
// server closes in order.
func (g *Gateway) watchSession(w http.ResponseWriter, r *http.Request) {
	t, err := g.session(r)
	if err != nil {
		writeError(w, err, 0)
		return
	}
	g.watch(w, r, t.Session, &t)
}

// watchAll serves the websocket GET /v1/sessions/watch: snapshots of all
// sessions.
func (g *Gateway) watchAll(w http.ResponseWriter, r *http.Request) { g.watch(w, r, "", nil) }

// watch runs one websocket. The handler's goroutine writes; one more reads, to
// see the client's close and pongs, and ends before watch returns.
func (g *Gateway) watch(w http.ResponseWriter, r *http.Request, id protocol.SessionID, first *protocol.Telemetry) {
	if !websocket.IsWebSocketUpgrade(r) {
		writeError(w, protocol.Errorf(protocol.CodeInvalidRequest, "this path is a websocket"), http.StatusUpgradeRequired)
		return
	}
	up := websocket.Upgrader{
		CheckOrigin: func(*http.Request) bool { return true }, // webguard has checked it
		Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
			writeError(w, protocol.Errorf(protocol.CodeInvalidRequest, "websocket: %w", reason), status)
		},
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	snapshots := g.o.Backend.Watch(ctx, id)
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	const silence = 3 // intervals without a sign of life
	conn.SetReadLimit(4 << 10)
	alive := func() { _ = conn.SetReadDeadline(time.Now().Add(silence * g.o.KeepAlive)) }
	alive()
	conn.SetPongHandler(func(string) error { alive(); return nil })
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		defer cancel()
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				return
			}
			alive()
		}
	}()
	code, text := websocket.CloseNormalClosure, ""
	defer func() {
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(time.Second))
		conn.Close()
		<-reading
	}()
	send := func(t protocol.Telemetry) error {
		_ = conn.SetWriteDeadline(time.Now().Add(events.Limit))
		return conn.WriteJSON(t)
	}
	var seen uint64
	if first != nil {
		if send(*first) != nil || first.Phase.Ended() {
			return
		}
		seen = first.Seq
	}
	ping := time.NewTicker(g.o.KeepAlive)
	defer ping.Stop()
	for {
		select {
		case t, open := <-snapshots:
			if !open {
				if g.base.Err() != nil {
					code, text = websocket.CloseGoingAway, string(protocol.CodeShutdown)
				}
				return
			}
			if id != "" && t.Seq <= seen && !t.Phase.Ended() {
				continue
			}
			if send(g.recent.Correct(t)) != nil || id != "" && t.Phase.Ended() {
				return
			}
		case <-ping.C:
			if conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(events.Limit)) != nil {
				return
			}
		case <-ctx.Done():
			if g.base.Err() != nil {
				code, text = websocket.CloseGoingAway, string(protocol.CodeShutdown)
			}
			return
		}
	}
}
