package localapi_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

func socketURL(a localapi.Address) string {
	return "ws" + strings.TrimPrefix(a.URL, "http") + "/local/v1/events"
}

// TestSocketAttacksAreRefused: what a web page or a program without the token
// can send opens no websocket.
func TestSocketAttacksAreRefused(t *testing.T) {
	t.Parallel()
	_, srv, _ := start(t)
	a := srv.Address()
	for name, tc := range map[string]struct {
		change func(http.Header)
		status int
	}{
		"as a program":      {func(http.Header) {}, http.StatusSwitchingProtocols},
		"a page's origin":   {func(h http.Header) { h.Set("Origin", "https://evil.example") }, http.StatusForbidden},
		"our own origin":    {func(h http.Header) { h.Set("Origin", a.URL) }, http.StatusForbidden},
		"sandboxed page":    {func(h http.Header) { h.Set("Origin", "null") }, http.StatusForbidden},
		"DNS rebinding":     {func(h http.Header) { h.Set("Host", "evil.example") }, http.StatusForbidden},
		"site of a page":    {func(h http.Header) { h.Set("Sec-Fetch-Site", "same-origin") }, http.StatusForbidden},
		"no token":          {func(h http.Header) { h.Del("Authorization") }, http.StatusUnauthorized},
		"wrong token":       {func(h http.Header) { h.Set("Authorization", "Bearer "+strings.Repeat("0", 64)) }, http.StatusUnauthorized},
		"token as protocol": {func(h http.Header) { h.Del("Authorization"); h.Set("Sec-WebSocket-Protocol", a.Token) }, http.StatusUnauthorized},
	} {
		h := http.Header{"Authorization": {"Bearer " + a.Token}}
		tc.change(h)
		ws, resp, err := websocket.DefaultDialer.Dial(socketURL(a), h)
		if resp == nil {
			t.Fatalf("%s: %v", name, err)
		}
		if resp.StatusCode != tc.status || (err == nil) != (tc.status == http.StatusSwitchingProtocols) {
			t.Errorf("%s: status %d, %v", name, resp.StatusCode, err)
		}
		if ws != nil {
			ws.Close()
		}
	}
}

// TestListenerThatTalksIsDropped: a listener has nothing to say, however much.
func TestListenerThatTalksIsDropped(t *testing.T) {
	t.Parallel()
	_, srv, _ := start(t)
	for _, size := range []int{1, 1 << 20} {
		ws, _, err := websocket.DefaultDialer.Dial(socketURL(srv.Address()), http.Header{"Authorization": {"Bearer " + srv.Address().Token}})
		if err != nil {
			t.Fatal(err)
		}
		if err := ws.WriteMessage(websocket.BinaryMessage, make([]byte, size)); err != nil {
			t.Log(err) // it may be dropped already
		}
		ws.SetReadDeadline(time.Now().Add(10 * time.Second))
		for err == nil {
			_, _, err = ws.ReadMessage()
		}
		if os.IsTimeout(err) {
			t.Errorf("%d bytes: still connected", size)
		}
		ws.Close()
	}
}

// TestEventsForScripts: the same states as server-sent events.
func TestEventsForScripts(t *testing.T) {
	t.Parallel()
	src, srv, _ := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.Address().URL+"/local/v1/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+srv.Address().Token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sc := bufio.NewScanner(resp.Body)
	for _, role := range []string{"node", "both"} {
		for sc.Scan() && !strings.HasPrefix(sc.Text(), "data: ") {
		}
		if !strings.Contains(sc.Text(), `"role":"`+role+`"`) {
			t.Errorf("event %.200q, want role %s", sc.Text(), role)
		}
		src.set(func(s *localapi.Status) { s.Role = "both" })
	}
}

// TestFiguresThatAlwaysMoveAreNoNews: what the system has free changes all the
// time, and wakes no listener; a change that matters does.
func TestFiguresThatAlwaysMoveAreNoNews(t *testing.T) {
	t.Parallel()
	src, srv, dir := start(t)
	src.set(func(s *localapi.Status) { s.Memory.Free = 1 << 30 })
	c, err := localapi.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	enough := errors.New("enough")
	events := 0
	err = c.Events(t.Context(), func(e localapi.Event) error {
		events++
		if events == 1 {
			if srv.Listeners() != 1 {
				t.Errorf("%d listeners", srv.Listeners())
			}
			src.set(func(s *localapi.Status) { s.Memory.Free += 4096; s.UptimeSec++ })
			srv.Changed()
			src.set(func(s *localapi.Status) { s.Memory.Free -= 512 << 20 })
			return nil
		}
		if e.Status.Memory.Free != 1<<30-512<<20+4096 {
			t.Errorf("event with %d bytes free", e.Status.Memory.Free)
		}
		return enough
	})
	if !errors.Is(err, enough) || events != 2 {
		t.Errorf("%d events, %v", events, err)
	}
}

