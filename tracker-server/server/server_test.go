package server

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
	"neuron/tracker-server/routing"
	"neuron/tracker-server/sessions/stored"
	"neuron/tracker-server/web"
)

// ready waits until a model can be routed.
func (tr *tracker) ready() {
	tr.t.Helper()
	eventually(tr.t, "a routable model", func() bool {
		m := tr.core.Models()
		return len(m) == 1 && m[0].Routable
	})
}

func (tr *tracker) session(id protocol.SessionID) web.Session {
	tr.t.Helper()
	var s web.Session
	if status := tr.get("/v1/sessions/"+string(id), &s); status != http.StatusOK {
		tr.t.Fatalf("session: status %d", status)
	}
	return s
}

func (tr *tracker) waitPhase(id protocol.SessionID, p protocol.Phase) web.Session {
	tr.t.Helper()
	eventually(tr.t, "phase "+string(p), func() bool { return tr.session(id).Phase == p })
	return tr.session(id)
}

func TestHandshakeRefusals(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	for name, c := range map[string]struct {
		change func(*protocol.Hello)
		code   protocol.Code
	}{
		"bad signature":  {func(h *protocol.Hello) { h.Sig[0] ^= 1 }, protocol.CodeUnauthorized},
		"other key":      {func(h *protocol.Hello) { h.Key = newKey()[32:] }, protocol.CodeUnauthorized},
		"short key":      {func(h *protocol.Hello) { h.Key = h.Key[:5] }, protocol.CodeUnauthorized},
		"protocol":       {func(h *protocol.Hello) { h.Protocol = 99 }, protocol.CodeProtocolVersion},
		"build protocol": {func(h *protocol.Hello) { h.Build.Protocol = 2 }, protocol.CodeProtocolVersion},
		"no llama":       {func(h *protocol.Hello) { h.Build.Llama = "" }, protocol.CodeInvalidRequest},
		"no address":     {func(h *protocol.Hello) { h.Addr = "" }, protocol.CodeInvalidRequest},
		"role":           {func(h *protocol.Hello) { h.Role = "king" }, protocol.CodeInvalidRequest},
		"long host":      {func(h *protocol.Hello) { h.Host = strings.Repeat("x", 300) }, protocol.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) { tr.dial(newKey(), protocol.RoleNode, c.change).expectRefused(c.code) })
	}
	if n := tr.core.Nodes(); len(n) != 0 {
		t.Errorf("refused nodes are listed: %+v", n)
	}
}

func TestSuperseded(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	key := newKey()
	a := tr.node(key, 4, 0, 4)
	tr.ready()
	b := tr.join(key, protocol.RoleNode)
	if b.welcome.Epoch <= a.welcome.Epoch {
		t.Errorf("epoch %d after %d", b.welcome.Epoch, a.welcome.Epoch)
	}
	a.expectRefused(protocol.CodeSuperseded)
	g := tr.join(key, protocol.RoleGateway) // the same engine's gateway is no rival
	b.report(4, 0, 4, nil)
	tr.ready()
	if m := tr.core.Models(); m[0].Replicas[0] != 1 {
		t.Errorf("a rejoin counts twice: %v", m[0].Replicas)
	}
	if l := g.route(tr, 100); l.Hops[0].Node != b.id() {
		t.Errorf("lease %+v", l)
	}
}

func TestUnknownAndMisplacedMessages(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	g := tr.join(newKey(), protocol.RoleGateway)
	g.send("dance", nil)
	g.expectError(protocol.CodeUnknownMessage)
	g.send(protocol.MsgHello, protocol.Hello{})
	g.expectError(protocol.CodeInvalidRequest)
	g.report(4, 0, 4, nil)
	g.expectError(protocol.CodeForbidden)
	if err := g.ws.WriteMessage(websocket.TextMessage, []byte("{")); err != nil {
		t.Fatal(err)
	}
	g.expectError(protocol.CodeInvalidRequest)
	g.send(protocol.MsgRoute, protocol.RouteRequest{Session: protocol.NewSessionID(), Model: "guide", Context: 10, Policy: "private"})
	g.expectError(protocol.CodeForbidden)
	g.askRoute(100)
	g.expectError(protocol.CodeModelUnknown)
	for range 500 { // errors are not answered, but they count
		g.send(protocol.MsgError, protocol.Error{})
	}
	g.expectError(protocol.CodeRateLimited)
	for e := error(nil); e == nil; {
		e = g.ws.WriteMessage(websocket.TextMessage, []byte(`{"kind":"error"}`))
	}
	g.expectRefused(protocol.CodeRateLimited)
}

