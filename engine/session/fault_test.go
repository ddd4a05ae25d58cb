package session_test

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/session"
	"neuron/engine/session/sessiontest"
)

func textLogger(w io.Writer) *slog.Logger {
	var mu sync.Mutex
	return slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return w.Write(b)
	}), nil))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func at(hop int, kind protocol.Kind, pos uint32, fault sessiontest.Fault) func(int, *protocol.Frame) sessiontest.Fault {
	return func(h int, f *protocol.Frame) sessiontest.Fault {
		if h == hop && f.Kind == kind && f.Pos >= pos {
			return fault
		}
		return sessiontest.FaultNone
	}
}

func coded(c protocol.Code) *protocol.Error { return protocol.Errorf(c, "scripted") }

func TestFaults(t *testing.T) {
	const P, D = protocol.KindPrefill, protocol.KindDecode
	base := func(hops int) sessiontest.Script {
		return sessiontest.Script{Hops: hops, StepTime: 10 * time.Millisecond, RowTime: time.Millisecond, Answer: []int32{1, 2, 3, 4, 5, 6}}
	}
	with := func(hops int, f func(*sessiontest.Script)) sessiontest.Script {
		s := base(hops)
		f(&s)
		return s
	}
	onFrame := func(hops int, f func(int, *protocol.Frame) sessiontest.Fault) sessiontest.Script {
		return with(hops, func(s *sessiontest.Script) { s.OnFrame = f })
	}
	reply := func(hop int, f func(*protocol.OpenReply)) sessiontest.Script {
		return with(2, func(s *sessiontest.Script) {
			s.EditReply = func(h int, r *protocol.OpenReply) {
				if h == hop {
					f(r)
				}
			}
		})
	}
	token := func(f func(*protocol.Frame)) sessiontest.Script {
		return with(2, func(s *sessiontest.Script) {
			s.EditToken = func(n int, fr *protocol.Frame) {
				if n == 1 {
					f(fr)
				}
			}
		})
	}
	lease := func(f func(*protocol.Lease)) sessiontest.Script {
		return with(2, func(s *sessiontest.Script) { s.EditLease = f })
	}
	cases := []struct {
		name   string
		script sessiontest.Script
		code   protocol.Code
		phase  protocol.Phase
		hop    int // -1: none
		blamed bool
	}{
		{"no route", with(2, func(s *sessiontest.Script) { s.RouteError = coded(protocol.CodeNoRoute) }), protocol.CodeNoRoute, protocol.PhaseRouting, -1, false},
		{"tracker silent", with(2, func(s *sessiontest.Script) { s.RouteDelay = time.Hour }), protocol.CodeTimeout, protocol.PhaseRouting, -1, false},
		{"lease of another session", lease(func(l *protocol.Lease) { l.Session = protocol.NewSessionID() }), protocol.CodeLeaseInvalid, protocol.PhaseRouting, -1, false},
		{"lease of another driver", lease(func(l *protocol.Lease) { l.Driver = l.Hops[0].Node }), protocol.CodeLeaseInvalid, protocol.PhaseRouting, -1, false},
		{"lease too small", lease(func(l *protocol.Lease) { l.Context = 8 }), protocol.CodeLeaseInvalid, protocol.PhaseRouting, -1, false},
		{"lease over", lease(func(l *protocol.Lease) {
			l.Issued, l.Expires = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}), protocol.CodeLeaseExpired, protocol.PhaseRouting, -1, false},
		{"lease of other protocol", lease(func(l *protocol.Lease) { l.EngineBuild.Protocol = 9 }), protocol.CodeProtocolVersion, protocol.PhaseRouting, -1, false},
		{"lease ends during the answer", lease(func(l *protocol.Lease) { l.Expires = time.Now().Add(420 * time.Millisecond) }), protocol.CodeLeaseExpired, protocol.PhaseDecode, -1, false},

		{"hop refuses", with(2, func(s *sessiontest.Script) { s.OpenError = map[int]*protocol.Error{1: coded(protocol.CodeKVBudget)} }), protocol.CodeKVBudget, protocol.PhaseOpening, 1, false},
		{"hop unreachable", with(2, func(s *sessiontest.Script) { s.OpenError = map[int]*protocol.Error{0: coded(protocol.CodeUnavailable)} }), protocol.CodeUnavailable, protocol.PhaseOpening, 0, true},
		{"hop silent", with(2, func(s *sessiontest.Script) { s.OpenDelay = map[int]time.Duration{1: time.Hour} }), protocol.CodeTimeout, protocol.PhaseOpening, 1, true},
		{"other build", reply(1, func(r *protocol.OpenReply) { r.Report.Build.Llama = "other" }), protocol.CodeBuildMismatch, protocol.PhaseOpening, 1, false},
		{"other width", reply(1, func(r *protocol.OpenReply) { r.Report.Width = 16 }), protocol.CodeSeamMismatch, protocol.PhaseOpening, 1, false},
		{"other sidebands", reply(1, func(r *protocol.OpenReply) {
			r.Report.Seams = []protocol.SeamNeed{{First: 1, Last: 2, Sideband: protocol.Sideband{IDs: true}}}
		}), protocol.CodeSeamMismatch, protocol.PhaseOpening, 1, false},
		{"other model", reply(0, func(r *protocol.OpenReply) { r.Report.Model = "x" }), protocol.CodeLeaseInvalid, protocol.PhaseOpening, 0, false},
		{"other range", reply(1, func(r *protocol.OpenReply) { r.Report.Loaded.First++ }), protocol.CodeRangeInvalid, protocol.PhaseOpening, 1, false},
		{"no head", reply(0, func(r *protocol.OpenReply) { r.Report.Head = false }), protocol.CodeLeaseInvalid, protocol.PhaseOpening, 0, false},
		{"no tail", reply(1, func(r *protocol.OpenReply) { r.Report.Tail = false }), protocol.CodeLeaseInvalid, protocol.PhaseOpening, 1, false},
		{"no such dtype", reply(1, func(r *protocol.OpenReply) { r.Report.DTypes = []string{"f16"} }), protocol.CodeUnsupported, protocol.PhaseOpening, 1, false},
		{"uncut model", reply(1, func(r *protocol.OpenReply) { r.Report.WholeOnly = "because" }), protocol.CodeModelUncut, protocol.PhaseOpening, 1, false},
		{"too few cells", reply(1, func(r *protocol.OpenReply) { r.Cells = 1 }), protocol.CodeKVBudget, protocol.PhaseOpening, 1, false},
		{"chunk of zero rows", reply(0, func(r *protocol.OpenReply) { r.Report.ChunkRows = 0 }), protocol.CodeLeaseInvalid, protocol.PhaseOpening, 0, false},
		{"no token stream", with(2, func(s *sessiontest.Script) { s.TokensError = coded(protocol.CodeHopLost) }), protocol.CodeHopLost, protocol.PhaseOpening, 1, true},
		{"no row stream", with(2, func(s *sessiontest.Script) { s.StreamError = coded(protocol.CodeHopLost).AtHop(1) }), protocol.CodeHopLost, protocol.PhaseOpening, 1, true},

		{"head frozen in prefill", onFrame(2, at(0, P, 64, sessiontest.FaultFreeze)), protocol.CodeStageFrozen, protocol.PhasePrefill, 0, true},
		{"tail frozen in prefill", onFrame(2, at(1, P, 64, sessiontest.FaultFreeze)), protocol.CodeStageFrozen, protocol.PhasePrefill, 1, true},
		{"middle frozen in prefill", onFrame(4, at(2, P, 64, sessiontest.FaultFreeze)), protocol.CodeStageFrozen, protocol.PhasePrefill, 2, true},
		{"head frozen in decode", onFrame(2, at(0, D, 301, sessiontest.FaultFreeze)), protocol.CodeStageFrozen, protocol.PhaseDecode, 0, true},
		{"middle frozen in decode", onFrame(3, at(1, D, 301, sessiontest.FaultFreeze)), protocol.CodeStageFrozen, protocol.PhaseDecode, 1, true},
		{"the only hop frozen", onFrame(1, at(0, D, 301, sessiontest.FaultFreeze)), protocol.CodeStageFrozen, protocol.PhaseDecode, 0, true},
		{"stage error in prefill", onFrame(2, at(1, P, 0, sessiontest.FaultError)), protocol.CodeDecodeFailed, protocol.PhasePrefill, 1, false},
		{"stage error in decode", onFrame(2, at(0, D, 301, sessiontest.FaultError)), protocol.CodeDecodeFailed, protocol.PhaseDecode, 0, false},
		{"head lost", onFrame(2, at(0, D, 301, sessiontest.FaultLost)), protocol.CodeHopLost, protocol.PhaseDecode, 0, true},
		{"middle lost", onFrame(3, at(1, D, 301, sessiontest.FaultLost)), protocol.CodeHopLost, protocol.PhaseDecode, 1, false},
		{"tail lost", onFrame(2, at(1, P, 128, sessiontest.FaultLost)), protocol.CodeHopLost, protocol.PhasePrefill, 1, false},

		// Either end was believed when it said that the driver had left.
		{"the tail's connection cut", onFrame(2, at(1, D, 301, sessiontest.FaultCut)), protocol.CodeHopLost, protocol.PhaseDecode, 1, true},
		{"the head's connection cut", onFrame(2, at(0, D, 301, sessiontest.FaultCut)), protocol.CodeHopLost, protocol.PhaseDecode, 0, true},
		{"the tail's connection cut in prefill", onFrame(3, at(2, P, 64, sessiontest.FaultCut)), protocol.CodeHopLost, protocol.PhasePrefill, 2, true},

		{"token at a wrong position", token(func(f *protocol.Frame) { f.Pos++ }), protocol.CodeFrameOrder, protocol.PhaseDecode, 1, false},
		{"token of another epoch", token(func(f *protocol.Frame) { f.Epoch++ }), protocol.CodeFrameOrder, protocol.PhaseDecode, 1, false},
		{"several tokens", token(func(f *protocol.Frame) { f.Flags |= protocol.FlagMore }), protocol.CodeFrameOrder, protocol.PhaseDecode, 1, false},
		{"damaged token", token(func(f *protocol.Frame) { f.Payload = f.Payload[:3] }), protocol.CodeFrameInvalid, protocol.PhaseDecode, 1, false},
		{"rows from the tail", token(func(f *protocol.Frame) { *f = *protocol.IDFrame(D, f.Pos, []int32{1}) }), protocol.CodeFrameOrder, protocol.PhaseDecode, 1, false},
		{"ack of a wrong position", with(2, func(s *sessiontest.Script) {
			s.EditAck = func(hop int, f *protocol.Frame) {
				if hop == 0 && f.Pos == 301 {
					f.Pos = 5
				}
			}
		}), protocol.CodeFrameOrder, protocol.PhaseDecode, 0, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			run(t, tc.script, nil, func(w *world) {
				began := time.Now()
				g := w.start(ask(300, 20))
				_, eog, fin, err := answer(g)
				if err == nil || fin != protocol.FinishError || eog {
					t.Fatalf("finish %s, error %v", fin, err)
				}
				hop := -1
				if err.Hop != nil {
					hop = *err.Hop
				}
				if err.Code != tc.code || err.Phase != tc.phase || hop != tc.hop {
					t.Errorf("got %s in %s at %d (%v), want %s in %s at %d", err.Code, err.Phase, hop, err, tc.code, tc.phase, tc.hop)
				}
				if d := time.Since(began); d > 30*time.Second {
					t.Errorf("took %s", d)
				}
				tl := w.last(g)
				if tl.Phase != protocol.PhaseFailed || tl.Finish != protocol.FinishError || tl.Error == nil || tl.Error.Code != tc.code {
					t.Errorf("last snapshot %+v", tl)
				}
				w.n.Look(func() {
					if (len(w.n.Blames) > 0) != tc.blamed {
						t.Errorf("blames %+v", w.n.Blames)
					}
					for _, b := range w.n.Blames {
						if b.Node != w.n.Nodes[tc.hop] || b.Session != g.Session() {
							t.Errorf("blame %+v", b)
						}
					}
				})
			})
		})
	}
}