// TestOneStateForAllListeners: many listeners do not ask the source more often
// than one.
func TestOneStateForAllListeners(t *testing.T) {
	t.Parallel()
	src := &counted{}
	dir := t.TempDir()
	srv, err := localapi.Start(localapi.Options{Dir: dir, Source: src, EventEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close(context.Background())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all, heard sync.WaitGroup
	heard.Add(20)
	for range 20 {
		c, err := localapi.Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all.Go(func() {
			first := true
			if err := c.Events(ctx, func(localapi.Event) error {
				if first {
					heard.Done()
				}
				first = false
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	heard.Wait()
	cancel()
	all.Wait()
	if n := src.asked(); n != 1 {
		t.Errorf("sessions were asked for %d times", n)
	}
}

type counted struct {
	source
	n int // guarded by source.mu
}

func (c *counted) Sessions() []protocol.SessionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return nil
}

func (c *counted) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// TestTokenFileIsDeleted: the user withdraws the token by deleting a file. The
// listener and further requests hear why, and a new connection works.
func TestTokenFileIsDeleted(t *testing.T) {
	t.Parallel()
	for _, file := range []string{localapi.TokenFile, localapi.AddressFile} {
		_, srv, dir := start(t)
		c, err := localapi.Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		old := srv.Address()
		err = c.Events(t.Context(), func(localapi.Event) error {
			if err := srv.Renew(); err != nil || srv.Address() != old {
				t.Errorf("with all files there: %v", err)
			}
			if err := os.Remove(filepath.Join(dir, file)); err != nil {
				return err
			}
			return srv.Renew()
		})
		if code(err) != protocol.CodeUnauthorized || !strings.Contains(err.Error(), "connect again") {
			t.Errorf("%s: the listener got %v", file, err)
		}
		if _, err := c.Status(t.Context()); code(err) != protocol.CodeUnauthorized || !strings.Contains(err.Error(), "connect again") {
			t.Errorf("%s: a request got %v", file, err)
		}
		c.Close()
		again, err := localapi.Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		if again.Address().Token == old.Token {
			t.Errorf("%s: the old token counts", file)
		}
		again.Close()
	}
}

// TestEngineRestarted: a client of the engine before says so, not only that
// nobody answers.
func TestEngineRestarted(t *testing.T) {
	t.Parallel()
	_, srv, dir := start(t)
	c, err := localapi.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := srv.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(t.Context()); code(err) != protocol.CodeUnavailable || strings.Contains(err.Error(), "restarted") {
		t.Errorf("before the restart: %v", err)
	}
	second, err := localapi.Start(localapi.Options{Dir: dir, Source: &source{}})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(context.Background())
	if _, err := c.Status(t.Context()); code(err) != protocol.CodeUnavailable || !strings.Contains(err.Error(), "restarted") {
		t.Errorf("a request: %v", err)
	}
	if err := c.Events(t.Context(), func(localapi.Event) error { return nil }); code(err) != protocol.CodeUnavailable || !strings.Contains(err.Error(), "restarted") {
		t.Errorf("events: %v", err)
	}
}

// FuzzOrders: whatever a request holds, the answer is a status with a body of
// ours, and only settings of the right form are taken.
func FuzzOrders(f *testing.F) {
	dir := f.TempDir()
	d := &table{settings: policy.Defaults()}
	srv, err := localapi.Start(localapi.Options{Dir: dir, Source: new(source), Owner: new(desk), Desktop: d})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { srv.Close(context.Background()) })
	a := srv.Address()
	f.Fuzz(func(t *testing.T, which byte, body []byte, query string) {
		routes := []struct{ method, path string }{
			{"PUT", "/local/v1/settings"}, {"POST", "/local/v1/pause"}, {"POST", "/local/v1/resume"}, {"POST", "/local/v1/hardware"},
			{"GET", "/local/v1/logs"}, {"POST", "/local/v1/hold"}, {"POST", "/local/v1/share"}, {"GET", "/local/v1/earnings"},
		}
		route := routes[int(which)%len(routes)]
		r := httptest.NewRequest(route.method, "http://127.0.0.1"+route.path, strings.NewReader(string(body)))
		r.URL.RawQuery = query
		r.Header.Set("Authorization", "Bearer "+a.Token)
		w := httptest.NewRecorder()
		srv.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK && w.Code != http.StatusAccepted && (w.Code < 400 || w.Code > 499 || !strings.Contains(w.Body.String(), `"code"`)) {
			t.Errorf("%s %s: status %d: %s", route.method, route.path, w.Code, w.Body)
		}
	})
}
