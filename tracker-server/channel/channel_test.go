package channel

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
)

// recorder is a handler that passes events on.
type recorder struct {
	joined chan *Conn
	left   chan bool
}

func (r *recorder) Admit(_ context.Context, _ *protocol.Hello, id protocol.NodeID) (*protocol.Welcome, error) {
	return &protocol.Welcome{Node: id, Epoch: 1}, nil
}
func (r *recorder) Joined(c *Conn)                                           { r.joined <- c }
func (r *recorder) Message(_ context.Context, c *Conn, e *protocol.Envelope) { c.Send(e) }
func (r *recorder) Left(_ *Conn, bye bool)                                   { r.left <- bye }

func setup(t *testing.T, change func(*Options)) (*Hub, *recorder, func() (*websocket.Conn, *http.Response, error)) {
	t.Helper()
	pub, _, _ := ed25519.GenerateKey(nil)
	r := &recorder{joined: make(chan *Conn, 10), left: make(chan bool, 10)}
	o := Options{Key: pub, Handler: r, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	h := New(o)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h, r, func() (*websocket.Conn, *http.Response, error) {
		ws, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(srv.URL, "http"), nil)
		if err == nil {
			t.Cleanup(func() { ws.Close() })
		}
		return ws, resp, err
	}
}

func read(t *testing.T, ws *websocket.Conn) *protocol.Envelope {
	t.Helper()
	_ = ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	var e protocol.Envelope
	if err := ws.ReadJSON(&e); err != nil {
		t.Fatal(err)
	}
	return &e
}

func join(t *testing.T, r *recorder, dial func() (*websocket.Conn, *http.Response, error)) (*websocket.Conn, *Conn) {
	t.Helper()
	ws, _, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	ch, err := protocol.Unpack[protocol.Challenge](read(t, ws))
	if err != nil || len(ch.Nonce) != 32 {
		t.Fatal(ch, err)
	}
	pub, key, _ := ed25519.GenerateKey(nil)
	hello, _ := protocol.Pack(protocol.MsgHello, 0, protocol.Hello{
		Protocol: protocol.Version, Build: protocol.Build{Protocol: protocol.Version}, Role: protocol.RoleNode,
		Key: pub, Sig: ed25519.Sign(key, protocol.HelloPayload(ch.Nonce, ch.Tracker))})
	if err := ws.WriteJSON(hello); err != nil {
		t.Fatal(err)
	}
	if e := read(t, ws); e.Kind != protocol.MsgWelcome {
		t.Fatalf("got %s %s", e.Kind, e.Body)
	}
	return ws, <-r.joined
}

func TestConnectionLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Options)
		status int
	}{
		"all":         {func(o *Options) { o.MaxConns = 2 }, 503},
		"per address": {func(o *Options) { o.MaxPerAddress = 2 }, 429},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, r, dial := setup(t, c.change)
			a, _ := join(t, r, dial)
			join(t, r, dial)
			_, resp, err := dial()
			if err == nil || resp == nil || resp.StatusCode != c.status || resp.Header.Get("Retry-After") == "" {
				t.Fatalf("third connection: %v %v", resp, err)
			}
			a.Close()
			<-r.left
			for err != nil { // the count falls just after Left
				_, _, err = dial()
			}
		})
	}
}

func TestDeadPeer(t *testing.T) {
	t.Parallel()
	_, r, dial := setup(t, func(o *Options) { o.PingEvery = 20 * time.Millisecond })
	join(t, r, dial) // does not read any more, so it answers no ping
	if bye := <-r.left; bye {
		t.Error("a dead peer said goodbye")
	}
}

func TestLivePeerStays(t *testing.T) {
	t.Parallel()
	_, r, dial := setup(t, func(o *Options) { o.PingEvery = 300 * time.Millisecond })
	ws, c := join(t, r, dial)
	pings := make(chan struct{}, 100)
	answer := ws.PingHandler()
	ws.SetPingHandler(func(s string) error { pings <- struct{}{}; return answer(s) })
	go func() {
		for {
			if _, _, err := ws.ReadMessage(); err != nil {
				return
			}
		}
	}()
	for range 4 {
		<-pings
	}
	if !c.Send(&protocol.Envelope{Kind: "x"}) {
		t.Error("the connection ended")
	}
}

func TestSilentHandshake(t *testing.T) {
	t.Parallel()
	_, _, dial := setup(t, func(o *Options) { o.HandshakeTimeout = 50 * time.Millisecond })
	ws, _, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	read(t, ws) // challenge
	e := read(t, ws)
	ref, err := protocol.Unpack[protocol.Refused](e)
	if e.Kind != protocol.MsgRefused || err != nil || ref.Error.Code != protocol.CodeTimeout {
		t.Errorf("got %s %s", e.Kind, e.Body)
	}
}

func TestSlowReaderIsCut(t *testing.T) {
	t.Parallel()
	_, r, dial := setup(t, nil)
	_, c := join(t, r, dial)
	big, _ := json.Marshal(strings.Repeat("x", 512<<10))
	n := 0
	for c.Send(&protocol.Envelope{Kind: "x", Body: big}) {
		if n++; n > 10_000 {
			t.Fatal("the queue has no end")
		}
	}
	c.cut() // the writer would wait its ten seconds for the reader
	<-r.left
}

func TestTooLargeMessage(t *testing.T) {
	t.Parallel()
	_, r, dial := setup(t, nil)
	ws, _ := join(t, r, dial)
	_ = ws.WriteMessage(websocket.TextMessage, make([]byte, protocol.MaxMessage+1)) // may fail midway
	<-r.left
}

func TestBye(t *testing.T) {
	t.Parallel()
	h, r, dial := setup(t, nil)
	ws, _ := join(t, r, dial)
	if err := ws.WriteJSON(protocol.Envelope{Kind: protocol.MsgBye}); err != nil {
		t.Fatal(err)
	}
	if !<-r.left {
		t.Error("bye was not heard")
	}
	ws, _ = join(t, r, dial)
	if err := h.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if e := read(t, ws); e.Kind != protocol.MsgBye {
		t.Errorf("got %s", e.Kind)
	}
	if _, _, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("got %v", err)
	}
	if _, resp, err := dial(); err == nil || resp.StatusCode != 503 {
		t.Errorf("a closed hub takes connections: %v", err)
	}
	if h.Len() != 0 {
		t.Errorf("%d connections are left", h.Len())
	}
}

func TestRemoteAndGroup(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"10.1.2.3:5": "10.1.2.3", "[::ffff:10.1.2.3]:5": "10.1.2.3", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::", "[fe80::1%eth0]:1": "fe80::", "x": "invalid IP",
	} {
		if got := groupOf(remoteOf(in)).String(); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// TestReturnIsSpread: a restart does not bring all peers back in one moment,
// and all of them within the time that sessions have.
func TestReturnIsSpread(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 250, 251, 5000, 20_000, 1_000_000} {
		perSecond := map[int]int{}
		for i := range n {
			perSecond[comeBack(i, n)]++
		}
		for s, c := range perSecond {
			if s < 1 || s > 1+maxReturn || c > max(returnsPerSecond, n/maxReturn+1) {
				t.Errorf("of %d peers %d come after %d s", n, c, s)
			}
		}
	}
}
