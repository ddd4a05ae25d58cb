package session_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
	"neuron/engine/session"
	"neuron/engine/session/sessiontest"
)

// refrain is an answer of so many verses: each is the same block of tokens,
// and ends with a token of its own, which no guess can know.
func refrain(verses int) []int32 {
	var out []int32
	for v := range verses {
		for i := range 30 {
			out = append(out, int32(40+i))
		}
		out = append(out, int32(100+v))
	}
	return out
}

// timed runs one answer and says how long it took on the scripted clock.
func timed(w *world, r gateway.GenerateRequest) (ids []int32, took time.Duration, t protocol.Telemetry) {
	w.t.Helper()
	g := w.start(r)
	began := time.Now()
	ids, _, _, err := answer(g)
	if err != nil {
		w.t.Fatal(err)
	}
	return ids, time.Since(began), w.last(g)
}

// A text with a refrain is the same with guesses and without, and takes less
// than half of the time; what was guessed wrong is taken back on every hop.
func TestGuesses(t *testing.T) {
	for _, hops := range []int{1, 2, 3} {
		t.Run(string(rune('0'+hops))+" hops", func(t *testing.T) {
			b := &book{}
			want := refrain(8)
			runBook(t, sessiontest.Script{Hops: hops, StepTime: 50 * time.Millisecond, Rewinds: true, Answer: want}, b, func(w *world) {
				ids, took, tl := timed(w, ask(20, 1000))
				if diff := cmp.Diff(want, ids); diff != "" {
					t.Fatal(diff)
				}
				if plain := time.Duration(len(want)*hops) * 50 * time.Millisecond; took > plain/2 {
					t.Errorf("took %s, %s without guesses", took, plain)
				}
				if tl.Accepted < len(want)/2 || tl.Drafted <= tl.Accepted {
					t.Errorf("%d of %d guesses were right", tl.Accepted, tl.Drafted)
				}
				w.n.Look(func() {
					truncates := 0
					for _, f := range w.n.Frames {
						if f.Kind == protocol.KindTruncate {
							truncates++
						}
						if f.Kind == protocol.KindVerify && f.Rows > 8 {
							t.Errorf("a verify frame of %d rows", f.Rows)
						}
					}
					if truncates == 0 {
						t.Error("nothing was taken back")
					}
					for i, g := range w.n.Guessed {
						if len(g) == 0 {
							t.Errorf("verify frame %d holds no guess", i)
						}
					}
					// The receipts saw each truncate before the rows that follow it.
					events, _, _ := b.record()
					noted := 0
					for i, e := range events {
						if at, is := strings.CutPrefix(e, "truncate "); is {
							noted++
							if events[i+1] != "in "+at {
								t.Errorf("%q follows %q", events[i+1], e)
							}
						}
					}
					if noted != truncates {
						t.Errorf("receipts noted %d truncates of %d", noted, truncates)
					}
				})
			})
		})
	}
}

// Nothing is guessed when the engine, the request or a hop says no.
func TestNoGuesses(t *testing.T) {
	for name, c := range map[string]struct {
		engine, request bool
		hop             int
	}{"engine": {engine: true, hop: -1}, "request": {request: true, hop: -1}, "a hop": {hop: 1}} {
		t.Run(name, func(t *testing.T) {
			s := sessiontest.Script{Hops: 2, Rewinds: true, Answer: refrain(4), EditReply: func(hop int, r *protocol.OpenReply) {
				r.Report.Rewinds = hop != c.hop
			}}
			run(t, s, func(o *session.Options) { o.NoDraft = c.engine }, func(w *world) {
				r := ask(20, 1000)
				r.NoDraft = c.request
				ids, _, tl := timed(w, r)
				if !slices.Equal(ids, s.Answer) || tl.Drafted != 0 || tl.Accepted != 0 {
					t.Errorf("%d tokens, %d guessed", len(ids), tl.Drafted)
				}
				w.n.Look(func() {
					if len(w.n.Guessed) != 0 {
						t.Errorf("guessed %v", w.n.Guessed)
					}
				})
			})
		})
	}
}

// A text that never repeats itself costs nothing: no guess is made.
func TestNovelTextIsNotGuessed(t *testing.T) {
	var novel []int32
	for i := range int32(300) {
		novel = append(novel, 1000+i)
	}
	run(t, sessiontest.Script{Rewinds: true, StepTime: time.Millisecond, Answer: novel}, nil, func(w *world) {
		ids, took, tl := timed(w, ask(50, 1000))
		if !slices.Equal(ids, novel) || tl.Drafted != 0 || took > 305*time.Millisecond {
			t.Errorf("%d tokens in %s, %d guessed", len(ids), took, tl.Drafted)
		}
	})
}

