package feed

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
)

// ServeHTTP serves GET /v1/telemetry[?session=ID | ?model=ID or NAME]. Errors
// before the upgrade: invalid_request, rate_limited, unavailable, shutdown.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := &sub{wake: make(chan struct{}, 1), ip: address(r)}
	q := r.URL.Query()
	s.session, s.model = protocol.SessionID(q.Get("session")), q.Get("model")
	var err error
	switch {
	case s.session != "" && s.model != "":
		err = protocol.Errorf(protocol.CodeInvalidRequest, "subscribe to a session or to a model, not to both")
	case s.session != "":
		_, err = protocol.ParseSessionID(string(s.session))
	case len(s.model) > 256:
		err = protocol.Errorf(protocol.CodeInvalidRequest, "a model name of %d bytes", len(s.model))
	case !websocket.IsWebSocketUpgrade(r):
		err = protocol.Errorf(protocol.CodeInvalidRequest, "this is a websocket; GET /v1/sessions is the list")
	}
	if err == nil {
		err = h.add(s)
	}
	if err != nil {
		writeError(w, protocol.AsError(err))
		return
	}
	defer h.remove(s)
	ws, err := h.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	h.serve(ws, s)
}

func (h *Hub) add(s *sub) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return protocol.Errorf(protocol.CodeShutdown, "the tracker is stopping")
	case len(h.subs) >= h.o.Max:
		return protocol.Errorf(protocol.CodeUnavailable, "%d others listen already", h.o.Max)
	case h.perIP[s.ip] >= h.o.MaxPerAddress:
		return protocol.Errorf(protocol.CodeRateLimited, "this address listens %d times already", h.o.MaxPerAddress)
	}
	h.subs[s] = struct{}{}
	h.perIP[s.ip]++
	h.wg.Add(1)
	return nil
}

func (h *Hub) remove(s *sub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
	if h.perIP[s.ip]--; h.perIP[s.ip] <= 0 {
		delete(h.perIP, s.ip)
	}
	h.wg.Done()
}

// serve writes until one side ends. The connection's one reader ends with it.
func (h *Hub) serve(ws *websocket.Conn, s *sub) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		ws.SetReadLimit(readLimit)
		alive := func() { _ = ws.SetReadDeadline(time.Now().Add(2*h.o.Ping + h.o.Ping/2)) }
		alive()
		ws.SetPongHandler(func(string) error { alive(); return nil })
		for {
			if _, _, err := ws.NextReader(); err != nil { // what is sent is not read
				return
			}
		}
	}()
	defer func() {
		ws.Close()
		<-gone
	}()
	send := func(m Message) bool {
		raw, err := json.Marshal(m)
		return err == nil && h.write(ws, raw)
	}
	if !send(Message{Kind: "hello", Version: Version, PingSeconds: max(1, int(h.o.Ping/time.Second))}) {
		return
	}
	ping := time.NewTicker(h.o.Ping)
	defer ping.Stop()
	for {
		select {
		case <-gone:
			return
		case <-h.ctx.Done():
			_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, "the tracker is stopping"), time.Now().Add(time.Second))
			return
		case <-ping.C:
			if ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout)) != nil {
				return
			}
		case <-s.wake:
			list, lost := s.drain()
			if lost > 0 && !send(Message{Kind: "lost", Count: lost}) {
				return
			}
			for _, raw := range list {
				if !h.write(ws, raw) {
					return
				}
			}
		}
	}
}

func (h *Hub) write(ws *websocket.Conn, raw []byte) bool {
	_ = ws.SetWriteDeadline(time.Now().Add(writeTimeout))
	return ws.WriteMessage(websocket.TextMessage, raw) == nil
}

// address is what subscribers are counted by.
func address(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		p, err := ip.Prefix(64)
		if err == nil {
			return p.Addr()
		}
	}
	return ip
}

// refuse answers what the upgrader refuses: a wrong origin, a wrong version.
func refuse(w http.ResponseWriter, _ *http.Request, status int, reason error) {
	code := protocol.CodeInvalidRequest
	if status == http.StatusForbidden {
		code = protocol.CodeForbidden
	}
	writeError(w, protocol.Errorf(code, "no websocket: %s", reason.Error()))
}

func writeError(w http.ResponseWriter, e *protocol.Error) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(e.Code.HTTPStatus())
	raw, err := json.Marshal(e)
	if err != nil {
		return
	}
	_, _ = w.Write(raw)
}
