package feed

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
	"neuron/tracker-server/telemetry"
)

var t0 = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func sid(i int) protocol.SessionID {
	return protocol.SessionID("s-" + strings.Repeat("a", 24) + fmt.Sprintf("%ca", 'a'+i))
}

func snap(i int, p protocol.Phase, tokens int) *telemetry.Snapshot {
	return &telemetry.Snapshot{Session: sid(i), Model: "m1", Name: "guide", At: t0, Phase: p, Tokens: tokens, Hops: []telemetry.Hop{{Node: "a", Step: 7}}}
}

func serve(t *testing.T, o Options) (*Hub, string) {
	t.Helper()
	h := New(o)
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return h, "ws" + strings.TrimPrefix(s.URL, "http")
}

// subscribe connects and reads the hello, after which the subscription counts.
func subscribe(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	ws, _, err := websocket.DefaultDialer.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	if m := next(t, ws); m["kind"] != "hello" || m["version"] != 1.0 || m["ping_seconds"] == nil {
		t.Fatalf("hello %v", m)
	}
	return ws
}

func next(t *testing.T, ws *websocket.Conn) map[string]any {
	t.Helper()
	ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, raw, err := ws.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFilters(t *testing.T) {
	t.Parallel()
	h, url := serve(t, Options{})
	all, one, model, byID, other := subscribe(t, url), subscribe(t, url+"?session="+string(sid(1))), subscribe(t, url+"?model=guide"), subscribe(t, url+"?model=m1"), subscribe(t, url+"?model=else")
	h.Publish(snap(0, protocol.PhaseDecode, 1), false)
	last := snap(1, protocol.PhaseDone, 2)
	last.End = &telemetry.End{Finish: "stop"}
	h.Publish(last, true)
	foreign := snap(2, protocol.PhaseDecode, 3)
	foreign.Model, foreign.Name = "m2", "else"
	h.Publish(foreign, true)
	want := func(who string, ws *websocket.Conn, tokens ...float64) {
		t.Helper()
		for _, n := range tokens {
			if m := next(t, ws); m["kind"] != "snapshot" || m["tokens"] != n || m["session"] == nil || len(m["hops"].([]any)) != 1 {
				t.Errorf("%s: %v, want %g tokens", who, m, n)
			}
		}
	}
	want("all", all, 1, 2, 3)
	want("one", one, 2)
	want("model", model, 1, 2)
	want("model by id", byID, 1, 2)
	want("other model", other, 3)
}

// TestPrivate: strangers hear of changes of phase alone, without an id; who
// knows the id hears no more, but which session it is.
func TestPrivate(t *testing.T) {
	t.Parallel()
	h, url := serve(t, Options{})
	all, one := subscribe(t, url), subscribe(t, url+"?session="+string(sid(1)))
	s := snap(1, protocol.PhaseDecode, 5)
	s.Private = true
	pub := s.Public()
	h.Publish(pub, false) // no change: nothing is told
	h.Publish(pub, true)
	for name, ws := range map[string]*websocket.Conn{"all": all, "one": one} {
		m := next(t, ws)
		if m["private"] != true || m["phase"] != "decode" || m["tokens"] != nil || m["hops"] != nil || m["prefill_done"] != nil || m["tokens_per_second"] != nil {
			t.Errorf("%s: %v", name, m)
		}
		if (m["session"] != nil) != (name == "one") {
			t.Errorf("%s: session %v", name, m["session"])
		}
	}
}

// TestSlowSubscriber: publishing never waits for a subscriber that does not
// read; it loses the oldest snapshots and is told how many.
func TestSlowSubscriber(t *testing.T) {
	t.Parallel()
	h, url := serve(t, Options{})
	ws := subscribe(t, url)
	const n = 20_000 // about 8 MB: more than the buffers of the sockets
	name := strings.Repeat("x", 200)
	for i := range n {
		s := snap(0, protocol.PhaseDecode, i)
		s.Name = name
		h.Publish(s, false)
	}
	seen, lost, last := 0, 0, -1.0
	for last != n-1 {
		switch m := next(t, ws); m["kind"] {
		case "lost":
			lost += int(m["count"].(float64))
		case "snapshot":
			tokens := m["tokens"].(float64)
			if tokens <= last {
				t.Fatalf("%g after %g", tokens, last)
			}
			seen, last = seen+1, tokens
		}
	}
	if seen+lost != n || lost == 0 || h.Lost() != int64(lost) {
		t.Errorf("%d seen and %d lost (%d counted) of %d", seen, lost, h.Lost(), n)
	}
}

func TestBoundsAndRefusals(t *testing.T) {
	t.Parallel()
	h, url := serve(t, Options{Max: 3, MaxPerAddress: 2})
	first, second := subscribe(t, url), subscribe(t, url)
	refused := func(url, origin string, status int, code protocol.Code) {
		t.Helper()
		header := http.Header{}
		if origin != "" {
			header.Set("Origin", origin)
		}
		ws, resp, err := websocket.DefaultDialer.Dial(url, header)
		if err == nil {
			ws.Close()
			t.Fatalf("%s from %q is let in", url, origin)
		}
		raw, _ := io.ReadAll(resp.Body)
		var e protocol.Error
		if json.Unmarshal(raw, &e); resp.StatusCode != status || e.Code != code {
			t.Errorf("%s from %q: %d %s", url, origin, resp.StatusCode, raw)
		}
	}
	refused(url, "", 429, protocol.CodeRateLimited)
	first.Close()
	for h.Subscribers() != 1 {
		runtime.Gosched()
	}
	refused(url, "https://evil.example", 403, protocol.CodeForbidden)
	refused(url+"?session=x", "", 400, protocol.CodeInvalidRequest)
	refused(url+"?session="+string(sid(0))+"&model=m", "", 400, protocol.CodeInvalidRequest)
	refused(url+"?model="+strings.Repeat("x", 300), "", 400, protocol.CodeInvalidRequest)
	resp, err := http.Get("http" + strings.TrimPrefix(url, "ws"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("no websocket: %d", resp.StatusCode)
	}
	// A page of this host may listen.
	ws, _, err := websocket.DefaultDialer.Dial(url, http.Header{"Origin": {"http" + strings.TrimPrefix(url, "ws")}})
	if err != nil {
		t.Fatal(err)
	}
	ws.Close()
	// Who sends more than nothing is put out.
	if err := second.WriteMessage(websocket.TextMessage, make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	second.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, _, err := second.ReadMessage(); err == nil {
		t.Error("a large message is taken")
	}
	for h.Subscribers() != 0 {
		runtime.Gosched()
	}
	h.Close()
	refused(url, "", 503, protocol.CodeShutdown)
}

// TestPing: who answers pings stays, who does not is put out.
func TestPing(t *testing.T) {
	t.Parallel()
	deaf, url := serve(t, Options{Ping: 20 * time.Millisecond})
	subscribe(t, url) // does not read any more, so it answers no ping
	for deaf.Subscribers() != 0 {
		runtime.Gosched()
	}
	h, url := serve(t, Options{Ping: 300 * time.Millisecond})
	ws := subscribe(t, url)
	pings := make(chan struct{}, 100)
	ws.SetPingHandler(func(string) error {
		select {
		case pings <- struct{}{}:
		default:
		}
		return ws.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second))
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, _, err := ws.ReadMessage(); err != nil {
				return
			}
		}
	}()
	for range 4 { // over two pings' time and a half
		<-pings
	}
	h.Close() // ends it, and waits
	<-done
	if n := h.Subscribers(); n != 0 {
		t.Errorf("%d subscribers after Close", n)
	}
}
