package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"neuron/engine/protocol"
	"neuron/tracker-server/telemetry"
	"neuron/tracker-server/web/browsertest"
)

// recording starts a tracker that keeps history.
func recording(t *testing.T, data string, c *clock) *tracker {
	t.Helper()
	return startWith(t, c, Options{Data: data, TelemetryDays: 30})
}

// history waits until all is written, after a start until the file is open.
func (tr *tracker) history(id protocol.SessionID) (h telemetry.History, status int) {
	tr.t.Helper()
	if err := tr.core.recorder.Flush(tr.t.Context()); err != nil {
		tr.t.Fatal(err)
	}
	eventually(tr.t, "a history", func() bool {
		h = telemetry.History{}
		status = tr.get("/v1/sessions/"+string(id)+"/telemetry", &h)
		return status != http.StatusServiceUnavailable
	})
	return h, status
}

// TestHistory: a session's history is there while it runs, after it, and after
// a restart; deleting the file loses it and nothing else.
func TestHistory(t *testing.T) {
	t.Parallel()
	data, c := t.TempDir(), &clock{}
	tr := recording(t, data, c)
	tr.node(newKey(), 4, 0, 4)
	tr.ready()
	g := tr.join(newKey(), protocol.RoleGateway)
	l := g.route(tr, 1000)
	g.telemetry(l, 1, protocol.PhasePrefill, nil)
	g.telemetry(l, 2, protocol.PhaseDecode, nil)
	tr.waitPhase(l.Session, protocol.PhaseDecode)
	h, status := tr.history(l.Session)
	if status != http.StatusOK || len(h.Phases) != 3 || h.End != nil || h.Name != "guide" {
		t.Fatalf("while it runs: %d %+v", status, h)
	}
	if s := h.Samples[len(h.Samples)-1]; s.Tokens != 2 || s.TokensPerSecond != 7.5 || len(s.Hops) != 1 || s.Hops[0].Step != 1100 {
		t.Errorf("sample %+v", s)
	}
	g.telemetry(l, 3, protocol.PhaseDone, func(x *protocol.Telemetry) { x.Finish = protocol.FinishStop })
	tr.waitPhase(l.Session, protocol.PhaseDone)
	if h, _ := tr.history(l.Session); h.End == nil || h.End.Finish != protocol.FinishStop || len(h.Phases) != 4 {
		t.Errorf("after it: %+v", h)
	}
	if status := tr.get("/v1/sessions/"+string(protocol.NewSessionID())+"/telemetry", nil); status != http.StatusNotFound {
		t.Errorf("unknown session: %d", status)
	}
	var page string
	if status := tr.get("/sessions/"+string(l.Session), &page); status != http.StatusOK || !strings.Contains(page, "finish reason <code>stop</code>") || !strings.Contains(page, "Phases") {
		t.Errorf("page: %d %s", status, page)
	}
	tr.halt()
	tr = recording(t, data, c)
	if h, _ := tr.history(l.Session); h.End == nil || len(h.Phases) != 4 {
		t.Errorf("after a restart: %+v", h)
	}
	var sums struct{ Figures []telemetry.Figures }
	eventually(t, "the minutes of the run before", func() bool {
		tr.get("/v1/figures?since=1h&step=1h", &sums)
		return len(sums.Figures) > 0
	})
	total := telemetry.Figures{}
	for _, f := range sums.Figures {
		total.Tokens += f.Tokens
		total.Started += f.Started
		total.Ended += f.Ended
	}
	if total.Tokens != 3 || total.Started != 1 || total.Ended != 1 {
		t.Errorf("figures after a restart: %+v", sums)
	}
	tr.halt()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(data, TelemetryFile+suffix)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	tr = recording(t, data, c)
	if _, status := tr.history(l.Session); status != http.StatusNotFound {
		t.Errorf("without the file: %d", status)
	}
	if s := tr.session(l.Session); s.Phase != protocol.PhaseDone {
		t.Errorf("the session itself is lost: %+v", s)
	}
}

