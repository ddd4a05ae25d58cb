package session_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
	"neuron/engine/session"
	"neuron/engine/session/sessiontest"
)

// world is a manager on a scripted network, inside a synctest bubble. run
// closes the manager in the end: a goroutine that is left fails the bubble.
type world struct {
	t *testing.T
	n *sessiontest.Network
	m *session.Manager
}

func run(t *testing.T, s sessiontest.Script, change func(*session.Options), f func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := sessiontest.New(s)
		o := session.Options{Node: n.Driver, Hops: n, Router: n, Texts: n}
		if change != nil {
			change(&o)
		}
		m, err := session.New(o)
		if err != nil {
			t.Fatal(err)
		}
		f(&world{t, n, m})
		if err := m.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		n.Wait()
		n.Look(func() {
			for i := range n.Nodes {
				if open := n.OpenLocked(i); open != 0 && !n.DeadLocked(i) {
					t.Errorf("hop %d still holds %d sessions", i, open)
				}
			}
		})
	})
}

func ask(prompt, maxTokens int) gateway.GenerateRequest {
	r := gateway.GenerateRequest{Request: "req-1", Model: sessiontest.ModelName, MaxTokens: maxTokens, Policy: "public"}
	for i := range prompt {
		r.Prompt = append(r.Prompt, int32(i%100))
	}
	return r
}

