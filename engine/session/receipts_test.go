package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/session"
	"neuron/engine/session/sessiontest"
)

// book records what a driver does with its receipts.
type book struct {
	n *sessiontest.Network

	openErr error
	// pull and finish, when set, are what the calls do; n counts them.
	pull   func(ctx context.Context, n int) error
	finish func(n int) error

	mu     sync.Mutex // guards below
	events []string   // in, executed and out with their positions, finish, close
	pulls  int
	ends   int
}

func (b *book) Open(l *protocol.Lease, signed *protocol.SignedLease) (session.RouteReceipts, error) {
	if b.openErr != nil {
		return nil, b.openErr
	}
	if got, err := signed.Verify(b.n.TrackerKey(), time.Now()); err != nil || got.Session != l.Session {
		return nil, protocol.Errorf(protocol.CodeLeaseInvalid, "not the lease that was signed: %w", err)
	}
	return b, nil
}

// record is a copy of what was recorded.
func (b *book) record() (events []string, pulls, ends int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events), b.pulls, b.ends
}

// closed wants ends exchanges at the end, between least and most, and the close
// behind them.
func (b *book) closed(t *testing.T, least, most int) {
	t.Helper()
	events, _, ends := b.record()
	if ends < least || ends > most || len(events) == 0 || events[len(events)-1] != "close" {
		t.Errorf("%d exchanges at the end of %v, want %d to %d", ends, events, least, most)
	}
}

func (b *book) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, fmt.Sprintf(format, args...))
}

func (b *book) In(f *protocol.Frame)       { b.note("in %d", f.Pos) }
func (b *book) Truncate(f *protocol.Frame) { b.note("truncate %d", f.Pos) }
func (b *book) Executed(epoch, pos uint32) { b.note("executed %d", pos) }
func (b *book) Out(f *protocol.Frame)      { b.note("out %d", f.Pos) }
func (b *book) Close()                     { b.note("close") }
func (b *book) Pull(ctx context.Context) error {
	b.mu.Lock()
	b.pulls++
	n := b.pulls
	b.mu.Unlock()
	if b.pull != nil {
		return b.pull(ctx, n)
	}
	return nil
}

func (b *book) Finish(context.Context) error {
	b.mu.Lock()
	b.ends++
	n := b.ends
	b.mu.Unlock()
	released := 0
	b.n.Look(func() { released = b.n.Released[0] })
	b.note("finish, released %d", released)
	if b.finish != nil {
		return b.finish(n)
	}
	return nil
}

// run is run with a book.
func runBook(t *testing.T, s sessiontest.Script, b *book, f func(w *world)) {
	run(t, s, func(o *session.Options) {
		b.n = o.Hops.(*sessiontest.Network)
		o.Receipts = b
	}, f)
}

// Frames are noted in their order: sent before they go, executed and token as
// they come; the end comes when all hops are free.
func TestReceiptsFollowTheFrames(t *testing.T) {
	b := &book{}
	runBook(t, sessiontest.Script{Hops: 2, Answer: []int32{7, 8}}, b, func(w *world) {
		_, _, fin, err := answer(w.start(ask(3, 10)))
		if fin != protocol.FinishStop || err != nil {
			t.Fatalf("%s, %v", fin, err)
		}
		synctest.Wait()
		events, _, _ := b.record()
		want := []string{
			"in 0", "executed 0", "out 3", "in 3", "executed 3", "out 4", "in 4", "executed 4", "out 5",
			"finish, released 1", "close",
		}
		if !slices.Equal(events, want) {
			t.Errorf("%s, want %s", strings.Join(events, "; "), strings.Join(want, "; "))
		}
	})
}

// The tail's receipts are fetched about every 64 tokens, one fetch at a time,
// and a slow fetch holds no token up.
func TestReceiptsAreFetchedBesideTheAnswer(t *testing.T) {
	var running, most atomic.Int32
	b := &book{}
	b.pull = func(ctx context.Context, n int) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		if n > 2 {
			return protocol.Errorf(protocol.CodeUnavailable, "the tail is busy")
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		return nil
	}
	const step = 10 * time.Millisecond
	runBook(t, sessiontest.Script{StepTime: step, Answer: slices.Repeat([]int32{65}, 400)}, b, func(w *world) {
		began := time.Now()
		ids, _, fin, err := answer(w.start(ask(3, 400)))
		if len(ids) != 400 || fin != protocol.FinishLength || err != nil {
			t.Fatalf("%d tokens, %s, %v", len(ids), fin, err)
		}
		if d := time.Since(began); d > 400*step+time.Second/2 {
			t.Errorf("the answer took %s", d)
		}
		synctest.Wait()
		// After 64, then each second, then for each 64 of the rest.
		if _, pulls, _ := b.record(); pulls < 4 || pulls > 6 || most.Load() != 1 {
			t.Errorf("%d fetches, %d at a time", pulls, most.Load())
		}
	})
}

