package receipt

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/protocol"
)

func isUnsigned(err error) bool {
	return errors.Is(err, &protocol.Error{Code: protocol.CodeReceiptUnsigned})
}

// A hop works some time for a receiver that cannot be reached, and not for
// ever; one signature gives it new patience.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 2, nil)
		defer r.close()
		r.down = true
		hop := r.hops[0]
		r.chunks(maxOwed)
		time.Sleep(10 * time.Minute)
		if err := hop.Overdue(); err != nil {
			t.Errorf("with %d owed: %v", hop.Lag(), err)
		}
		r.chunks(1)
		if err := hop.Overdue(); !isUnsigned(err) {
			t.Errorf("with %d owed for 10 minutes: %v", hop.Lag(), err)
		}
		full, err := r.hops[1].Countersign(hop.Pending()[3])
		if err != nil {
			t.Fatal(err)
		}
		if err := hop.Complete(full); err != nil {
			t.Fatal(err)
		}
		r.chunks(1)
		if err := hop.Overdue(); err != nil {
			t.Errorf("just after a signature: %v", err)
		}
		time.Sleep(signPatience)
		if err := hop.Overdue(); !isUnsigned(err) {
			t.Errorf("%s after a signature, with %d owed: %v", signPatience, hop.Lag(), err)
		}
		r.mu.Lock()
		r.down = false
		r.mu.Unlock()
		time.Sleep(backoffReceiver)
		synctest.Wait()
		if err := hop.Overdue(); err != nil || hop.Lag() != 0 {
			t.Errorf("after all were signed: %d, %v", hop.Lag(), err)
		}
		r.end()
	})
}

// Time without work is not owed: a slow model's spans may lie far apart.
func TestOverdueSlowModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 2, nil)
		defer r.close()
		for range 3 * maxOwed {
			r.chunks(1)
			if err := r.hops[0].Overdue(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * signPatience)
		}
		r.end()
	})
}

// A receiver that answers each receipt with a refusal owes as much.
func TestOverdueRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 2, func(o *Options) { o.Receiver = refuser{} })
		defer r.close()
		r.chunks(maxOwed)
		synctest.Wait()
		if err := r.hops[0].Overdue(); err != nil || r.hops[0].Lag() != 0 {
			t.Errorf("after %d: %v", maxOwed, err)
		}
		r.chunks(1)
		synctest.Wait()
		if err := r.hops[0].Overdue(); !isUnsigned(err) {
			t.Errorf("after %d: %v", maxOwed+1, err)
		}
		if st := r.books[0].Stats(); st.Unsigned != maxOwed+1 {
			t.Errorf("%+v", st)
		}
	})
}

// refuser is a receiver that signs nothing.
type refuser struct{}

func (refuser) Mark(context.Context, *protocol.Lease, int) (protocol.ReceiptMark, error) {
	return protocol.ReceiptMark{}, protocol.Errorf(protocol.CodeNotFound, "no")
}

func (refuser) Countersign(context.Context, *protocol.Lease, int, []byte) ([]byte, error) {
	return nil, protocol.Errorf(protocol.CodeReceiptConflict, "no")
}

// chunks moves so many prefill chunks over the route.
func (r *route) chunks(n int) {
	for range n {
		r.step(protocol.KindPrefill, 2)
	}
}

// What a hop's stage or stream still says after the end breaks nothing: the
// receipts that were made can be signed.
func TestFramesAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 2, nil)
		defer r.close()
		r.answer()
		m, err := r.driver.Mark()
		if err != nil {
			t.Fatal(err)
		}
		tail := r.hops[1]
		tail.CloseTail(m)
		tail.Executed(0, 9999)
		tail.Acked(0, 9999)
		r.pull()
		r.hops[0].Close()
		r.driver.Close()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for i := range 2 {
			if st := r.books[i].Stats(); st.Finished != spansOfAnswer {
				t.Errorf("hop %d: %+v", i, st)
			}
		}
	})
}

// A session that was opened and never used asks nobody where it ended, and
// answers at once.
func TestNothingRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 2, func(o *Options) { o.Receiver = asked{t} })
		defer r.close()
		for i, h := range r.hops {
			h.Close()
			if m, err := h.Mark(); err != nil || m != (protocol.ReceiptMark{}) {
				t.Errorf("hop %d: %+v, %v", i, m, err)
			}
		}
		r.driver.Close()
		time.Sleep(2 * defaultLinger)
		synctest.Wait()
		if st := r.books[0].Stats(); st != (Stats{Bytes: st.Bytes}) {
			t.Errorf("%+v", st)
		}
	})
}

// asked is a receiver that nobody should ask.
type asked struct{ t *testing.T }

func (a asked) Mark(context.Context, *protocol.Lease, int) (protocol.ReceiptMark, error) {
	a.t.Error("asked for a mark")
	return protocol.ReceiptMark{}, nil
}

func (a asked) Countersign(context.Context, *protocol.Lease, int, []byte) ([]byte, error) {
	a.t.Error("asked for a signature")
	return nil, protocol.Errorf(protocol.CodeInternal, "nothing to sign")
}

// BenchmarkMiddleHop is what receipts add to a decode step of a hop in the
// middle, with rows of so many numbers in f32: both ends of both seams' sums,
// all on the goroutines that move the frames. One step in 32 makes a receipt.
func BenchmarkMiddleHop(b *testing.B) {
	for _, width := range []int{2048, 4096, 8192} {
		b.Run(fmt.Sprintf("width=%d", width), func(b *testing.B) {
			r := newRoute(b, 3, nil)
			defer r.close()
			r.mu.Lock()
			r.down = true // the receiver's work is not the hop's
			r.mu.Unlock()
			hop := r.hops[1]
			f := &protocol.Frame{Header: protocol.Header{Kind: protocol.KindDecode, Rows: 1, Parts: protocol.PartHidden, DType: protocol.DTypeF32, Width: uint32(width)}}
			f.Payload = make([]byte, 4*width)
			b.ReportAllocs()
			for b.Loop() {
				if f.Pos == protocol.MaxContext { // goes on in a session of its own
					hop = r.another(hop)
					f.Pos = 0
				}
				if err := hop.Overdue(); err != nil {
					b.Fatal(err)
				}
				hop.In(f)
				hop.Executed(0, f.Pos)
				hop.Out(f)
				hop.Acked(0, f.Pos)
				if f.Pos++; f.Pos%256 == 0 {
					hop.mu.Lock()
					hop.halves = nil // as if they were signed
					hop.mu.Unlock()
				}
			}
			if hop.broken {
				b.Error("the receipts broke")
			}
		})
	}
}

// another ends hop's session and opens the next one.
func (r *route) another(hop *Session) *Session {
	hop.Close()
	l := *r.lease
	l.Session = protocol.NewSessionID()
	s, err := r.books[1].OpenHop(&l, r.signed, hop.hop, hop.class)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}