func (w *world) start(r gateway.GenerateRequest) gateway.Generation {
	w.t.Helper()
	g, err := w.m.Generate(context.Background(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// answer reads a generation to its end; ids are without the EOG token.
func answer(g gateway.Generation) (ids []int32, eog bool, fin protocol.FinishReason, err *protocol.Error) {
	for t := range g.Tokens() {
		if t.EOG {
			eog = true
			continue
		}
		ids = append(ids, t.ID)
	}
	fin, err = g.Result()
	return
}

func (w *world) last(g gateway.Generation) protocol.Telemetry {
	w.t.Helper()
	t, ok := w.m.Telemetry(g.Session())
	if !ok {
		w.t.Fatal("no telemetry")
	}
	return t
}

func TestAnswer(t *testing.T) {
	for _, hops := range []int{1, 2, 3} {
		t.Run(string(rune('0'+hops))+" hops", func(t *testing.T) {
			s := sessiontest.Script{Hops: hops, StepTime: 20 * time.Millisecond, RowTime: time.Millisecond, Answer: []int32{7, 8, 9}}
			run(t, s, nil, func(w *world) {
				r := ask(1000, 50)
				g := w.start(r)
				if first := w.last(g); first.Seq == 0 || first.PrefillTotal != 1000 || first.Request != "req-1" {
					t.Errorf("first snapshot %+v", first)
				}
				ids, eog, fin, err := answer(g)
				if diff := cmp.Diff([]int32{7, 8, 9}, ids); diff != "" || !eog || fin != protocol.FinishStop || err != nil {
					t.Fatalf("ids %v, eog %v, %s, %v", ids, eog, fin, err)
				}
				tl := w.last(g)
				if tl.Phase != protocol.PhaseDone || tl.Tokens != 3 || tl.PrefillDone != 1000 || tl.FirstTokenMillis <= 0 ||
					tl.ElapsedMillis < tl.FirstTokenMillis || tl.Finish != protocol.FinishStop || tl.Name != sessiontest.ModelName || tl.Model != w.n.Model {
					t.Errorf("last snapshot %+v", tl)
				}
				if len(tl.Route) != hops {
					t.Fatalf("route %+v", tl.Route)
				}
				for i, h := range tl.Route {
					if h.Hop != i || h.Counters.PrefillRows != 1000 || h.Counters.DecodeSteps != 3 || h.Counters.NextPos != 1003 || h.Health != protocol.HealthOK {
						t.Errorf("hop %d: %+v", i, h)
					}
				}
				w.n.Look(func() {
					if diff := cmp.Diff(r.Prompt, w.n.Prompt); diff != "" {
						t.Error("the prompt did not arrive as it is")
					}
					if diff := cmp.Diff([]int32{7, 8, 9}, w.n.Fed); diff != "" {
						t.Errorf("fed back %v", w.n.Fed)
					}
					checkFrames(t, w.n.Frames, 1000)
					if got := w.n.Requests[0]; got.Context != 1280 || got.Prompt != 1000 || got.Policy != "public" {
						t.Errorf("route request %+v", got)
					}
					if w.n.Released[hops-1] != 1 || w.n.Released[0] != 1 {
						t.Errorf("released %v", w.n.Released)
					}
					checkTelemetry(t, w.n.Telemetry)
				})
			})
		})
	}
}

// checkFrames: chunks are multiples of 64 but the last, only that one samples.
func checkFrames(t *testing.T, frames []protocol.Header, prompt uint32) {
	t.Helper()
	at := uint32(0)
	for _, h := range frames {
		if !h.Kind.Rows() {
			continue
		}
		if h.Pos != at {
			t.Errorf("frame at %d, want %d", h.Pos, at)
		}
		at += h.Rows
		end := at >= prompt
		if (h.Flags&protocol.FlagSample != 0) != end || !end && h.Rows%64 != 0 || h.Kind == protocol.KindPrefill != (h.Pos < prompt) {
			t.Errorf("frame %+v", h)
		}
	}
}

// checkTelemetry: every phase reached the tracker once in order, with growing
// numbers, and not more often than once a second within a phase.
func checkTelemetry(t *testing.T, all []protocol.Telemetry) {
	t.Helper()
	order := []protocol.Phase{protocol.PhaseQueued, protocol.PhaseRouting, protocol.PhaseOpening, protocol.PhasePrefill, protocol.PhaseDecode, protocol.PhaseDone}
	i := 0
	for k, x := range all {
		if k > 0 && (x.Seq <= all[k-1].Seq || x.Phase == all[k-1].Phase && x.At.Sub(all[k-1].At) < time.Second) {
			t.Errorf("snapshot %d: %s seq %d after %s seq %d", k, x.Phase, x.Seq, all[k-1].Phase, all[k-1].Seq)
		}
		for i < len(order) && order[i] != x.Phase {
			i++
		}
	}
	if i != len(order)-1 {
		t.Errorf("phases out of order: %d of %d", i, len(order))
	}
}

func TestMaxTokens(t *testing.T) {
	run(t, sessiontest.Script{Answer: []int32{1, 2, 3, 4}}, nil, func(w *world) {
		ids, eog, fin, err := answer(w.start(ask(3, 2)))
		if len(ids) != 2 || eog || fin != protocol.FinishLength || err != nil {
			t.Errorf("ids %v, eog %v, %s, %v", ids, eog, fin, err)
		}
		w.n.Look(func() {
			if len(w.n.Fed) != 1 {
				t.Errorf("fed %v: the last token of a full answer is not executed", w.n.Fed)
			}
		})
	})
}

func TestSamplerGoesToTheTailOnly(t *testing.T) {
	run(t, sessiontest.Script{Hops: 2}, nil, func(w *world) {
		r := ask(5, 2)
		r.Sampler = protocol.Sampler{Temperature: 0.5, RepeatLastN: 64, RepeatPenalty: 1.1}
		answer(w.start(r))
		r.Sampler.RepeatPenalty = 1
		answer(w.start(r))
		w.n.Look(func() {
			for _, o := range w.n.Opened {
				if (o.Sampler != nil) != (o.Hop == 1) {
					t.Errorf("hop %d with sampler %v", o.Hop, o.Sampler)
				}
				if want := o.Sampler != nil && o.Sampler.NeedsPrompt(); (len(o.Prompt) == 5) != want || !want && o.Prompt != nil {
					t.Errorf("hop %d with a prompt of %d ids", o.Hop, len(o.Prompt))
				}
			}
		})
	})
}

func TestChunkSizesFollowTheMeasuredTime(t *testing.T) {
	for _, tc := range []struct {
		name         string
		row          time.Duration
		hops, others int
		want         uint32
	}{
		{"fast and alone", 100 * time.Microsecond, 1, 0, 512},
		{"200 rows are a second", 5 * time.Millisecond, 1, 0, 192},
		{"100 rows are a quarter", 2500 * time.Microsecond, 1, 1, 64},
		{"slower than the aim", 100 * time.Millisecond, 1, 0, 64},
		{"two hops share the prompt", 100 * time.Microsecond, 2, 0, 448},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, sessiontest.Script{Hops: tc.hops, RowTime: tc.row}, nil, func(w *world) {
				all := []gateway.Generation{w.start(ask(4000, 1))}
				for range tc.others {
					all = append(all, w.start(ask(4000, 1)))
				}
				for _, g := range all {
					if _, _, _, err := answer(g); err != nil {
						t.Error(err)
					}
				}
				var largest uint32
				w.n.Look(func() {
					for _, h := range w.n.Frames {
						if h.Kind == protocol.KindPrefill {
							largest = max(largest, h.Rows)
						}
					}
				})
				if largest != tc.want {
					t.Errorf("largest chunk %d, want %d", largest, tc.want)
				}
			})
		})
	}
}