func TestRouteAndTelemetry(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	a, b := tr.node(newKey(), 6, 0, 4), tr.join(newKey(), protocol.RoleNode)
	g1, g2 := tr.join(newKey(), protocol.RoleGateway), tr.join(newKey(), protocol.RoleGateway)
	eventually(t, "the model", func() bool { return len(tr.core.Models()) == 1 })
	g1.askRoute(100)
	if e := g1.expectError(protocol.CodeNoRoute); !strings.Contains(e.Message, "layers 4-6 of 6") {
		t.Errorf("message %q", e.Message)
	}
	b.report(6, 4, 6, nil)
	tr.ready()
	if p := expect[protocol.Peers](g1, protocol.MsgPeers); len(p.Peers) == 0 {
		t.Error("no peers to measure")
	}
	l := g1.route(tr, 1000)
	if len(l.Hops) != 2 || l.Hops[0].Node != a.id() || l.Hops[1].Node != b.id() || l.Driver != g1.id() || l.Context != 1000 ||
		l.DType != protocol.DTypeF32 || l.EngineBuild != testBuild || l.Hops[0].StepMicros != 1000 || l.Policy != "public" {
		t.Errorf("lease %+v", l)
	}
	g1.send(protocol.MsgRoute, protocol.RouteRequest{Session: l.Session, Model: "guide", Context: 10})
	g1.expectError(protocol.CodeSessionExists)
	g2.telemetry(l, 1, protocol.PhaseOpening, nil)
	g2.expectError(protocol.CodeForbidden)
	g1.telemetry(l, 1, protocol.PhaseOpening, nil)
	g1.telemetry(l, 2, protocol.PhaseDecode, func(t *protocol.Telemetry) { t.Route[1].Counters.DecodeMicros = 99_000 })
	s := tr.waitPhase(l.Session, protocol.PhaseDecode)
	if s.Hops[0].Health != "ok" || s.Hops[1].Health != "slow" || s.Telemetry.Tokens != 2 {
		t.Errorf("session %+v", s)
	}
	g1.telemetry(l, 1, protocol.PhasePrefill, nil) // late: ignored
	g1.telemetry(l, 3, protocol.PhaseDecode, func(t *protocol.Telemetry) { t.Route[0].Node = b.id() })
	g1.expectError(protocol.CodeInvalidRequest)
	l2 := g2.route(tr, 500)
	g1.telemetry(l, 4, protocol.PhaseDone, func(t *protocol.Telemetry) { t.Finish = protocol.FinishStop })
	if s := tr.waitPhase(l.Session, protocol.PhaseDone); s.End == nil || s.End.Finish != protocol.FinishStop || s.End.Error != nil {
		t.Errorf("end %+v", s.End)
	}
	if s := tr.session(l2.Session); s.End != nil {
		t.Errorf("the other gateway's session ended too: %+v", s)
	}
	g1.send(protocol.MsgModels, nil)
	if m := expect[protocol.Models](g1, protocol.MsgModels); len(m.Models) != 1 || !m.Models[0].Routable || m.Models[0].Context != 4096 {
		t.Errorf("models %+v", m)
	}
}

func TestNoOverAdmission(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	n := tr.join(newKey(), protocol.RoleNode)
	n.report(4, 0, 4, func(s *protocol.ShardReport) { s.FreeKVBytes = 256 * 1024 * 5 / 2 })
	tr.ready()
	g1, g2 := tr.join(newKey(), protocol.RoleGateway), tr.join(newKey(), protocol.RoleGateway)
	l := g1.route(tr, 1000)
	g2.route(tr, 1000)
	g1.askRoute(1000)
	if e := g1.expectError(protocol.CodeKVBudget); e.Detail["fits"] != "512" {
		t.Errorf("detail %v", e.Detail)
	}
	g1.telemetry(l, 1, protocol.PhaseFailed, nil)
	expect[protocol.EndSession](n, protocol.MsgEndSession)
	g1.route(tr, 1000)
}