func TestCancelInEachPhase(t *testing.T) {
	slow := func(f func(*sessiontest.Script)) sessiontest.Script {
		s := sessiontest.Script{Hops: 2, StepTime: 50 * time.Millisecond, RowTime: time.Millisecond, Answer: []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}}
		f(&s)
		return s
	}
	for _, tc := range []struct {
		phase  protocol.Phase
		script sessiontest.Script
		after  time.Duration
	}{
		{protocol.PhaseRouting, slow(func(s *sessiontest.Script) { s.RouteDelay = time.Minute }), time.Second},
		{protocol.PhaseOpening, slow(func(s *sessiontest.Script) { s.OpenDelay = map[int]time.Duration{1: time.Minute} }), time.Second},
		{protocol.PhasePrefill, slow(func(s *sessiontest.Script) { s.RowTime = 100 * time.Millisecond }), time.Second},
		{protocol.PhaseDecode, slow(func(*sessiontest.Script) {}), time.Second},
		{protocol.PhaseDecode, slow(func(s *sessiontest.Script) { s.OnFrame = at(1, protocol.KindDecode, 0, sessiontest.FaultFreeze) }), 3 * time.Second},
		{protocol.PhaseDecode, slow(func(s *sessiontest.Script) { s.ReleaseDelay = time.Second }), time.Second},
	} {
		t.Run(string(tc.phase), func(t *testing.T) {
			run(t, tc.script, nil, func(w *world) {
				g := w.start(ask(300, 9))
				time.Sleep(tc.after)
				if p := w.last(g).Phase; p != tc.phase {
					t.Fatalf("phase %s, want %s", p, tc.phase)
				}
				began := time.Now()
				g.Cancel()
				g.Cancel()
				_, _, fin, err := answer(g)
				if fin != protocol.FinishCancelled || err == nil || err.Code != protocol.CodeCancelled || err.Phase != tc.phase {
					t.Errorf("%s, %v", fin, err)
				}
				if d := time.Since(began); d > 2*time.Second {
					t.Errorf("took %s", d)
				}
				if tl := w.last(g); tl.Phase != protocol.PhaseDone || tl.Finish != protocol.FinishCancelled {
					t.Errorf("last snapshot %+v", tl)
				}
				w.n.Look(func() {
					cancelled := false
					for _, h := range w.n.Frames {
						cancelled = cancelled || h.Kind == protocol.KindCancel
					}
					if want := tc.phase == protocol.PhasePrefill || tc.phase == protocol.PhaseDecode; cancelled != want {
						t.Errorf("cancel frame sent: %v", cancelled)
					}
				})
			})
		})
	}
}