func TestQueue(t *testing.T) {
	s := sessiontest.Script{StepTime: time.Second, Answer: []int32{1, 2, 3}}
	run(t, s, func(o *session.Options) { o.MaxActive, o.MaxQueue = 1, 3 }, func(w *world) {
		a, b, c, d := w.start(ask(1, 9)), w.start(ask(1, 9)), w.start(ask(1, 9)), w.start(ask(1, 9))
		if _, err := w.m.Generate(context.Background(), ask(1, 9)); protocol.AsError(err).Code != protocol.CodeRateLimited {
			t.Errorf("fifth: %v", err)
		}
		synctest.Wait()
		pos := func(g gateway.Generation) int { return w.last(g).QueuePosition }
		if pos(a) != 0 || pos(b) != 1 || pos(c) != 2 || pos(d) != 3 {
			t.Errorf("positions %d %d %d %d", pos(a), pos(b), pos(c), pos(d))
		}
		b.Cancel()
		if _, _, fin, err := answer(b); fin != protocol.FinishCancelled || err.Code != protocol.CodeCancelled || err.Phase != protocol.PhaseQueued {
			t.Errorf("b: %s %v", fin, err)
		}
		if pos(c) != 1 || pos(d) != 2 {
			t.Errorf("positions %d %d", pos(c), pos(d))
		}
		for _, g := range []gateway.Generation{a, c, d} {
			if ids, _, fin, err := answer(g); len(ids) != 3 || fin != protocol.FinishStop || err != nil {
				t.Errorf("%v %s %v", ids, fin, err)
			}
		}
		if run, q := w.m.Active(); run != 0 || q != 0 {
			t.Errorf("active %d, queued %d", run, q)
		}
	})
}

func TestTokenRateAndCountersWhileRunning(t *testing.T) {
	s := sessiontest.Script{Hops: 2, StepTime: 50 * time.Millisecond, Answer: slices.Repeat([]int32{5}, 200)}
	run(t, s, nil, func(w *world) {
		g := w.start(ask(10, 100))
		n := 0
		for range g.Tokens() {
			if n++; n == 60 {
				tl := w.last(g) // two hops of 50 ms: 10 tokens/s
				if tl.TokensPerSecond < 9.5 || tl.TokensPerSecond > 10.6 || tl.Phase != protocol.PhaseDecode {
					t.Errorf("rate %v in %s", tl.TokensPerSecond, tl.Phase)
				}
				if c := tl.Route[1].Counters; c.DecodeSteps < 20 || c.DecodeSteps >= 60 {
					t.Errorf("counters %+v", c)
				}
			}
		}
		w.n.Look(func() { checkTelemetry(t, w.n.Telemetry) })
	})
}

