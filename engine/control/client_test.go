package control_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/control"
	"neuron/engine/control/controltest"
	"neuron/engine/protocol"
)

// pauses records the waits that a client wants and lets them pass at once.
type pauses struct {
	mu   sync.Mutex
	list []time.Duration
	gate chan struct{} // when not nil, one receive per wait
}

func (p *pauses) wait(ctx context.Context, d time.Duration) error {
	p.mu.Lock()
	p.list = append(p.list, d)
	p.mu.Unlock()
	if p.gate != nil {
		select {
		case <-p.gate:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (p *pauses) all() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Duration(nil), p.list...)
}

// start runs a client until the test ends; done delivers Run's result.
func start(t *testing.T, o control.Options) (c *control.Client, stop func(), done <-chan error) {
	t.Helper()
	if o.Identity == nil {
		o.Identity = controltest.NewIdentity()
	}
	if o.Role == "" {
		o.Role = protocol.RoleNode
	}
	c, err := control.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d, ended := make(chan error, 1), make(chan struct{})
	go func() { d <- c.Run(ctx); close(ended) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Error("Run did not end")
		}
	})
	return c, cancel, d
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(limit) {
			t.Fatalf("%s did not happen", what)
		}
		time.Sleep(time.Millisecond) // polling with a deadline
	}
}

func code(err error) protocol.Code {
	if err == nil {
		return ""
	}
	return protocol.AsError(err).Code
}

func TestConnectReportAndBye(t *testing.T) {
	t.Parallel()
	tr := controltest.New(t)
	id := controltest.NewIdentity()
	n := 0
	c, stop, done := start(t, control.Options{
		URL: tr.URL(), Identity: id, Engine: "1.2.3", Addr: "10.0.0.1:7", Host: "4 cores", PinnedTracker: tr.Public(),
		Build:  protocol.Build{Protocol: 1, Llama: "b1"},
		Report: func() protocol.Report { n++; return protocol.Report{FreeDisk: int64(n)} },
	})
	r := tr.Wait(t, "first report", func(r controltest.Record) bool { return len(r.Reports) == 1 })
	h := r.Hellos[0]
	if h.Engine != "1.2.3" || h.Addr != "10.0.0.1:7" || h.Host != "4 cores" || h.Role != protocol.RoleNode || h.Build.Llama != "b1" {
		t.Errorf("hello %+v", h)
	}
	c.ReportNow()
	r = tr.Wait(t, "second report", func(r controltest.Record) bool { return len(r.Reports) == 2 })
	if r.Reports[1].FreeDisk != 2 {
		t.Errorf("report %+v", r.Reports[1])
	}
	if s := c.State(); !c.Connected() || s.Status != control.StatusConnected || s.Epoch != 1 || s.Error != nil {
		t.Errorf("state %+v", s)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	tr.Wait(t, "bye", func(r controltest.Record) bool { return r.Byes == 1 && r.Conns == 0 })
	if c.Connected() || c.State().Status != control.StatusStopped {
		t.Errorf("state after stop %+v", c.State())
	}
	if _, err := c.Models(context.Background()); code(err) != protocol.CodeUnavailable {
		t.Errorf("Models after stop: %v", err)
	}
}

func TestRouteAndModels(t *testing.T) {
	t.Parallel()
	tr := controltest.New(t)
	model := protocol.ModelID(strings.Repeat("ab", 32))
	tr.Models = []protocol.ModelInfo{{Model: model, Name: "m", Layers: 2, Replicas: []int{1, 1}, Routable: true}, {Model: "x", Name: "bad"}}
	tr.Route = func(d protocol.NodeID, r protocol.RouteRequest) (*protocol.Lease, *protocol.Error) {
		if r.Model != "m" {
			return nil, protocol.Errorf(protocol.CodeNoRoute, "layers 3-4 are missing")
		}
		return &protocol.Lease{Version: protocol.Version, Session: r.Session, Model: model, Layers: 2, Driver: d, Context: r.Context, Policy: protocol.PolicyPublic,
			Hops:  []protocol.Hop{{Node: controltest.NewIdentity().ID(), Addr: "127.0.0.1:1", Use: protocol.Range{First: 0, Last: 2}}},
			DType: protocol.DTypeF32, Issued: time.Now(), Expires: time.Now().Add(time.Hour)}, nil
	}
	id := controltest.NewIdentity()
	c, _, _ := start(t, control.Options{URL: tr.URL(), Identity: id, Role: protocol.RoleGateway})
	eventually(t, "connection", c.Connected)
	ctx := context.Background()
	ms, err := c.Models(ctx)
	if err != nil || len(ms) != 1 || ms[0].Model != model {
		t.Fatalf("models %+v, %v", ms, err)
	}
	s := protocol.NewSessionID()
	rep, err := c.Route(ctx, protocol.RouteRequest{Session: s, Model: "m", Context: 128, Policy: protocol.PolicyPublic})
	if err != nil {
		t.Fatal(err)
	}
	l, err := rep.Lease.Verify(c.TrackerKey(), time.Now())
	if err != nil || l.Session != s || l.Driver != id.ID() {
		t.Errorf("lease %+v, %v", l, err)
	}
	if _, err := c.Route(ctx, protocol.RouteRequest{Session: s, Model: "other"}); code(err) != protocol.CodeNoRoute || !strings.Contains(err.Error(), "3-4") {
		t.Errorf("route: %v", err)
	}
	// Questions in parallel get their own answers.
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			s := protocol.NewSessionID()
			r, err := c.Route(ctx, protocol.RouteRequest{Session: s, Model: "m", Context: 1})
			if err != nil {
				t.Error(err)
				return
			}
			if l, err := r.Lease.Verify(tr.Public(), time.Now()); err != nil || l.Session != s {
				t.Errorf("lease for %s: %v", s, err)
			}
		})
	}
	wg.Wait()
}