// A long prompt is signed for before its first token.
func TestReceiptsOfAPrompt(t *testing.T) {
	b := &book{}
	runBook(t, sessiontest.Script{RowTime: time.Millisecond, ChunkRows: 64, Answer: []int32{1}}, b, func(w *world) {
		answer(w.start(ask(640, 5)))
		synctest.Wait()
		if _, pulls, _ := b.record(); pulls < 8 {
			t.Errorf("%d fetches for 10 chunks", pulls)
		}
	})
}

// The last exchange is tried again for a while; the client has its answer and
// the next session its place meanwhile.
func TestReceiptsLastExchange(t *testing.T) {
	b := &book{finish: func(n int) error {
		if n < 4 {
			return protocol.Errorf(protocol.CodeUnavailable, "not now")
		}
		return nil
	}}
	runBook(t, sessiontest.Script{Answer: []int32{1}}, b, func(w *world) {
		began := time.Now()
		answer(w.start(ask(3, 5)))
		if d := time.Since(began); d > time.Second/2 {
			t.Errorf("the client waited %s", d)
		}
		time.Sleep(time.Millisecond)
		if running, _ := w.m.Active(); running != 0 {
			t.Error("the session keeps its place")
		}
		time.Sleep(10 * time.Second)
		b.closed(t, 4, 4)
	})
}

// A manager that closes does not wait for a tail that never answers.
func TestReceiptsLastExchangeAtTheEnd(t *testing.T) {
	b := &book{finish: func(int) error { return protocol.Errorf(protocol.CodeUnavailable, "not now") }}
	runBook(t, sessiontest.Script{Answer: []int32{1}}, b, func(w *world) {
		answer(w.start(ask(3, 5)))
		time.Sleep(time.Minute)
		b.closed(t, 5, 12)
		began := time.Now()
		answer(w.start(ask(3, 5)))
		if err := w.m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("closing took %s", d)
		}
	})
}

// What cannot get better is not repeated.
func TestReceiptsLastExchangeRefused(t *testing.T) {
	b := &book{finish: func(int) error { return protocol.Errorf(protocol.CodeReceiptConflict, "no") }}
	runBook(t, sessiontest.Script{Answer: []int32{1}}, b, func(w *world) {
		answer(w.start(ask(3, 5)))
		time.Sleep(time.Minute)
		b.closed(t, 1, 1)
	})
}

// A tail that is gone is not asked; one behind a hop that is gone is.
func TestReceiptsOfALostRoute(t *testing.T) {
	for lost := range 3 {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			b := &book{}
			s := sessiontest.Script{Hops: 3, Answer: slices.Repeat([]int32{65}, 50), OnFrame: func(hop int, f *protocol.Frame) sessiontest.Fault {
				if hop == lost && f.Kind == protocol.KindDecode && f.Pos > 10 {
					return sessiontest.FaultLost
				}
				return sessiontest.FaultNone
			}}
			runBook(t, s, b, func(w *world) {
				if _, _, fin, _ := answer(w.start(ask(3, 60))); fin != protocol.FinishError {
					t.Fatal(fin)
				}
				time.Sleep(20 * time.Second)
				want := 1
				if lost == 2 {
					want = 0
				}
				b.closed(t, want, want)
			})
		})
	}
}

// Nobody is paid for a private route.
func TestReceiptsOfAPrivateRoute(t *testing.T) {
	b := &book{}
	runBook(t, sessiontest.Script{Answer: []int32{1}, EditLease: func(l *protocol.Lease) { l.Policy = protocol.PolicyPrivate }}, b, func(w *world) {
		if _, _, fin, err := answer(w.start(ask(3, 5))); fin != protocol.FinishStop || err != nil {
			t.Fatalf("%s, %v", fin, err)
		}
		synctest.Wait()
		if events, _, _ := b.record(); len(events) != 0 {
			t.Errorf("events %v", events)
		}
	})
}

// Without a book there is no public route.
func TestReceiptsWithoutABook(t *testing.T) {
	b := &book{openErr: protocol.Errorf(protocol.CodeShutdown, "the book is closed")}
	runBook(t, sessiontest.Script{Answer: []int32{1}}, b, func(w *world) {
		if _, _, _, err := answer(w.start(ask(3, 5))); err == nil || err.Code != protocol.CodeShutdown {
			t.Errorf("%v", err)
		}
		w.n.Look(func() {
			if len(w.n.Opened) != 0 {
				t.Error("hops were opened without a book")
			}
		})
	})
}
