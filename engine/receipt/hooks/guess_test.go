package hooks_test

import (
	"context"
	"fmt"
	"testing"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
	"neuron/engine/session/sessiontest"
)

// An answer with guesses, right ones and wrong ones: what ran and what stands is
// in receipts of all hops, signed by both ends, and each hop's input is the
// output of the one before.
func TestReceiptsOfGuesses(t *testing.T) {
	for _, hops := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("hops=%d", hops), func(t *testing.T) {
			t.Parallel()
			const prompt, tokens = 100, 400
			r := gateway.GenerateRequest{Request: "r", Model: sessiontest.ModelName, MaxTokens: tokens, Policy: protocol.PolicyPublic}
			for i := range prompt {
				r.Prompt = append(r.Prompt, int32(i)+2000)
			}
			// How much is guessed follows what steps take on this machine just now:
			// sometimes nothing wrong is among it, and there is nothing to see.
			var w *world
			var g gateway.Generation
			var tl protocol.Telemetry
			for try := 0; ; try++ {
				w = newWorld(t, hops)
				w.nodes[hops-1].stage.Repeat(12)
				var err error
				if g, err = w.m.Generate(context.Background(), r); err != nil {
					t.Fatal(err)
				}
				n := 0
				for range g.Tokens() {
					n++
				}
				if fin, perr := g.Result(); n != tokens || fin != protocol.FinishLength || perr != nil {
					t.Fatalf("%d tokens, %s, %v", n, fin, perr)
				}
				tl, _ = w.m.Telemetry(g.Session())
				if tl.Accepted > 0 && tl.Drafted > tl.Accepted {
					break
				}
				if try == 9 {
					t.Fatalf("%d of %d guesses were right: nothing to see", tl.Accepted, tl.Drafted)
				}
			}
			ran := int(tl.Route[0].Counters.PrefillRows + tl.Route[0].Counters.DecodeRows)
			stand := int(tl.Route[0].Counters.NextPos)
			if dropped := int(tl.Route[0].Counters.DroppedRows); dropped == 0 || dropped != ran-stand {
				t.Errorf("%d rows ran, %d stand, %d were taken back", ran, stand, dropped)
			}
			eventually(t, "all receipts", func() bool {
				got := w.taken()
				for i := range hops {
					if rows(got[i]) < ran {
						return false
					}
				}
				return true
			})
			got := w.taken()
			for i := range hops {
				kept := 0
				for k, x := range got[i] {
					kept += int(x.Span.Last - x.Span.First)
					if int(x.Span.Seq) != k || x.Span.Final != (k == len(got[i])-1) {
						t.Errorf("hop %d: %+v", i, x)
					}
					if i > 0 && (len(got[i]) != len(got[i-1]) || x.Span.Input != got[i-1][k].Span.Output || !x.Span.SameShape(&got[i-1][k].Span)) {
						t.Errorf("span %d of hop %d does not continue hop %d", k, i, i-1)
					}
				}
				if rows(got[i]) != ran || kept != stand {
					t.Errorf("hop %d: receipts for %d rows, %d kept; want %d and %d", i, rows(got[i]), kept, ran, stand)
				}
				if st := w.nodes[i].book.Stats(); st.Unsigned != 0 || st.Denied != 0 || st.Waiting != 0 {
					t.Errorf("hop %d: %+v", i, st)
				}
				if n := w.nodes[i].stage.Sessions(); n != 0 {
					t.Errorf("hop %d still holds %d sessions", i, n)
				}
			}
			if st := w.driver.book.Stats(); st.Given != int64(len(got[hops-1])) || st.Denied != 0 {
				t.Errorf("driver: %+v", st)
			}
		})
	}
}
