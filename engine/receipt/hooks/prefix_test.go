package hooks_test

import (
	"fmt"
	"testing"

	"neuron/engine/protocol"
)

// A session that begins behind kept state has receipts for what ran of it, from
// where it began, on all hops alike.
func TestReceiptsBehindKeptState(t *testing.T) {
	for _, hops := range []int{1, 3} {
		t.Run(fmt.Sprintf("hops=%d", hops), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, hops)
			for _, n := range w.nodes {
				n.stage.Keep()
			}
			const prompt, tokens, kept = 700, 50, 640
			const first, second = prompt + tokens - 1, prompt - kept + tokens - 1
			for range 2 {
				if fin := w.generate(prompt, tokens, -1); fin != protocol.FinishLength {
					t.Fatal(fin)
				}
			}
			eventually(t, "all receipts", func() bool {
				got := w.taken()
				for i := range hops {
					if rows(got[i]) < first+second {
						return false
					}
				}
				return true
			})
			for i, all := range w.taken() {
				bySession := map[protocol.SessionID][]*protocol.Receipt{}
				for _, x := range all {
					bySession[x.Session] = append(bySession[x.Session], x)
				}
				var begins []uint32
				for _, list := range bySession {
					next := list[0].Span.First
					begins = append(begins, next)
					for k, x := range list {
						if int(x.Span.Seq) != k || x.Span.First != next {
							t.Errorf("hop %d: span %d at [%d,%d), the one before ends at %d", i, x.Span.Seq, x.Span.First, x.Span.Last, next)
						}
						next = x.Span.Last
					}
					if next != prompt+tokens-1 {
						t.Errorf("hop %d: receipts up to position %d", i, next)
					}
				}
				if len(begins) != 2 || begins[0]+begins[1] != kept || rows(all) != first+second {
					t.Errorf("hop %d: sessions begin at %v, receipts for %d rows, want %d", i, begins, rows(all), first+second)
				}
				if st := w.nodes[i].book.Stats(); st.Unsigned != 0 || st.Denied != 0 || st.Waiting != 0 {
					t.Errorf("hop %d: %+v", i, st)
				}
			}
		})
	}
}
