package localapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
)

// Times of event streams.
const (
	// keepAlive is the longest silence; a peer that is silent for three of them
	// is gone or frozen.
	keepAlive = 15 * time.Second
	silence   = 3 * keepAlive
	writeTime = 10 * time.Second
)

// wireTokenChanged closes a websocket whose token does not count any more.
const wireTokenChanged = 4401

// view is the newest state as it is sent, made once for all listeners.
type view struct {
	mu sync.Mutex
	// Protected by mu.
	made  time.Time
	after chan struct{} // the server's changed when the state was asked for
	key   []byte        // the state without what changes by itself
	body  []byte        // the Event; never changed, so that its address tells states apart
}

// look gives the newest state: the one of a moment ago, unless something has
// changed since. A state that is no other than the one before is the same
// slice. changed is closed when there may be another one.
func (s *Server) look() (body []byte, changed <-chan struct{}, err error) {
	s.mu.Lock()
	now := s.changed // taken before the state, so that no change is missed
	s.mu.Unlock()
	v := &s.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.body != nil && v.after == now && time.Since(v.made) < s.o.EventEvery/2 {
		return v.body, now, nil
	}
	e := Event{Status: s.o.Source.Status(), Sessions: s.o.Source.Sessions()}
	v.made, v.after = time.Now(), now
	key, err := json.Marshal(lasting(e))
	if err != nil {
		return nil, nil, err
	}
	if bytes.Equal(key, v.key) {
		return v.body, now, nil
	}
	if body, err = json.Marshal(e); err != nil {
		return nil, nil, err
	}
	v.key, v.body = key, body
	return body, now, nil
}

// coarse are the bits of memory and disk figures that are no news.
const coarse = 24

// lasting is an event without what changes while nothing happens: the uptime,
// and the last digits of what the system has free.
func lasting(e Event) Event {
	st := &e.Status
	st.UptimeSec, st.Goroutines, st.OpenFiles = 0, 0, 0
	m := &st.Memory
	for _, n := range []*int64{&m.Free, &m.DiskFree, &m.Engine, &m.Anonymous, &m.File} {
		*n >>= coarse
	}
	return e
}

// Listeners is the number of event streams that are read now.
func (s *Server) Listeners() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listeners
}

// follow sends the state: at once, and whenever it is another one; alive now and
// then. It returns why it ends: send's or alive's error, unauthorized when
// the token does not count any more, shutdown, or nil with ctx.
func (s *Server) follow(ctx context.Context, send func([]byte) error, alive func() error) error {
	s.mu.Lock()
	renewed := s.renewed
	s.listeners++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.listeners--
		s.mu.Unlock()
	}()
	tick := time.NewTicker(s.o.EventEvery)
	defer tick.Stop()
	var last []byte
	asked := time.Now()
	for {
		body, changed, err := s.look()
		if err != nil {
			return err
		}
		if last == nil || &body[0] != &last[0] {
			last = body
			if err := send(body); err != nil {
				return err
			}
		}
		// Also when there is always something to send: only the answer to it shows
		// that somebody reads.
		if time.Since(asked) >= keepAlive {
			asked = time.Now()
			if err := alive(); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-renewed:
			return protocol.Errorf(protocol.CodeUnauthorized, "the token of the local API is another one now")
		case <-s.stop:
			return protocol.Errorf(protocol.CodeShutdown, "the engine stops")
		case <-ctx.Done():
			return nil
		}
	}
}

// events answers GET /local/v1/events: messages of a websocket where one is
// asked for, else server-sent events, for scripts.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if websocket.IsWebSocketUpgrade(r) {
		s.socket(w, r)
		return
	}
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	write := func(parts ...string) error {
		if err := rc.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
			return err
		}
		for _, p := range parts {
			if _, err := w.Write([]byte(p)); err != nil {
				return err
			}
		}
		return rc.Flush()
	}
	err := s.follow(r.Context(),
		func(body []byte) error { return write("data: ", string(body), "\n\n") },
		func() error { return write(": alive\n\n") })
	s.ended(err)
}

func (s *Server) ended(err error) {
	if err != nil {
		s.o.Logger.Debug("An event stream has ended", "error", err)
	}
}

// upgrader leaves origins to check, which refuses all of them.
var upgrader = websocket.Upgrader{
	HandshakeTimeout: 5 * time.Second, ReadBufferSize: 1 << 10, WriteBufferSize: 4 << 10,
	CheckOrigin: func(*http.Request) bool { return true },
}

// maxWord bounds what a listener may send: it has nothing to say.
const maxWord = 512

// socket is events on a websocket. Its reader only answers pings and sees the
// end; it ends with the connection, and the handler waits for it.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.sockets.Add(1) // under the lock: Close waits after it has set closed
	}
	s.mu.Unlock()
	if closed {
		refuse(w, protocol.Errorf(protocol.CodeShutdown, "the engine stops"))
		return
	}
	defer s.sockets.Done()
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		s.ended(err) // it has been answered
		return
	}
	ws.SetReadLimit(maxWord)
	heard := func() { ws.SetReadDeadline(time.Now().Add(silence)) }
	heard()
	ws.SetPongHandler(func(string) error { heard(); return nil })
	// The request's context does not see the end of a connection that has been
	// taken over.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var reader sync.WaitGroup
	reader.Go(func() {
		defer cancel()
		_, _, err := ws.NextReader()
		if err == nil {
			s.o.Logger.Warn("A listener to events has sent a message and is dropped")
		}
	})
	err = s.follow(ctx,
		func(body []byte) error {
			ws.SetWriteDeadline(time.Now().Add(writeTime))
			return ws.WriteMessage(websocket.TextMessage, body)
		},
		func() error { return ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTime)) })
	s.ended(err)
	code := websocket.CloseGoingAway
	if err != nil && protocol.AsError(err).Code == protocol.CodeUnauthorized {
		code = wireTokenChanged
	}
	// A peer that has gone away needs no word.
	_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(time.Second))
	ws.Close()
	reader.Wait()
}