func TestReconnectKeepsTelemetryAndBlames(t *testing.T) {
	t.Parallel()
	tr := controltest.New(t)
	p := &pauses{gate: make(chan struct{})}
	c, _, _ := start(t, control.Options{URL: tr.URL(), Clock: control.Clock{Wait: p.wait, Jitter: func() float64 { return 0 }}})
	tr.Wait(t, "hello", func(r controltest.Record) bool { return len(r.Hellos) == 1 })
	eventually(t, "connection", c.Connected)
	tr.Kick()
	eventually(t, "loss", func() bool { return len(p.all()) == 1 })
	if s := c.State(); s.Status != control.StatusWaiting || s.Error == nil || s.Retry.IsZero() {
		t.Errorf("state %+v", s)
	}
	s := protocol.NewSessionID()
	for i, ph := range []protocol.Phase{protocol.PhaseQueued, protocol.PhaseQueued, protocol.PhasePrefill, protocol.PhasePrefill, protocol.PhaseDecode, protocol.PhaseDone} {
		c.SendSession(protocol.Telemetry{Session: s, Phase: ph, Seq: uint64(i + 1)})
	}
	c.HopFailed(s, "n", protocol.Errorf(protocol.CodeHopLost, "gone"))
	p.gate <- struct{}{}
	r := tr.Wait(t, "telemetry", func(r controltest.Record) bool { return len(r.Sessions) == 4 && len(r.Blames) == 1 })
	var got []uint64
	for _, x := range r.Sessions {
		got = append(got, x.Seq)
	}
	if len(r.Hellos) != 2 || got[0] != 2 || got[1] != 4 || got[2] != 5 || got[3] != 6 {
		t.Errorf("hellos %d, seqs %v", len(r.Hellos), got)
	}
	if r.Blames[0].Error.Code != protocol.CodeHopLost {
		t.Errorf("blame %+v", r.Blames[0])
	}
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	t.Parallel()
	p := &pauses{}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := control.New(control.Options{URL: "http://127.0.0.1:1", Identity: controltest.NewIdentity(), Clock: control.Clock{
		Jitter: func() float64 { return 1 },
		Wait: func(ctx context.Context, d time.Duration) error {
			if len(p.all()) == 9 {
				cancel()
			}
			return p.wait(ctx, d)
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	got := p.all()
	want := []time.Duration{500e6, 1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9}
	for i, w := range want {
		if got[i] != w {
			t.Fatalf("pauses %v, want %v", got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	other := controltest.NewIdentity()
	cases := []struct {
		name  string
		setup func(*controltest.Tracker, *control.Options)
		pause time.Duration
		code  protocol.Code
	}{
		{"retry after", func(tr *controltest.Tracker, _ *control.Options) {
			tr.OnHello = func(protocol.Hello) *protocol.Refused {
				return &protocol.Refused{Error: protocol.Errorf(protocol.CodeRateLimited, "too many"), RetryAfter: 77}
			}
		}, 77 * time.Second, protocol.CodeRateLimited},
		{"retry after is bounded", func(tr *controltest.Tracker, _ *control.Options) {
			tr.OnHello = func(protocol.Hello) *protocol.Refused { return &protocol.Refused{RetryAfter: 1 << 40} }
		}, time.Hour, protocol.CodeForbidden},
		{"never with this build", func(tr *controltest.Tracker, _ *control.Options) {
			tr.OnHello = func(protocol.Hello) *protocol.Refused {
				return &protocol.Refused{Error: protocol.Errorf(protocol.CodeBuildMismatch, "old")}
			}
		}, 10 * time.Minute, protocol.CodeBuildMismatch},
		{"protocol", func(tr *controltest.Tracker, _ *control.Options) { tr.Protocol = 99 }, 10 * time.Minute, protocol.CodeProtocolVersion},
		{"wrong key", func(_ *controltest.Tracker, o *control.Options) { o.PinnedTracker = other.Public() }, 10 * time.Minute, protocol.CodeUnauthorized},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tr := controltest.New(t)
			p := &pauses{gate: make(chan struct{})}
			o := control.Options{URL: tr.URL(), Clock: control.Clock{Wait: p.wait, Jitter: func() float64 { return 0 }}}
			tc.setup(tr, &o)
			c, _, _ := start(t, o)
			eventually(t, "pause", func() bool { return len(p.all()) == 1 })
			if got := p.all()[0]; got != tc.pause {
				t.Errorf("pause %s, want %s", got, tc.pause)
			}
			if s := c.State(); s.Status != control.StatusRefused || s.Error.Code != tc.code {
				t.Errorf("state %+v %v", s, s.Error)
			}
		})
	}
}

func TestSupersededEndsRun(t *testing.T) {
	t.Parallel()
	for _, kind := range []protocol.MessageKind{protocol.MsgRefused, protocol.MsgBye, protocol.MsgError} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			tr := controltest.New(t)
			c, _, done := start(t, control.Options{URL: tr.URL()})
			eventually(t, "connection", c.Connected)
			e := protocol.Errorf(protocol.CodeSuperseded, "newer")
			if kind == protocol.MsgError {
				tr.Send(kind, e)
			} else {
				tr.Send(kind, protocol.Refused{Error: e})
			}
			if err := <-done; code(err) != protocol.CodeSuperseded {
				t.Errorf("Run: %v", err)
			}
			if c.State().Status != control.StatusSuperseded {
				t.Errorf("state %+v", c.State())
			}
		})
	}
}

func TestMessagesFromTheTracker(t *testing.T) {
	t.Parallel()
	tr := controltest.New(t)
	peers, ends := make(chan []protocol.Peer, 1), make(chan *protocol.Error, 1)
	c, _, _ := start(t, control.Options{URL: tr.URL(),
		OnPeers:      func(p []protocol.Peer) { peers <- p },
		OnEndSession: func(_ protocol.SessionID, e *protocol.Error) { ends <- e },
	})
	eventually(t, "connection", c.Connected)
	good := controltest.NewIdentity().ID()
	tr.Send(protocol.MsgPeers, protocol.Peers{Peers: []protocol.Peer{{Node: "x", Addr: "h:1"}, {Node: good, Addr: "nocolon"}, {Node: good, Addr: "h:1"}}})
	if p := <-peers; len(p) != 1 || p[0].Node != good {
		t.Errorf("peers %+v", p)
	}
	tr.Send(protocol.MsgEndSession, protocol.EndSession{Session: protocol.NewSessionID(),
		Error: &protocol.Error{Code: protocol.CodeHopLost, Message: strings.Repeat("x", 9999)}})
	if e := <-ends; e.Code != protocol.CodeHopLost || len(e.Message) > 300 {
		t.Errorf("end %v", e)
	}
	tr.Send("dance", struct{}{})
	tr.Send(protocol.MsgEndSession, protocol.EndSession{Session: "nonsense"})
	r := tr.Wait(t, "complaints", func(r controltest.Record) bool { return len(r.Errors) == 2 })
	if r.Errors[0].Code != protocol.CodeUnknownMessage || r.Errors[1].Code != protocol.CodeInvalidRequest {
		t.Errorf("complaints %v", r.Errors)
	}
	if !c.Connected() {
		t.Error("a single bad message ended the connection")
	}
}

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, answer string
		code         protocol.Code
	}{
		{"no lease", `{"kind":"lease","id":ID,"body":{}}`, protocol.CodeUnavailable},
		{"wrong shape", `{"kind":"lease","id":ID,"body":[1]}`, protocol.CodeUnavailable},
		{"no body", `{"kind":"lease","id":ID}`, protocol.CodeUnavailable},
		{"other kind", `{"kind":"models","id":ID,"body":{}}`, protocol.CodeUnavailable},
		{"empty error", `{"kind":"error","id":ID}`, protocol.CodeUnavailable},
		{"unknown code", `{"kind":"error","id":ID,"body":{"code":"newer","message":"m"}}`, "newer"},
		{"other id", `{"kind":"lease","id":999,"body":{}}`, protocol.CodeTimeout},
		{"not JSON", `nonsense`, protocol.CodeUnavailable},
		{"too long", `{"kind":"lease","id":ID,"body":"` + strings.Repeat("x", protocol.MaxMessage) + `"}`, protocol.CodeUnavailable},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tr := controltest.New(t)
			tr.Raw = func(e *protocol.Envelope) []byte {
				if e.Kind != protocol.MsgRoute {
					return nil
				}
				return []byte(strings.Replace(tc.answer, "ID", "1", 1))
			}
			c, _, _ := start(t, control.Options{URL: tr.URL(), CallTimeout: 300 * time.Millisecond})
			eventually(t, "connection", c.Connected)
			if _, err := c.Route(context.Background(), protocol.RouteRequest{}); code(err) != tc.code {
				t.Errorf("got %v, want %s", err, tc.code)
			}
		})
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	tr := controltest.New(t)
	asked := make(chan struct{})
	tr.Raw = func(e *protocol.Envelope) []byte {
		if e.Kind == protocol.MsgRoute {
			close(asked)
			return []byte(`{"kind":"error"}`) // an answer to nobody
		}
		return nil
	}
	c, _, _ := start(t, control.Options{URL: tr.URL()})
	eventually(t, "connection", c.Connected)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-asked; cancel() }()
	if _, err := c.Route(ctx, protocol.RouteRequest{}); code(err) != protocol.CodeCancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestSilentTrackerIsLeft(t *testing.T) {
	t.Parallel()
	tr := controltest.New(t)
	p := &pauses{gate: make(chan struct{})}
	c, _, _ := start(t, control.Options{URL: tr.URL(), Silence: 400 * time.Millisecond, Clock: control.Clock{Wait: p.wait}})
	eventually(t, "connection", c.Connected)
	begin := time.Now()
	for time.Since(begin) < 800*time.Millisecond { // pings keep it alive beyond the limit
		tr.Ping()
		time.Sleep(50 * time.Millisecond)
	}
	if !c.Connected() {
		t.Fatal("pings did not keep the connection")
	}
	eventually(t, "loss", func() bool { return len(p.all()) == 1 })
}

func TestTrustOnFirstUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tr := controltest.New(t)
	trust := control.NewFileTrust(dir)
	if key, err := trust.Key(tr.URL()); key != nil || err != nil {
		t.Errorf("a key before the first contact: %x, %v", key, err)
	}
	c, stop, done := start(t, control.Options{URL: tr.URL(), Trust: trust})
	eventually(t, "connection", c.Connected)
	if !tr.Public().Equal(c.TrackerKey()) {
		t.Error("wrong key")
	}
	stop()
	<-done
	// The key is known to a new process, and another tracker at the same
	// address is refused.
	tr.Identity = controltest.NewIdentity()
	p := &pauses{gate: make(chan struct{})}
	c, _, _ = start(t, control.Options{URL: tr.URL(), Trust: control.NewFileTrust(dir), Clock: control.Clock{Wait: p.wait}})
	if c.TrackerKey() == nil {
		t.Fatal("key not remembered")
	}
	eventually(t, "refusal", func() bool { return c.State().Status == control.StatusRefused })
	if e := c.State().Error; e.Code != protocol.CodeUnauthorized {
		t.Errorf("error %v", e)
	}
}

func TestFileTrustRefusesDamage(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"{", `{"u":"AAAA"}`, strings.Repeat(" ", 300<<10)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "trackers.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := control.NewFileTrust(dir).Key("u"); code(err) != protocol.CodeDataFolder {
			t.Errorf("%.20q: %v", content, err)
		}
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	id := controltest.NewIdentity()
	for _, o := range []control.Options{
		{URL: "", Identity: id}, {URL: "ftp://h", Identity: id}, {URL: "http://", Identity: id}, {URL: "http://h"},
		{URL: "http://h", Identity: id, PinnedTracker: ed25519.PublicKey{1}},
	} {
		if _, err := control.New(o); code(err) != protocol.CodeInvalidRequest {
			t.Errorf("%+v: %v", o.URL, err)
		}
	}
}