func TestHopFailed(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	a, b := tr.node(newKey(), 4, 0, 2), tr.node(newKey(), 4, 2, 4)
	other := tr.join(newKey(), protocol.RoleGateway)
	g := tr.join(newKey(), protocol.RoleGateway)
	tr.ready()
	l := g.route(tr, 100)
	g.telemetry(l, 1, protocol.PhaseDecode, nil)
	tr.waitPhase(l.Session, protocol.PhaseDecode)
	blame := protocol.HopFailed{Session: l.Session, Node: b.id(), Error: protocol.Errorf(protocol.CodeHopLost, "connection reset")}
	other.send(protocol.MsgHopFailed, blame)
	other.expectError(protocol.CodeForbidden)
	a.send(protocol.MsgHopFailed, blame)
	for _, f := range []*fake{a, b, g} {
		end := expect[protocol.EndSession](f, protocol.MsgEndSession)
		if end.Session != l.Session || end.Error.Code != protocol.CodeHopLost || end.Error.Hop == nil || *end.Error.Hop != 1 || end.Error.Phase != protocol.PhaseDecode {
			t.Errorf("end %+v", end.Error)
		}
	}
	if s := tr.session(l.Session); s.Hops[1].Health != "failed" || s.End.Error.Code != protocol.CodeHopLost {
		t.Errorf("session %+v", s)
	}
	g.telemetry(l, 2, protocol.PhaseDecode, nil) // had not heard of it
	expect[protocol.EndSession](g, protocol.MsgEndSession)
	g.askRoute(100)
	g.expectError(protocol.CodeNoRoute) // b is drained
	b.report(4, 2, 4, nil)
	tr.ready()
	g.route(tr, 100)
}

func TestRestart(t *testing.T) {
	t.Parallel()
	c, data := &clock{}, t.TempDir()
	tr := start(t, data, c)
	nodeKey, gwKey := newKey(), newKey()
	n, g := tr.node(nodeKey, 4, 0, 4), tr.join(gwKey, protocol.RoleGateway)
	tr.ready()
	l, ended := g.route(tr, 2048), g.route(tr, 100)
	g.telemetry(l, 1, protocol.PhaseDecode, nil)
	tr.waitPhase(l.Session, protocol.PhaseDecode)
	g.telemetry(ended, 1, protocol.PhaseFailed, func(t *protocol.Telemetry) { t.Error = protocol.Errorf(protocol.CodeStageLost, "gone") })
	tr.waitPhase(ended.Session, protocol.PhaseFailed)
	key := tr.Key()
	tr.halt()
	if bye := expect[protocol.Refused](n, protocol.MsgBye); bye.Error == nil || bye.Error.Code != protocol.CodeShutdown {
		t.Errorf("bye %+v", bye)
	}

	tr = start(t, data, c)
	if !key.Equal(tr.Key()) {
		t.Fatal("the tracker has another key")
	}
	if s := tr.session(l.Session); s.Phase != protocol.PhaseDecode || s.End != nil {
		t.Errorf("after the restart: %+v", s)
	}
	if s := tr.session(ended.Session); s.End == nil || s.End.Error.Code != protocol.CodeStageLost {
		t.Errorf("after the restart: %+v", s)
	}
	n2, g2 := tr.node(nodeKey, 4, 0, 4), tr.join(gwKey, protocol.RoleGateway)
	if n2.welcome.Epoch != n.welcome.Epoch+1 || g2.welcome.Epoch != g.welcome.Epoch+1 {
		t.Errorf("epochs %d %d after %d %d", n2.welcome.Epoch, g2.welcome.Epoch, n.welcome.Epoch, g.welcome.Epoch)
	}
	tr.ready()
	if _, err := storedLease(tr, l); err != nil {
		t.Errorf("the lease is no longer valid: %v", err)
	}
	c.Advance(65 * time.Second) // beyond the grace, the driver is back
	n2.report(4, 0, 4, nil)
	g2.telemetry(l, 2, protocol.PhaseDecode, nil)
	eventually(t, "telemetry", func() bool { s := tr.session(l.Session); return s.Telemetry != nil && s.Telemetry.Seq == 2 })
	g2.telemetry(l, 3, protocol.PhaseDone, nil)
	tr.waitPhase(l.Session, protocol.PhaseDone)
}