func TestCloseEndsSessions(t *testing.T) {
	run(t, sessiontest.Script{StepTime: time.Second, Answer: []int32{1, 2, 3}}, func(o *session.Options) { o.MaxActive = 1 }, func(w *world) {
		a, b := w.start(ask(1, 9)), w.start(ask(1, 9))
		all := w.m.Watch(context.Background(), "") // nobody reads it
		synctest.Wait()
		began := time.Now()
		if err := w.m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > 4*time.Second {
			t.Errorf("close took %s", d)
		}
		for _, g := range []interface {
			Result() (protocol.FinishReason, *protocol.Error)
		}{a, b} {
			if fin, err := g.Result(); fin != protocol.FinishError || err == nil || err.Code != protocol.CodeShutdown {
				t.Errorf("%s, %v", fin, err)
			}
		}
		for range all {
		}
	})
}

func TestTrackerEndsASession(t *testing.T) {
	run(t, sessiontest.Script{StepTime: time.Second, Answer: []int32{1, 2, 3}}, nil, func(w *world) {
		g := w.start(ask(1, 9))
		synctest.Wait()
		if w.m.End(protocol.NewSessionID(), nil) {
			t.Error("ended an unknown session")
		}
		if !w.m.End(g.Session(), protocol.Errorf(protocol.CodeHopLost, "gone").AtHop(0)) {
			t.Error("not ended")
		}
		if _, _, fin, err := answer(g); fin != protocol.FinishError || err.Code != protocol.CodeHopLost || *err.Hop != 0 {
			t.Errorf("%s, %v", fin, err)
		}
	})
}