func TestWatch(t *testing.T) {
	s := sessiontest.Script{StepTime: 100 * time.Millisecond, Answer: []int32{1, 2, 3}}
	run(t, s, nil, func(w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		all := w.m.Watch(ctx, "")
		g := w.start(ask(5, 9))
		one := w.m.Watch(context.Background(), g.Session())
		slow := w.m.Watch(context.Background(), g.Session())
		var seen []protocol.Phase
		var seq uint64
		for x := range one {
			if x.Seq <= seq {
				t.Errorf("seq %d after %d", x.Seq, seq)
			}
			seq = x.Seq
			seen = append(seen, x.Phase)
		}
		if seen[len(seen)-1] != protocol.PhaseDone {
			t.Errorf("phases %v", seen)
		}
		answer(g)
		synctest.Wait()
		var got []protocol.Telemetry
		for x := range slow {
			got = append(got, x)
		}
		if len(got) > 2 || !got[len(got)-1].Phase.Ended() {
			t.Errorf("the slow watcher saw %d snapshots", len(got))
		}
		if x := <-all; x.Session != g.Session() { // the one that waited at the start
			t.Errorf("%+v", x)
		}
		if x := <-all; !x.Phase.Ended() {
			t.Errorf("%s", x.Phase)
		}
		cancel()
		if _, open := <-all; open {
			t.Error("the watcher of all did not end with its context")
		}
		if _, open := <-w.m.Watch(context.Background(), protocol.NewSessionID()); open {
			t.Error("an unknown session is watched")
		}
		if x := <-w.m.Watch(context.Background(), g.Session()); x.Finish != protocol.FinishStop {
			t.Errorf("late watcher got %+v", x)
		}
	})
}

func TestKeepsTheLastEndedSessions(t *testing.T) {
	run(t, sessiontest.Script{}, func(o *session.Options) { o.Kept = 2 }, func(w *world) {
		var ids []protocol.SessionID
		for range 3 {
			g := w.start(ask(1, 1))
			answer(g)
			ids = append(ids, g.Session())
		}
		for i, want := range []bool{false, true, true} {
			if _, ok := w.m.Telemetry(ids[i]); ok != want {
				t.Errorf("session %d kept: %v", i, ok)
			}
		}
	})
}

func TestRefusedAtOnce(t *testing.T) {
	run(t, sessiontest.Script{}, nil, func(w *world) {
		for _, tc := range []struct {
			r    gateway.GenerateRequest
			code protocol.Code
		}{
			{ask(0, 1), protocol.CodeInvalidRequest},
			{ask(1, 0), protocol.CodeInvalidRequest},
			{gateway.GenerateRequest{Prompt: []int32{1}, MaxTokens: 1}, protocol.CodeInvalidRequest},
			{ask(1, protocol.MaxContext), protocol.CodeContextExceeded},
		} {
			if _, err := w.m.Generate(context.Background(), tc.r); protocol.AsError(err).Code != tc.code {
				t.Errorf("%v, want %s", err, tc.code)
			}
		}
		w.m.Close(context.Background())
		if _, err := w.m.Generate(context.Background(), ask(1, 1)); protocol.AsError(err).Code != protocol.CodeShutdown {
			t.Errorf("after close: %v", err)
		}
	})
}

func TestLogsHoldNoTokens(t *testing.T) {
	var log strings.Builder
	run(t, sessiontest.Script{Answer: []int32{7777}}, func(o *session.Options) { o.Logger = textLogger(&log) }, func(w *world) {
		r := ask(1, 3)
		r.Prompt = []int32{8888}
		g := w.start(r)
		answer(g)
		if s := log.String(); strings.Contains(s, "7777") || strings.Contains(s, "8888") || !strings.Contains(s, string(g.Session())) {
			t.Errorf("log:\n%s", s)
		}
	})
}