// storedLease verifies the stored lease of a session against the tracker's key.
func storedLease(tr *tracker, l *protocol.Lease) (*protocol.Lease, error) {
	rec, err := tr.store.Session(tr.t.Context(), l.Session)
	if err != nil {
		return nil, err
	}
	s, err := stored.From(rec)
	if err != nil {
		return nil, err
	}
	return s.Signed.Verify(tr.Key(), tr.clock.Now())
}

func TestDriverLost(t *testing.T) {
	t.Parallel()
	c := &clock{}
	tr := start(t, t.TempDir(), c)
	n := tr.node(newKey(), 4, 0, 4)
	tr.ready()
	key := newKey()
	g := tr.join(key, protocol.RoleGateway)
	l := g.route(tr, 100)
	g.telemetry(l, 1, protocol.PhaseDecode, nil)
	tr.waitPhase(l.Session, protocol.PhaseDecode)
	gone := func() bool {
		tr.core.mu.Lock()
		defer tr.core.mu.Unlock()
		return len(tr.core.peersOfLocked(idOf(key))) == 0
	}
	g.ws.Close()
	eventually(t, "the disconnect", gone)
	c.Advance(20 * time.Second)
	tr.core.tick()
	if s := tr.session(l.Session); s.End != nil {
		t.Fatalf("ended within the grace: %+v", s.End)
	}
	n.report(4, 0, 4, nil)
	tr.ready()
	g = tr.join(key, protocol.RoleGateway)
	eventually(t, "the driver is back", func() bool { return !gone() }) // the welcome comes a moment before
	c.Advance(35 * time.Second)
	tr.core.tick()
	if s := tr.session(l.Session); s.End != nil {
		t.Fatalf("ended although the driver is back: %+v", s.End)
	}
	n.report(4, 0, 4, nil)
	tr.ready()
	g.ws.Close()
	eventually(t, "the disconnect", gone)
	c.Advance(31 * time.Second)
	if end := expect[protocol.EndSession](n, protocol.MsgEndSession); end.Error.Code != protocol.CodeUnavailable {
		t.Errorf("end %+v", end)
	}
	if s := tr.session(l.Session); s.Phase != protocol.PhaseFailed || s.End == nil {
		t.Errorf("session %+v", s)
	}
	g = tr.join(key, protocol.RoleGateway) // learns what it missed
	expect[protocol.EndSession](g, protocol.MsgEndSession)
}