// A reader that takes its time is no reason to call the route frozen.
func TestSlowReader(t *testing.T) {
	answerIDs := make([]int32, 100)
	run(t, sessiontest.Script{Hops: 2, Answer: answerIDs}, nil, func(w *world) {
		g := w.start(ask(1, 200))
		n := 0
		for range g.Tokens() {
			n++
			time.Sleep(8 * time.Second)
		}
		if fin, err := g.Result(); n != 101 || fin != protocol.FinishStop || err != nil {
			t.Errorf("%d tokens, %s, %v", n, fin, err)
		}
	})
}

// Slow is not frozen: a chunk may take as long as the hop states.
func TestSlowPrefill(t *testing.T) {
	run(t, sessiontest.Script{Hops: 2, StepTime: 150 * time.Millisecond, RowTime: 140 * time.Millisecond, Answer: []int32{1}}, nil, func(w *world) {
		g := w.start(ask(200, 5))
		time.Sleep(20 * time.Second)
		if tl := w.last(g); tl.Phase != protocol.PhasePrefill || tl.PrefillDone == 0 || tl.PrefillDone >= 200 {
			t.Errorf("snapshot %+v", tl)
		}
		if ids, _, fin, err := answer(g); len(ids) != 1 || fin != protocol.FinishStop || err != nil {
			t.Errorf("%v %s %v", ids, fin, err)
		}
	})
}
