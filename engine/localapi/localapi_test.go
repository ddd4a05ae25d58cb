package localapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

type source struct {
	mu     sync.Mutex
	status localapi.Status
	stops  atomic.Int32
	held   []localapi.Hold // guarded by mu
	shared []bool          // guarded by mu
}

func (s *source) Hold(_ context.Context, h localapi.Hold) error {
	if h.Model == "huge" {
		return protocol.Errorf(protocol.CodeDoesNotFit, "too large")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, h)
	return nil
}

func (s *source) Share(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = append(s.shared, on)
	return nil
}

func (s *source) Plans(context.Context) ([]localapi.Plan, error) {
	return []localapi.Plan{{Name: "m", Text: "all of it", Ranges: []localapi.PlanRange{{Range: protocol.Range{Last: 4}, Fetch: 7}}}}, nil
}

func (s *source) Status() localapi.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *source) set(f func(*localapi.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

func (s *source) Models() []localapi.Model {
	return []localapi.Model{{Info: protocol.ModelInfo{Name: "m", Layers: 4}, Local: &protocol.Range{First: 0, Last: 2}}}
}

func (s *source) Sessions() []protocol.SessionState {
	return []protocol.SessionState{{Session: "s-x", Hop: 1, Phase: protocol.PhaseDecode}}
}

func (s *source) Shutdown() { s.stops.Add(1) }

func start(t *testing.T) (*source, *localapi.Server, string) {
	t.Helper()
	dir := t.TempDir()
	src := &source{status: localapi.Status{
		Version: "1.2.3", Node: "n", Role: "node", Tracker: localapi.Tracker{URL: "http://t", Connected: true, State: "connected"},
		Shards: []localapi.Shard{{Name: "m", Range: protocol.Range{First: 0, Last: 2}, State: protocol.ShardReady, Bytes: 5}},
		Health: []localapi.HealthEntry{localapi.HealthOf(localapi.SeverityError, protocol.Errorf(protocol.CodeDiskFull, "full"))},
	}}
	srv, err := localapi.Start(localapi.Options{Dir: dir, Source: src, Version: "1.2.3", EventEvery: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return src, srv, dir
}

func code(err error) protocol.Code {
	if err == nil {
		return ""
	}
	return protocol.AsError(err).Code
}

func TestClient(t *testing.T) {
	t.Parallel()
	src, srv, dir := start(t)
	c, err := localapi.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	st, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(src.Status(), *st); diff != "" {
		t.Error(diff)
	}
	if st.Health[0].Remedy == "" {
		t.Error("no remedy")
	}
	ms, err := c.Models(ctx)
	if err != nil || cmp.Diff(src.Models(), ms) != "" {
		t.Errorf("models %+v, %v", ms, err)
	}
	ss, err := c.Sessions(ctx)
	if err != nil || cmp.Diff(src.Sessions(), ss) != "" {
		t.Errorf("sessions %+v, %v", ss, err)
	}
	if err := c.Shutdown(ctx); err != nil || src.stops.Load() != 1 {
		t.Errorf("shutdown: %v, %d", err, src.stops.Load())
	}
	if a := srv.Address(); a != c.Address() || a.PID != os.Getpid() || a.Version != "1.2.3" {
		t.Errorf("address %+v", a)
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	src, srv, dir := start(t)
	c, err := localapi.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := localapi.Hold{Model: "guide", Layers: "2-5"}
	if err := c.Hold(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := c.Hold(t.Context(), localapi.Hold{Model: "huge"}); code(err) != protocol.CodeDoesNotFit {
		t.Errorf("refused order: %v", err)
	}
	if err := errors.Join(c.Share(t.Context(), false), c.Share(t.Context(), true)); err != nil {
		t.Error(err)
	}
	plans, err := c.Plans(t.Context())
	if err != nil || len(plans) != 1 || len(plans[0].Ranges) != 1 || plans[0].Ranges[0].Fetch != 7 {
		t.Errorf("plans %+v: %v", plans, err)
	}
	for _, body := range []string{"", "{", `{"model":3}`, `{"other":"x"}`, strings.Repeat("x", 1<<20)} {
		req, err := http.NewRequest(http.MethodPost, srv.Address().URL+"/local/v1/hold", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+srv.Address().Token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("order %.20q: status %d", body, resp.StatusCode)
		}
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	if len(src.held) != 1 || src.held[0] != want || len(src.shared) != 2 || src.shared[0] || !src.shared[1] {
		t.Errorf("held %+v, shared %v", src.held, src.shared)
	}
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("file modes say nothing on Windows")
	}
	_, srv, dir := start(t)
	for _, name := range []string{localapi.AddressFile, localapi.TokenFile} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, localapi.TokenFile))
	if err != nil || string(b) != srv.Address().Token {
		t.Errorf("token file %q, %v", b, err)
	}
	if err := srv.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := localapi.Dial(dir); code(err) != protocol.CodeUnavailable {
		t.Errorf("dial after close: %v", err)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	src, srv, dir := start(t)
	c, err := localapi.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, stop := 0, errors.New("enough")
	err = c.Events(context.Background(), func(e localapi.Event) error {
		n++
		switch n {
		case 1:
			if e.Status.Role != "node" || len(e.Sessions) != 1 {
				t.Errorf("first event %+v", e)
			}
			src.set(func(s *localapi.Status) { s.UptimeSec++; s.Role = "both" })
			srv.Changed()
			return nil
		case 2:
			if e.Status.Role != "both" {
				t.Errorf("second event %+v", e)
			}
			src.set(func(s *localapi.Status) { s.Role = "gateway" }) // found without a call to Changed
			return nil
		}
		if e.Status.Role != "gateway" {
			t.Errorf("third event %+v", e)
		}
		return stop
	})
	if !errors.Is(err, stop) || n != 3 {
		t.Errorf("%d events, %v", n, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := c.Events(ctx, func(localapi.Event) error { cancel(); return nil }); err != nil {
		t.Errorf("end by context: %v", err)
	}
	// The server's end ends the stream, and does not wait for it.
	var closing sync.WaitGroup
	defer closing.Wait()
	err = c.Events(context.Background(), func(localapi.Event) error {
		closing.Go(func() { srv.Close(context.Background()) })
		return nil
	})
	if code(err) != protocol.CodeUnavailable {
		t.Errorf("end by the server: %v", err)
	}
}

func TestAttacksAreRefused(t *testing.T) {
	t.Parallel()
	src, srv, _ := start(t)
	a := srv.Address()
	cases := []struct {
		name   string
		change func(*http.Request)
		code   protocol.Code
	}{
		{"as a program", func(*http.Request) {}, ""},
		{"typed into the address bar with a token", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "none") }, ""},
		{"localhost", func(r *http.Request) { r.Host = "localhost:80" }, ""},
		{"other loopback", func(r *http.Request) { r.Host = "[::1]:80" }, ""},
		{"DNS rebinding", func(r *http.Request) { r.Host = "evil.example:80" }, protocol.CodeForbidden},
		{"a name that looks local", func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, protocol.CodeForbidden},
		{"localhost's subdomain", func(r *http.Request) { r.Host = "x.localhost" }, protocol.CodeForbidden},
		{"another address", func(r *http.Request) { r.Host = "192.168.1.1" }, protocol.CodeForbidden},
		{"cross-site fetch", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, protocol.CodeForbidden},
		{"another local site", func(r *http.Request) { r.Header.Set("Origin", "http://localhost:3000") }, protocol.CodeForbidden},
		{"sandboxed page", func(r *http.Request) { r.Header.Set("Origin", "null") }, protocol.CodeForbidden},
		{"empty origin", func(r *http.Request) { r.Header.Set("Origin", "") }, protocol.CodeForbidden},
		{"image tag", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, protocol.CodeForbidden},
		{"same site", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, protocol.CodeForbidden},
		{"two sites", func(r *http.Request) { r.Header["Sec-Fetch-Site"] = []string{"none", "cross-site"} }, protocol.CodeForbidden},
		{"no token", func(r *http.Request) { r.Header.Del("Authorization") }, protocol.CodeUnauthorized},
		{"wrong token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("0", 64)) }, protocol.CodeUnauthorized},
		{"prefix of the token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+a.Token[:63]) }, protocol.CodeUnauthorized},
		{"other scheme", func(r *http.Request) { r.Header.Set("Authorization", "Basic "+a.Token) }, protocol.CodeUnauthorized},
		{"two headers", func(r *http.Request) { r.Header.Add("Authorization", "Bearer x") }, protocol.CodeUnauthorized},
		{"token in the query", func(r *http.Request) {
			r.Header.Del("Authorization")
			r.URL.RawQuery = "token=" + a.Token
		}, protocol.CodeUnauthorized},
		{"unknown path", func(r *http.Request) { r.URL.Path = "/local/v1/nothing" }, protocol.CodeNotFound},
		{"preflight", func(r *http.Request) { r.Method = "OPTIONS"; r.Header.Set("Origin", "https://evil.example") }, protocol.CodeForbidden},
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	for _, tc := range cases {
		for _, ep := range []struct{ method, path string }{{"GET", "/local/v1/status"}, {"POST", "/local/v1/shutdown"}} {
			r, err := http.NewRequest(ep.method, a.URL+ep.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+a.Token)
			tc.change(r)
			before := src.stops.Load()
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if resp.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: opened to web pages", tc.name)
			}
			if tc.code == "" {
				if resp.StatusCode >= 300 {
					t.Errorf("%s %s: status %d: %s", tc.name, ep.method, resp.StatusCode, b)
				}
				continue
			}
			var body struct{ Error *protocol.Error }
			if json.Unmarshal(b, &body) != nil || body.Error == nil || body.Error.Code != tc.code || resp.StatusCode != tc.code.HTTPStatus() {
				t.Errorf("%s %s: status %d: %s", tc.name, ep.method, resp.StatusCode, b)
			}
			if src.stops.Load() != before || strings.Contains(string(b), "1.2.3") {
				t.Errorf("%s %s: reached the engine", tc.name, ep.method)
			}
		}
	}
	// A GET must not shut down.
	r, _ := http.NewRequest("GET", a.URL+"/local/v1/shutdown", nil)
	r.Header.Set("Authorization", "Bearer "+a.Token)
	before := src.stops.Load()
	if resp, err := tr.RoundTrip(r); err != nil {
		t.Error(err)
	} else {
		resp.Body.Close()
	}
	if src.stops.Load() != before {
		t.Error("GET shut the engine down")
	}
}

func TestListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, l := range []string{"0.0.0.0:0", ":0", "[::]:0", "example.com:80"} {
		if _, err := localapi.Start(localapi.Options{Dir: t.TempDir(), Source: &source{}, Listen: l}); code(err) != protocol.CodeInvalidRequest {
			t.Errorf("%s: %v", l, err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := localapi.Start(localapi.Options{Dir: t.TempDir(), Source: &source{}, Listen: ln.Addr().String()}); code(err) != protocol.CodePortInUse {
		t.Errorf("port in use: %v", err)
	}
	if _, err := localapi.Start(localapi.Options{Dir: filepath.Join(t.TempDir(), "none"), Source: &source{}}); code(err) != protocol.CodeDataFolder {
		t.Errorf("no folder: %v", err)
	}
}

func TestStaleAndDamagedAddressFiles(t *testing.T) {
	t.Parallel()
	// A program that is not an engine, at the port of one that crashed.
	other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { other.Serve(ln) })
	defer served.Wait()
	defer other.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	tok := strings.Repeat("ab", 32)
	file := func(url string) string { return `{"url":"` + url + `","token":"` + tok + `","pid":1,"version":"x"}` }
	for _, tc := range []struct {
		name, content string
		code          protocol.Code
	}{
		{"nobody listens", file("http://" + gone.Addr().String()), protocol.CodeUnavailable},
		{"another program listens", file("http://" + ln.Addr().String()), protocol.CodeUnavailable},
		{"not JSON", "{", protocol.CodeDataFolder},
		{"too large", strings.Repeat(" ", 20<<10), protocol.CodeDataFolder},
		{"another computer", file("http://192.0.2.1:80"), protocol.CodeDataFolder},
		{"user in the address", file("http://127.0.0.1@192.0.2.1:80"), protocol.CodeDataFolder},
		{"other scheme", file("file://localhost"), protocol.CodeDataFolder},
		{"no token", `{"url":"http://127.0.0.1:1"}`, protocol.CodeDataFolder},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, localapi.AddressFile), []byte(tc.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := localapi.Dial(dir); code(err) != tc.code {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := localapi.Dial(t.TempDir()); code(err) != protocol.CodeUnavailable || !strings.Contains(err.Error(), "no engine is running") {
		t.Errorf("empty folder: %v", err)
	}
}

// A second engine's address must survive the first one's end.
func TestCloseLeavesAnothersFile(t *testing.T) {
	t.Parallel()
	_, srv, dir := start(t)
	second, err := localapi.Start(localapi.Options{Dir: dir, Source: &source{}})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(context.Background())
	if err := srv.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	c, err := localapi.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c.Address() != second.Address() {
		t.Errorf("address %+v", c.Address())
	}
	c.Close()
}

func FuzzParseAddress(f *testing.F) {
	f.Add([]byte(`{"url":"http://127.0.0.1:1","token":"` + strings.Repeat("ab", 32) + `"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := localapi.ParseAddress(b)
		if err != nil {
			if code(err) != protocol.CodeDataFolder {
				t.Errorf("%v", err)
			}
			return
		}
		r, err := http.NewRequest("GET", a.URL+"/x", nil)
		if err != nil {
			t.Fatalf("%q: %v", a.URL, err)
		}
		if h := r.URL.Hostname(); h != "localhost" && !net.ParseIP(h).IsLoopback() {
			t.Errorf("%q leads to %q", a.URL, h)
		}
	})
}