// No row lies beyond what the lease reserves, however much is guessed.
func TestGuessesStayWithinTheAnswer(t *testing.T) {
	for _, most := range []int{40, 41, 42, 43, 44, 45, 46, 47, 48} {
		t.Run("", func(t *testing.T) {
			run(t, sessiontest.Script{Rewinds: true, StepTime: 20 * time.Millisecond, Answer: slices.Repeat([]int32{7, 8, 9}, 50)}, nil, func(w *world) {
				ids, _, tl := timed(w, ask(20, most))
				if len(ids) != most || tl.Tokens != most || tl.Accepted == 0 {
					t.Errorf("%d tokens, %d counted, %d guessed right", len(ids), tl.Tokens, tl.Accepted)
				}
				w.n.Look(func() {
					for _, f := range w.n.Frames {
						// The last token of a full answer is not executed.
						if f.Kind.Rows() && int(f.Pos+f.Rows) > 20+most-1 {
							t.Errorf("rows up to %d of %d", f.Pos+f.Rows, 20+most-1)
						}
					}
				})
			})
		})
	}
}

// A tail that answers a verify frame with other tokens than the protocol says
// ends the session with a code that names it.
func TestTailThatLiesAboutGuesses(t *testing.T) {
	token := func(f *protocol.Frame, pos uint32, id int32, flags protocol.Flags) *protocol.Frame {
		out, err := protocol.TokenFrame(0, f.Epoch, pos, protocol.Token{ID: id, Piece: []byte("x")})
		if err != nil {
			panic(err)
		}
		out.Flags = flags
		return out
	}
	last := func(l []*protocol.Frame) *protocol.Frame { return l[len(l)-1] }
	for name, lie := range map[string]func(rows *protocol.Frame, l []*protocol.Frame) []*protocol.Frame{
		"one more than there are rows": func(rows *protocol.Frame, l []*protocol.Frame) []*protocol.Frame {
			last(l).Flags |= protocol.FlagMore
			return append(l, token(rows, last(l).Pos+1, 5, 0))
		},
		"one behind the end": func(rows *protocol.Frame, l []*protocol.Frame) []*protocol.Frame {
			return append(l, token(rows, last(l).Pos+1, 5, 0))
		},
		"goes on after a wrong guess": func(rows *protocol.Frame, _ []*protocol.Frame) []*protocol.Frame {
			return []*protocol.Frame{token(rows, rows.Pos+1, 99_999, protocol.FlagMore), token(rows, rows.Pos+2, 5, 0)}
		},
		"stops at a right guess": func(rows *protocol.Frame, l []*protocol.Frame) []*protocol.Frame {
			return []*protocol.Frame{token(rows, rows.Pos+1, rows.IDs()[1], 0)}
		},
		"another position": func(rows *protocol.Frame, l []*protocol.Frame) []*protocol.Frame {
			l[0].Pos++
			return l
		},
		"another epoch": func(rows *protocol.Frame, l []*protocol.Frame) []*protocol.Frame {
			l[0].Epoch++
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sessiontest.Script{Hops: 2, StepTime: 20 * time.Millisecond, Rewinds: true, Answer: slices.Repeat([]int32{7, 8, 9}, 50)}
			s.EditTokens = func(rows *protocol.Frame, l []*protocol.Frame) []*protocol.Frame {
				if rows.Kind != protocol.KindVerify {
					return l
				}
				return lie(rows, l)
			}
			run(t, s, nil, func(w *world) {
				_, _, fin, err := answer(w.start(ask(20, 100)))
				if fin != protocol.FinishError || err == nil || err.Code != protocol.CodeFrameOrder || err.Hop == nil || *err.Hop != 1 {
					t.Errorf("%s, %+v", fin, err)
				}
			})
		})
	}
}

// A client that leaves in the middle of a verify pass frees all hops, and the
// cancel is for the epoch that runs.
func TestCancelInAVerifyPass(t *testing.T) {
	s := sessiontest.Script{Hops: 3, StepTime: 20 * time.Millisecond, Rewinds: true, Answer: refrain(20)}
	verified := 0
	s.OnFrame = func(hop int, f *protocol.Frame) sessiontest.Fault {
		if f.Kind == protocol.KindVerify && f.Epoch > 0 && hop == 1 {
			if verified++; verified == 2 {
				return sessiontest.FaultFreeze
			}
		}
		return sessiontest.FaultNone
	}
	run(t, s, nil, func(w *world) {
		g := w.start(ask(20, 1000))
		var began time.Time
		time.AfterFunc(3*time.Second, func() { // by then the route stands in that pass
			began = time.Now()
			g.Cancel()
		})
		_, _, fin, perr := answer(g)
		if fin != protocol.FinishCancelled || perr == nil || time.Since(began) > time.Second {
			t.Errorf("%s, %v after %s", fin, perr, time.Since(began))
		}
		w.n.Look(func() {
			var cancel, rows protocol.Header
			for _, f := range w.n.Frames {
				if f.Kind == protocol.KindCancel {
					cancel = f
				} else if f.Kind.Rows() {
					rows = f
				}
			}
			if rows.Kind != protocol.KindVerify || cancel.Epoch != rows.Epoch || rows.Epoch == 0 {
				t.Errorf("cancel of epoch %d, the newest rows are %s of %d", cancel.Epoch, rows.Kind, rows.Epoch)
			}
		})
	})
}