// TestMissedReports: a silent node is drained and then removed, and its
// running session goes on all the time.
func TestMissedReports(t *testing.T) {
	t.Parallel()
	c := &clock{}
	tr := startWith(t, c, Options{Data: t.TempDir(), ReportEvery: 5 * time.Second})
	n := tr.node(newKey(), 4, 0, 4)
	tr.ready()
	g := tr.join(newKey(), protocol.RoleGateway)
	l := g.route(tr, 100)
	g.telemetry(l, 1, protocol.PhaseDecode, nil)
	tr.waitPhase(l.Session, protocol.PhaseDecode)
	c.Advance(13 * time.Second)
	g.askRoute(100)
	if e := g.expectError(protocol.CodeNoRoute); !strings.Contains(e.Message, "draining") {
		t.Errorf("message %q", e.Message)
	}
	n.report(4, 0, 4, nil)
	tr.ready()
	c.Advance(61 * time.Second)
	n.expectRefused(protocol.CodeTimeout)
	g.askRoute(100)
	g.expectError(protocol.CodeModelUnknown)
	if s := tr.session(l.Session); s.End != nil {
		t.Errorf("missed reports ended a session: %+v", s.End)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	evil := tr.join(newKey(), protocol.RoleNode)
	evil.report(4, 0, 4, func(s *protocol.ShardReport) { s.Capability.Name = "<script>alert(1)</script>" })
	tr.ready()
	var page string
	tr.get("/", &page)
	if !strings.Contains(page, "&lt;script&gt;alert(1)") || strings.Contains(page, "<script>alert") || strings.Contains(page, "ZgotmplZ") || !strings.Contains(page, evil.id().Short()) {
		t.Errorf("page: %s", page)
	}
	resp, err := http.Get(tr.URL())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("CSP %q", csp)
	}
	var route routing.Route
	if st := tr.get("/v1/routes/explain?model="+string(testModel)+"&context=512", &route); st != 200 || len(route.Hops) != 1 || route.Hops[0].Cost.Stage != 1000 {
		t.Errorf("explain: %d %+v", st, route)
	}
	for path, code := range map[string]protocol.Code{
		"/v1/routes/explain?model=no": protocol.CodeModelUnknown, "/v1/routes/explain": protocol.CodeInvalidRequest,
		"/v1/routes/explain?model=x&context=q": protocol.CodeInvalidRequest, "/nothing": protocol.CodeNotFound,
		"/v1/sessions/x": protocol.CodeInvalidRequest, "/v1/sessions/" + string(protocol.NewSessionID()): protocol.CodeSessionUnknown,
		"/v1/routes/explain?context=9999&model=" + string(testModel): protocol.CodeContextExceeded,
	} {
		var e protocol.Error
		if st := tr.get(path, &e); e.Code != code || st != code.HTTPStatus() {
			t.Errorf("%s: %d %v, want %s", path, st, &e, code)
		}
	}
	var text string
	if st := tr.get("/metrics", &text); st != 200 || !strings.Contains(text, `neuron_tracker_nodes{state="ready"} 1`) ||
		!strings.Contains(text, `neuron_tracker_coverage_min{model="`+string(testModel)+`"} 1`) {
		t.Errorf("metrics: %s", text)
	}
	for _, path := range []string{"/v1/models", "/v1/nodes", "/v1/sessions", "/health"} {
		if st := tr.get(path, &text); st != 200 || !strings.HasPrefix(text, "{") {
			t.Errorf("%s: %d %s", path, st, text)
		}
	}
	resp, err = http.Post(tr.URL()+"v1/models", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 405 {
		t.Errorf("POST: %d", resp.StatusCode)
	}
	ev, err := http.Get(tr.URL() + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer ev.Body.Close()
	lines := bufio.NewScanner(ev.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	if line := lines.Text(); !strings.HasPrefix(line, `data: {"set":{`) {
		t.Errorf("event %q, %v", line, lines.Err())
	}
	tr.halt() // ends with an open event stream and open websockets
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	tr := start(t, data, &clock{})
	_, err := New(Options{Listen: "127.0.0.1:0", Data: data})
	wantCode(t, err, protocol.CodeAlreadyRunning)
	_, err = New(Options{Listen: tr.Addr(), Data: t.TempDir()})
	wantCode(t, err, protocol.CodePortInUse)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{Listen: "127.0.0.1:0", Data: file})
	wantCode(t, err, protocol.CodeDataFolder)
	bad := t.TempDir()
	if err := os.WriteFile(filepath.Join(bad, "tracker.db"), []byte(strings.Repeat("garbage ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first failure must give the folder back
		_, err = New(Options{Listen: "127.0.0.1:0", Data: bad})
		wantCode(t, err, protocol.CodeDataFolder)
	}
	for _, o := range []Options{
		{Listen: "0.0.0.0:0"}, {Listen: ":0"}, {Listen: "example.org:1"}, {Listen: "nonsense"},
		{Listen: "127.0.0.1:0", TLSCert: "x"}, {Listen: "127.0.0.1:0", TLSCert: "x", TLSKey: "y"}, {Listen: "127.0.0.1:0", ReportEvery: time.Hour},
	} {
		o.Data = t.TempDir()
		_, err := New(o)
		wantCode(t, err, protocol.CodeInvalidRequest)
	}
	s, err := New(Options{Listen: "0.0.0.0:0", Insecure: true, Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // without Run, and twice
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Run(context.Background()); err != nil {
		t.Errorf("Run after Close: %v", err)
	}
}

// TestNoGoroutineStays runs alone (it is not parallel).
func TestNoGoroutineStays(t *testing.T) {
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	before := runtime.NumGoroutine()
	tr := start(t, t.TempDir(), &clock{})
	var fakes []*fake
	for range 5 {
		fakes = append(fakes, tr.node(newKey(), 4, 0, 4))
	}
	tr.ready()
	g := tr.join(newKey(), protocol.RoleGateway)
	g.route(tr, 100)
	tr.halt()
	for _, f := range append(fakes, g) {
		for range f.msgs {
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}
