package session_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/gateway"
	"neuron/engine/prefix"
	"neuron/engine/protocol"
	"neuron/engine/seam/seamtest"
	"neuron/engine/session/sessiontest"
)

// repeat runs r over real seams and returns its telemetry; the answer has to be
// the fake's.
func (w *realWorld) repeat(t *testing.T, r gateway.GenerateRequest) protocol.Telemetry {
	t.Helper()
	g, err := w.m.Generate(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	ids, _, _, perr := answer(g)
	if perr != nil {
		t.Fatal(perr)
	}
	var want []int32
	for i := range r.MaxTokens {
		want = append(want, seamtest.TokenAt(uint32(len(r.Prompt)+i)))
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Error(diff)
	}
	tl, _ := w.m.Telemetry(g.Session())
	for i, h := range tl.Route {
		c := h.Counters
		if int(c.PrefillRows)+tl.PrefillCached != len(r.Prompt) || int(c.NextPos) != len(r.Prompt)+r.MaxTokens-1 {
			t.Errorf("hop %d ran %d rows of a prompt of %d behind %d kept ones, up to position %d", i, c.PrefillRows, len(r.Prompt), tl.PrefillCached, c.NextPos)
		}
	}
	if tl.PrefillDone != len(r.Prompt) {
		t.Errorf("%d of %d are done", tl.PrefillDone, len(r.Prompt))
	}
	return tl
}

// What all hops have kept of a prompt is skipped on all of them: the same
// prompt, one that goes on, and one that turns off, but for one token at least.
func TestPrefixIsSkippedOnAllHops(t *testing.T) {
	for _, hops := range []int{1, 3} {
		t.Run(string(rune('0'+hops)), func(t *testing.T) {
			t.Parallel()
			w := newRealWorld(t, hops, false)
			for _, s := range w.stages {
				s.Keep()
			}
			long := ask(700, 5)
			other := ask(700, 5)
			other.Prompt[300]++
			exact := ask(640, 5)
			for _, c := range []struct {
				what string
				r    gateway.GenerateRequest
				want int
			}{
				{"the first", long, 0},
				{"the same", long, 640},
				{"one that turns off", other, 256},
				{"one that goes on", ask(1300, 5), 640},
				{"whole blocks", exact, 576},
				{"less than a block", ask(60, 5), 0},
				{"another client", func() gateway.GenerateRequest { r := long; r.Client = "b"; return r }(), 0},
				{"the other client's next", func() gateway.GenerateRequest { r := long; r.Client = "b"; return r }(), 640},
				{"a private one", func() gateway.GenerateRequest { r := long; r.Policy = protocol.PolicyPrivate; return r }(), 0},
				{"the next private one", func() gateway.GenerateRequest { r := long; r.Policy = protocol.PolicyPrivate; return r }(), 640},
				{"one that says no", func() gateway.GenerateRequest { r := long; r.NoPrefix = true; return r }(), 0},
			} {
				if got := w.repeat(t, c.r).PrefillCached; got != c.want {
					t.Errorf("%s: %d tokens were kept, want %d", c.what, got, c.want)
				}
			}
		})
	}
}

// A hop that has kept nothing makes all hops begin at the start.
func TestPrefixOfTheHopWithTheLeast(t *testing.T) {
	t.Parallel()
	w := newRealWorld(t, 3, false)
	w.stages[0].Keep()
	w.stages[2].Keep()
	for range 2 {
		if got := w.repeat(t, ask(300, 3)).PrefillCached; got != 0 {
			t.Errorf("%d tokens were skipped", got)
		}
	}
	w.stages[1].Keep()
	w.repeat(t, ask(300, 3))
	if got := w.repeat(t, ask(300, 3)).PrefillCached; got != 256 {
		t.Errorf("%d tokens were skipped when all hops keep", got)
	}
}

// Whatever hops claim to have kept, a prefill begins at a border and leaves a
// token to run; the route is asked for with the names of the prompt's
// beginnings.
func TestPrefixClaims(t *testing.T) {
	for claim, want := range map[int]int{-5: 0, 63: 0, 100: 64, 128: 128, 1 << 40: 192, math.MaxInt: 192} {
		t.Run("", func(t *testing.T) {
			s := sessiontest.Script{Hops: 2, Rewinds: true, Answer: slices.Repeat([]int32{65}, 4), EditReply: func(hop int, r *protocol.OpenReply) {
				if r.Kept = math.MaxInt; hop == 1 {
					r.Kept = claim
				}
			}}
			run(t, s, nil, func(w *world) {
				r := ask(256, 4)
				g := w.start(r)
				if _, _, _, err := answer(g); err != nil {
					t.Fatal(err)
				}
				if got := w.last(g).PrefillCached; got != want {
					t.Errorf("a claim of %d gave %d, want %d", claim, got, want)
				}
				w.n.Look(func() {
					if diff := cmp.Diff(r.Prompt[want:], w.n.Prompt); diff != "" {
						t.Error(diff)
					}
					asked := w.n.Requests[0].Prefixes
					if len(asked) != 4 || asked[3].Tokens != 256 || len(w.n.Opened[0].Prefix) != 4*prefix.KeySize {
						t.Errorf("the route is asked for with %v", asked)
					}
				})
			})
		})
	}
}

// Real stages answer behind what they kept as they do without, in the sense of
// DESIGN.md, "Exactness".
func TestPrefixOfRealStages(t *testing.T) {
	const tokens = 60
	for _, hops := range []int{1, 2} {
		w := newStageWorld(t, hops)
		for name, prompt := range stagePrompts() {
			prompt = append(slices.Repeat(prompt, 4), prompt[:40]...)
			r := greedy(prompt, tokens)
			ref := w.must(r)
			r.NoPrefix = false
			first := w.must(r)
			again := w.must(r)
			// Behind other rows: another ending of the same beginning.
			turn := slices.Clone(prompt)
			turn[len(turn)-30]++
			r.Prompt = turn
			other := w.must(r)
			r.NoPrefix = true
			same(t, name, ref.tokens, first.tokens)
			same(t, name+" again", ref.tokens, again.tokens)
			same(t, name+" with another end", w.must(r).tokens, other.tokens)
			kept := (len(prompt) - 1) / prefix.Block * prefix.Block
			if first.t.PrefillCached != 0 || again.t.PrefillCached != kept || other.t.PrefillCached < kept-prefix.Block {
				t.Errorf("%s: %d, %d and %d tokens of %d were kept", name, first.t.PrefillCached, again.t.PrefillCached, other.t.PrefillCached, len(prompt))
			}
			if c := again.t.Route[0].Counters; int(c.PrefillRows) != len(prompt)-kept {
				t.Errorf("%s: %d rows of a prompt of %d ran behind %d kept ones", name, c.PrefillRows, len(prompt), kept)
			}
			t.Logf("%s: first token after %.0f ms, behind %d kept tokens after %.0f ms", name, first.t.FirstTokenMillis, kept, again.t.FirstTokenMillis)
		}
		w.empty()
	}
}