// TestPrivateSessions: strangers see phase, model and end of a private session,
// in every list, history, feed and page, and never its id.
func TestPrivateSessions(t *testing.T) {
	t.Parallel()
	tr := recording(t, t.TempDir(), &clock{})
	n := tr.node(newKey(), 4, 0, 4)
	tr.ready()
	ws, _, err := websocket.DefaultDialer.Dial("ws://"+tr.Addr()+"/v1/telemetry", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	var hello struct{ Kind string }
	if err := ws.ReadJSON(&hello); err != nil || hello.Kind != "hello" {
		t.Fatal(hello, err)
	}
	g := tr.join(newKey(), protocol.RoleGateway)
	id := protocol.NewSessionID()
	g.send(protocol.MsgRoute, protocol.RouteRequest{Session: id, Model: "guide", Context: 1000, Policy: protocol.PolicyPrivate, Nodes: []protocol.NodeID{n.id()}})
	r := expect[protocol.RouteReply](g, protocol.MsgLease)
	l, err := r.Lease.Verify(tr.Key(), tr.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	g.telemetry(l, 1, protocol.PhaseDecode, func(x *protocol.Telemetry) { x.Tokens = 77 })
	tr.waitPhase(id, protocol.PhaseDecode)
	hop := 0
	g.telemetry(l, 2, protocol.PhaseFailed, func(x *protocol.Telemetry) {
		x.Tokens = 78
		x.Error = &protocol.Error{Code: protocol.CodeHopLost, Message: "node " + string(n.id()) + " broke", Hop: &hop}
	})
	s := tr.waitPhase(id, protocol.PhaseFailed)
	if s.End == nil || s.End.Error == nil || s.End.Error.Code != protocol.CodeHopLost || s.Name != "guide" {
		t.Errorf("who knows the id sees %+v", s)
	}
	h, status := tr.history(id)
	if status != http.StatusOK || len(h.Samples) != 0 || len(h.Phases) != 3 || h.End.Code != protocol.CodeHopLost {
		t.Errorf("history: %d %+v", status, h)
	}
	hidden := []string{string(g.id()), g.id().Short(), string(n.id()), n.id().Short(), "77", "78", "broke"}
	look := func(what, text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if strings.Contains(text, w) {
				t.Errorf("%s tells %q:\n%s", what, w, text)
			}
		}
	}
	for _, path := range []string{"/v1/sessions/" + string(id), "/v1/sessions/" + string(id) + "/telemetry"} {
		var text string
		tr.get(path, &text)
		look(path, regexp.MustCompile(`"(at|issued)": "[^"]*"`).ReplaceAllString(strings.ReplaceAll(text, string(id), ""), ""), hidden...)
	}
	for _, path := range []string{"/v1/sessions", "/", "/sessions", "/v1/figures", "/v1/health"} {
		var text string
		tr.get(path, &text)
		look(path, text, string(id), "broke")
		if path == "/v1/sessions" && !strings.Contains(text, `"private": true`) {
			t.Errorf("the list does not count it: %s", text)
		}
	}
	for range 3 { // routing, decode, failed
		ws.SetReadDeadline(time.Now().Add(patience))
		_, raw, err := ws.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(raw, []byte(`"private":true`)) {
			t.Errorf("the feed says %s", raw)
		}
		look("the feed", regexp.MustCompile(`"at":"[^"]*"`).ReplaceAllString(string(raw), ""), append(hidden, string(id))...)
	}
}

// TestHungDisk: while the disk of the history hangs, sessions start, run and
// end, subscribers hear of them, and the history says that it cannot be read.
func TestHungDisk(t *testing.T) {
	t.Parallel()
	c := &clock{}
	s, err := New(Options{Listen: "127.0.0.1:0", Data: t.TempDir(), Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	hang := make(chan struct{})
	s.core.recorder = telemetry.New(telemetry.Options{Sink: s.core.feed, Open: func(context.Context) (telemetry.Store, error) {
		<-hang
		return nil, errors.New("no disk")
	}})
	ctx, cancel := context.WithCancel(context.Background())
	tr := &tracker{Server: s, t: t, clock: c, done: make(chan error, 1), stop: cancel}
	go func() { tr.done <- s.Run(ctx) }()
	t.Cleanup(tr.halt)
	defer close(hang)
	ws, _, err := websocket.DefaultDialer.Dial("ws://"+tr.Addr()+"/v1/telemetry", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	tr.node(newKey(), 4, 0, 4)
	tr.ready()
	g := tr.join(newKey(), protocol.RoleGateway)
	var l *protocol.Lease
	for range 10 {
		l = g.route(tr, 100)
		g.telemetry(l, 1, protocol.PhaseDecode, nil)
		g.telemetry(l, 2, protocol.PhaseDone, func(x *protocol.Telemetry) { x.Finish = protocol.FinishStop })
		tr.waitPhase(l.Session, protocol.PhaseDone)
	}
	if status := tr.get("/v1/sessions/"+string(l.Session)+"/telemetry", nil); status != http.StatusServiceUnavailable {
		t.Errorf("history: %d", status)
	}
	ws.SetReadDeadline(time.Now().Add(patience))
	for n := 0; n < 31; n++ { // a hello, and three for each session
		if _, _, err := ws.ReadMessage(); err != nil {
			t.Fatal(n, err)
		}
	}
}

// TestMetricsAreDocumented compares the table in docs/operations.md with what
// the tracker registers: names and labels, both ways.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		tr.core.metrics.registry.Describe(descs)
	}()
	have := map[string][]string{}
	form := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	for d := range descs {
		m := form.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("a description of another form: %s", d)
		}
		if strings.HasPrefix(m[1], "go_") || strings.HasPrefix(m[1], "process_") || strings.HasPrefix(m[1], "promhttp_") {
			continue
		}
		labels := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		have[m[1]] = labels
	}
	if len(have) < 8 {
		t.Fatalf("only %v", have)
	}
	raw, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(neuron_tracker_\\w+)` \\| ([^|]*)\\|").FindAllStringSubmatch(string(raw), -1) {
		labels := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		said[m[1]] = labels
	}
	for name, labels := range have {
		if got, ok := said[name]; !ok {
			t.Errorf("docs/operations.md does not list %s (labels %v)", name, labels)
		} else if !slices.Equal(got, labels) {
			t.Errorf("docs/operations.md gives %s the labels %v, it has %v", name, got, labels)
		}
	}
	for name := range said {
		if have[name] == nil {
			if _, ok := have[name]; !ok {
				t.Errorf("docs/operations.md lists %s, which does not exist", name)
			}
		}
	}
}

// TestLivePage opens the page of a real tracker in a browser and watches a node
// and a session come, run and end, without loading it again.
func TestLivePage(t *testing.T) {
	b := browsertest.Start(t)
	tr := recording(t, t.TempDir(), &clock{})
	p := b.Open(tr.URL(), browsertest.View{Width: 1400, Height: 900})
	p.Wait(`document.getElementById("stream").innerText === "Live"`)
	p.Wait(`document.getElementById("nodes-note").innerText.includes("No node is connected")`)
	p.Eval("window.same = true", nil)
	a, z := tr.node(newKey(), 6, 0, 3), tr.node(newKey(), 6, 3, 6)
	tr.ready()
	p.Wait(fmt.Sprintf(`document.querySelectorAll("#nodes tr").length === 2 && document.getElementById("n-node-%s").innerText.includes("ready")`, a.id()))
	p.Wait(`document.querySelector("#models article").innerText.includes("usable") && document.querySelector("#models svg desc")`)
	g := tr.join(newKey(), protocol.RoleGateway)
	l := g.route(tr, 1000)
	slow := func(x *protocol.Telemetry) {
		x.Tokens = 41
		for i := range x.Route {
			if x.Route[i].Node == z.id() {
				x.Route[i].Counters.DecodeMicros *= 30
			}
		}
	}
	g.telemetry(l, 1, protocol.PhaseDecode, slow)
	card := fmt.Sprintf("document.getElementById(%q)", l.Session)
	p.Wait(card + ` && ` + card + `.querySelectorAll(".hops li").length === 3 && ` + card + `.innerText.includes("41 tokens")`)
	p.Wait(card + `.querySelector(".h-slow").innerText.includes("the slow hop")`)
	p.Eval(card+`.querySelector("details").open = true`, nil)
	g.telemetry(l, 2, protocol.PhaseDecode, func(x *protocol.Telemetry) { slow(x); x.Tokens = 52 })
	p.Wait(card + `.innerText.includes("52 tokens") && ` + card + `.querySelector("details").open`)
	p.Shot("live-session")
	g.telemetry(l, 3, protocol.PhaseDone, func(x *protocol.Telemetry) { x.Finish = protocol.FinishStop })
	p.Wait(card + `.innerText.includes("finish reason stop")`)
	a.ws.Close()
	p.Wait(`document.querySelectorAll("#nodes tr").length > 0 && document.getElementById("health").innerText.includes("Missing: layers 0–2")`)
	var same bool
	if p.Eval("window.same === true", &same); !same {
		t.Error("the page was loaded again")
	}
	// The theme is switched in place, and the next page knows.
	p.Eval(`document.querySelector("[data-to=dark]").click()`, nil)
	p.Wait(`document.documentElement.dataset.theme === "dark"`)
	if list := p.Troubles(); len(list) > 0 {
		t.Errorf("troubles %q", list)
	}
	p.Shot("live-dark")
	q := b.Open(strings.TrimSuffix(tr.URL(), "/")+"/sessions/"+string(l.Session), browsertest.View{Width: 1000, Height: 900, NoScript: true})
	var text string
	if q.Eval("document.documentElement.dataset.theme + document.body.innerText", &text); !strings.HasPrefix(text, "dark") || !strings.Contains(text, "Phases") {
		t.Errorf("the session's page: %s", text)
	}
	q.Shot("live-session-page")
	// After a restart of the tracker the page comes back by itself.
	tr.halt()
	p.Wait(`document.getElementById("stream").innerText.includes("No connection")`)
	// Without JavaScript everything can be read.
	tr = recording(t, t.TempDir(), &clock{})
	tr.node(newKey(), 4, 0, 4)
	tr.ready()
	q = b.Open(tr.URL(), browsertest.View{Width: 360, Height: 800, NoScript: true})
	if q.Eval("document.body.innerText", &text); !strings.Contains(text, "Each layer is on 1 ready node.") || !strings.Contains(text, "Reload for the newest state") {
		t.Errorf("without scripts: %s", text)
	}
}
