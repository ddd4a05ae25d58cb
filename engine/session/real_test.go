package session_test

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/control"
	"neuron/engine/control/controltest"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/seam/seamclient"
	"neuron/engine/seam/seamtest"
	"neuron/engine/session"
	"neuron/engine/session/sessiontest"
	"neuron/internal/identity"
)

func TestBackendSuite(t *testing.T) {
	t.Parallel()
	gatewaytest.BackendSuite(t, func(t *testing.T) gatewaytest.Env {
		n := sessiontest.New(sessiontest.Script{Hops: 2, StepTime: time.Millisecond, Answer: slices.Repeat([]int32{65}, 20)})
		m, err := session.New(session.Options{Node: n.Driver, Hops: n, Router: n, Texts: n})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := m.Close(ctx); err != nil {
				t.Error(err)
			}
			n.Wait()
		})
		return gatewaytest.Env{Backend: m, Model: sessiontest.ModelName, Prompt: []int32{1, 2, 3}}
	})
}

// realWorld is a driver over real sockets: seam servers with TLS on loopback
// with stages in memory behind them, and a tracker's websocket.
type realWorld struct {
	m      *session.Manager
	stages []*seamtest.Stage
	nodes  []protocol.NodeID
	tr     *controltest.Tracker
}

func newRealWorld(t *testing.T, hops int, upgrade bool) *realWorld {
	t.Helper()
	w := &realWorld{tr: controltest.New(t)}
	var route []protocol.Hop
	for i := range hops {
		use := protocol.Range{First: i * seamtest.Layers / hops, Last: (i + 1) * seamtest.Layers / hops}
		st := seamtest.NewStage(use, 1<<20)
		id, err := identity.New()
		if err != nil {
			t.Fatal(err)
		}
		srv := seam.NewServer(seam.ServerOptions{
			Logger: slog.New(slog.DiscardHandler), Identity: id, Stage: func() seam.Stage { return st },
			TrackerKey: func() ed25519.PublicKey { return w.tr.Public() },
		})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := srv.Close(ctx); err != nil {
				t.Errorf("close hop %d: %v", i, err)
			}
			<-served
		})
		w.stages, w.nodes = append(w.stages, st), append(w.nodes, id.ID())
		route = append(route, protocol.Hop{Node: id.ID(), Addr: ln.Addr().String(), Use: use, StepMicros: 1000})
	}
	w.tr.Route = func(d protocol.NodeID, r protocol.RouteRequest) (*protocol.Lease, *protocol.Error) {
		return &protocol.Lease{Version: protocol.Version, Session: r.Session, Model: seamtest.Model, Layers: seamtest.Layers, Driver: d,
			Hops: route, Context: r.Context, DType: protocol.DTypeF32, Issued: time.Now(), Expires: time.Now().Add(time.Hour), Policy: r.Policy,
			EngineBuild: protocol.Build{Protocol: protocol.Version, Llama: seamtest.LlamaVersion}}, nil
	}
	me, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	cc, err := control.New(control.Options{URL: w.tr.URL(), Identity: me, Role: protocol.RoleGateway, PinnedTracker: w.tr.Public()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- cc.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran })
	w.tr.Wait(t, "connection", func(r controltest.Record) bool { return len(r.Hellos) == 1 })
	limit := time.Now().Add(10 * time.Second)
	for !cc.Connected() && time.Now().Before(limit) {
		time.Sleep(time.Millisecond) // polling with a deadline
	}
	var opts []seamclient.Option
	if upgrade {
		opts = append(opts, seamclient.WithUpgrade())
	}
	sc := seamclient.New(me, opts...)
	t.Cleanup(sc.Close)
	m, err := session.New(session.Options{Node: me.ID(), Hops: session.SeamHops{Client: sc}, Router: cc, Texts: sessiontest.New(sessiontest.Script{})})
	if err != nil {
		t.Fatal(err)
	}
	w.m = m
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
		for i, st := range w.stages {
			if n := st.Sessions(); n != 0 {
				t.Errorf("hop %d still holds %d sessions", i, n)
			}
		}
	})
	return w
}

func TestRealSeams(t *testing.T) {
	for _, tc := range []struct {
		name    string
		hops    int
		upgrade bool
	}{{"one hop", 1, false}, {"two hops", 2, false}, {"three hops", 3, false}, {"two hops, upgraded", 2, true}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newRealWorld(t, tc.hops, tc.upgrade)
			const prompt, max = 700, 40
			r := ask(prompt, max)
			g, err := w.m.Generate(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			ids, _, fin, perr := answer(g)
			if perr != nil || fin != protocol.FinishLength {
				t.Fatalf("%s, %v", fin, perr)
			}
			var want []int32
			for i := range max {
				want = append(want, seamtest.TokenAt(uint32(prompt+i)))
			}
			if diff := cmp.Diff(want, ids); diff != "" {
				t.Error(diff)
			}
			tl, _ := w.m.Telemetry(g.Session())
			for i, h := range tl.Route {
				c := h.Counters
				if h.Node != w.nodes[i] || c.PrefillRows != prompt || c.DecodeSteps != max-1 || c.NextPos != prompt+max-1 || h.Health != protocol.HealthOK {
					t.Errorf("hop %d: %+v", i, h)
				}
				if i > 0 && c.DecodeBytesIn != tl.Route[i-1].Counters.DecodeBytesOut {
					t.Errorf("hop %d got %d decode bytes, hop %d sent %d", i, c.DecodeBytesIn, i-1, tl.Route[i-1].Counters.DecodeBytesOut)
				}
			}
			w.tr.Wait(t, "telemetry of the end", func(r controltest.Record) bool {
				return len(r.Sessions) > 0 && r.Sessions[len(r.Sessions)-1].Phase == protocol.PhaseDone
			})
		})
	}
}

func TestRealCancelFreesAllHops(t *testing.T) {
	t.Parallel()
	w := newRealWorld(t, 3, false)
	g, err := w.m.Generate(context.Background(), ask(100, 3000))
	if err != nil {
		t.Fatal(err)
	}
	<-g.Tokens()
	began := time.Now()
	g.Cancel()
	_, _, fin, perr := answer(g)
	if fin != protocol.FinishCancelled || perr == nil {
		t.Errorf("%s, %v", fin, perr)
	}
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("took %s", d)
	}
	for i, st := range w.stages {
		if n := st.Sessions(); n != 0 {
			t.Errorf("hop %d still holds %d sessions", i, n)
		}
	}
}

func TestRealStageFailure(t *testing.T) {
	for hop := range 3 {
		t.Run(string(rune('0'+hop)), func(t *testing.T) {
			t.Parallel()
			w := newRealWorld(t, 3, false)
			g, err := w.m.Generate(context.Background(), ask(100, 3000))
			if err != nil {
				t.Fatal(err)
			}
			for range 4 { // by then every hop has seen decode rows
				<-g.Tokens()
			}
			if !w.stages[hop].Fail(g.Session(), protocol.Errorf(protocol.CodeStageLost, "scripted")) {
				t.Fatal("no session to fail")
			}
			_, _, fin, perr := answer(g)
			if fin != protocol.FinishError || perr == nil || perr.Code != protocol.CodeStageLost || perr.Hop == nil || *perr.Hop != hop || perr.Phase != protocol.PhaseDecode {
				t.Errorf("%s, %+v", fin, perr)
			}
		})
	}
}
