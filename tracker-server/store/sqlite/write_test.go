package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite/direct"
)

// held is a store whose pen the test holds, so that what is written meanwhile
// waits.
type held struct {
	*Store
	t     *testing.T
	tasks sync.WaitGroup
}

func hold(t *testing.T) *held {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.db")
	h := &held{Store: open(t, path), t: t}
	t.Cleanup(func() { h.Close() })
	h.pen.Lock()
	return h
}

// wait begins a write and returns when it waits.
func (h *held) wait(write func()) {
	h.t.Helper()
	count := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.waiting.first.list) + len(h.waiting.later.list)
	}
	before := count()
	h.tasks.Go(write)
	for count() == before {
		runtime.Gosched()
	}
}

// release lets all write and waits for them.
func (h *held) release() {
	h.pen.Unlock()
	h.tasks.Wait()
}

// TestWhoCanWaitWaits: work that can wait is written behind all other, in its
// own order, also when it came first.
func TestWhoCanWaitWaits(t *testing.T) {
	t.Parallel()
	h := hold(t)
	var order []string
	note := func(what string) operation {
		return func(context.Context, *txn) error {
			order = append(order, what) // under the pen
			return nil
		}
	}
	for i := range 3 {
		h.wait(func() {
			if err := h.inTx(store.Later(t.Context()), "test", note(fmt.Sprint("later ", i, "a")), note(fmt.Sprint("later ", i, "b"))); err != nil {
				t.Error(err)
			}
		})
		h.wait(func() {
			if err := h.inTx(t.Context(), "test", note(fmt.Sprint("first ", i))); err != nil {
				t.Error(err)
			}
		})
	}
	h.release()
	want := []string{"first 0", "first 1", "first 2", "later 0a", "later 0b", "later 1a", "later 1b", "later 2a", "later 2b"}
	if !slices.Equal(order, want) {
		t.Errorf("%q", order)
	}
}

// TestNothingBegunAfterItsEnd: what waits leaves with its context, and is not
// done.
func TestNothingBegunAfterItsEnd(t *testing.T) {
	t.Parallel()
	h := hold(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.wait(func() {
		err := h.inTx(ctx, "test", func(context.Context, *txn) error { t.Error("it ran"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	cancel()
	h.tasks.Wait()
	h.release()
}

// TestWhoCanWaitIsNotForgotten: while there is always another one that cannot
// wait, each transaction takes one that has waited for too long.
func TestWhoCanWaitIsNotForgotten(t *testing.T) {
	t.Parallel()
	h := hold(t)
	const rounds = 10 * maxWrites
	var ran int // of those that cannot wait; on the writer's goroutine
	var at []int
	put := func(later bool, since time.Time, f func()) {
		w := &write{later: later, since: since, done: make(chan struct{}), f: func(context.Context, *txn) error { f(); return nil }}
		if err := h.enqueue([]*write{w}); err != nil {
			t.Error(err)
		}
		if later {
			h.tasks.Go(func() { <-w.done })
		}
	}
	var again func()
	again = func() {
		if ran++; ran < rounds {
			put(false, time.Now(), again)
		}
	}
	for range 3 {
		put(true, time.Now().Add(-2*laterWaits), func() { at = append(at, ran) })
	}
	put(true, time.Now().Add(time.Hour), func() { at = append(at, ran) })
	put(false, time.Now(), again)
	h.release()
	if len(at) != 4 || at[0] > maxWrites || at[1] > 2*maxWrites || at[2] > 3*maxWrites || at[3] != rounds {
		t.Errorf("written after %d others, want one in each %d, and the last one at the end", at, maxWrites)
	}
}

// TestClosedWhileSomeWait: who waits when the store is closed is written, and
// who comes later is refused.
func TestClosedWhileSomeWait(t *testing.T) {
	t.Parallel()
	h := hold(t)
	for i := range 6 {
		ctx := t.Context()
		if i%2 == 1 {
			ctx = store.Later(ctx)
		}
		h.wait(func() {
			if err := h.AddSession(ctx, store.Session{ID: protocol.SessionID(fmt.Sprint(i)), Lease: []byte("{}")}); err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		h.tasks.Go(func() {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for refused := false; !refused; runtime.Gosched() { // while those others still wait
		h.mu.Lock()
		refused = h.closing
		h.mu.Unlock()
	}
	if err := h.inTx(t.Context(), "test", func(context.Context, *txn) error { t.Error("it ran"); return nil }); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	h.release()
	again := open(t, h.path)
	defer again.Close()
	if list, err := again.Sessions(t.Context(), 10); err != nil || len(list) != 6 {
		t.Errorf("%d sessions, %v", len(list), err)
	}
}

// pagesOf is how many pages the WAL has.
func pagesOf(t *testing.T, s *Store) (pages int) {
	t.Helper()
	if err := s.view(t.Context(), func(c *direct.Conn) error {
		var busy, copied int
		return c.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(NOOP)").Scan(&busy, &pages, &copied)
	}); err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestSyncFails: what is not on the disk is not answered as if it were, and
// before anything else is written it goes there in another way.
func TestSyncFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.db")
	s := open(t, path)
	defer s.Close()
	add := func(id string) error {
		return s.AddSession(t.Context(), store.Session{ID: protocol.SessionID(id), Lease: []byte("{}")})
	}
	if err := add("a"); err != nil {
		t.Fatal(err)
	}
	before := pagesOf(t, s)
	s.wal.Close() // the goroutine of syncs looks at it after the next commit
	if err := add("b"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a sync that failed: %v", err)
	}
	if !s.lost.Load() {
		t.Error("the loss is not noted")
	}
	if err := add("c"); err != nil || s.lost.Load() {
		t.Errorf("after that: %v, %t", err, s.lost.Load())
	}
	if after := pagesOf(t, s); after >= before { // one whose pages are all copied is begun anew
		t.Errorf("the WAL goes on: %d pages, before %d", after, before)
	}
	if list, err := s.Sessions(t.Context(), 10); err != nil || len(list) != 3 {
		t.Errorf("%d sessions, %v", len(list), err)
	}
}

// TestAnswersWaitForTheDisk: a write is answered after the sync that covers it,
// not when it is committed.
func TestAnswersWaitForTheDisk(t *testing.T) {
	t.Parallel()
	var opened atomic.Bool
	asked, let := make(chan struct{}, 10), make(chan struct{})
	s, err := OpenWith(t.Context(), filepath.Join(t.TempDir(), "t.db"), Options{Synced: func(time.Duration) {
		if opened.Load() { // the migrations are through
			asked <- struct{}{}
			<-let
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	opened.Store(true)
	answered := make(chan error, 1)
	go func() { answered <- s.AddSession(t.Context(), store.Session{ID: "a", Lease: []byte("{}")}) }()
	<-asked // it is committed: others see it
	if list, err := s.Sessions(t.Context(), 10); err != nil || len(list) != 1 {
		t.Errorf("%d sessions, %v", len(list), err)
	}
	select {
	case err := <-answered:
		t.Errorf("answered before the disk: %v", err)
	default:
	}
	close(let)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestPace: writes that come in the time between two groups share a
// transaction; the first one after a pause waits for nobody, and a crowd
// neither.
func TestPace(t *testing.T) {
	t.Parallel()
	const pace = 400 * time.Millisecond
	for _, later := range []bool{false, true} {
		t.Run(fmt.Sprint("later ", later), func(t *testing.T) {
			t.Parallel()
			s, err := OpenWith(t.Context(), filepath.Join(t.TempDir(), "t.db"), Options{Pace: pace, PaceLater: pace})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			time.Sleep(pace) // since the migrations
			ctx := t.Context()
			if later {
				ctx = store.Later(ctx)
			}
			write := func() {
				if err := s.inTx(ctx, "test", func(ctx context.Context, tx *txn) error {
					_, err := tx.ExecContext(ctx, `UPDATE catalog_version SET version = version + 1`)
					return err
				}); err != nil {
					t.Error(err)
				}
			}
			many := func(n int) (groups uint64, took time.Duration) {
				before, begun := s.commits.Load(), time.Now()
				var wg sync.WaitGroup
				for range n {
					wg.Go(write)
				}
				wg.Wait()
				return s.commits.Load() - before, time.Since(begun)
			}
			begun := time.Now()
			write()
			if took := time.Since(begun); took >= pace {
				t.Errorf("the first one took %s", took)
			}
			if groups, _ := many(crowded / 2); groups != 1 || time.Since(begun) < pace {
				t.Errorf("some in %d groups, after %s", groups, time.Since(begun))
			}
			if _, took := many(crowded); took >= pace {
				t.Errorf("many took %s", took)
			}
		})
	}
}

// TestLedgerBesideAFault: entries of several callers go into one transaction,
// and when one of them fails, or appends what is there already, the others'
// entries stand as they would alone.
func TestLedgerBesideAFault(t *testing.T) {
	t.Parallel()
	h := hold(t)
	fault := errors.New("no")
	entry := func(tx store.LedgerTx, id string, amount store.Credit) error {
		return tx.Append(&store.Transaction{ID: id, Kind: store.TxGrant, Lines: []store.Line{
			{Account: store.House, Book: store.Mint, Amount: -amount, Hop: -1}, {Account: "c", Book: store.Available, Amount: amount, Hop: -1}}})
	}
	write := func(want error, f func(tx store.LedgerTx) error) {
		h.wait(func() {
			if err := h.UpdateLedger(t.Context(), f); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
	check := func(last int64, total store.Credit) {
		t.Helper()
		if err := h.ViewLedger(t.Context(), func(v store.LedgerView) error {
			seq, _, head, err := v.Head()
			if err != nil {
				return err
			}
			var chain [32]byte
			n := int64(0)
			err = v.Each(func(x *store.Transaction) error {
				if n++; x.Seq != n {
					t.Errorf("entry %d has number %d", n, x.Seq)
				}
				chain = x.Chain(chain)
				return nil
			})
			if seq != last || n != last || chain != head {
				t.Errorf("%d entries, the head is number %d, want %d; same hash: %t", n, seq, last, chain == head)
			}
			have, err2 := v.Balances("c")
			if have[store.Available] != total {
				t.Errorf("a balance of %d, want %d", have[store.Available], total)
			}
			return errors.Join(err, err2)
		}); err != nil {
			t.Error(err)
		}
	}
	write(nil, func(tx store.LedgerTx) error { return tx.AddAccount(store.Account{ID: "c", Kind: store.KindClient}) })
	for i := range 30 {
		write(nil, func(tx store.LedgerTx) error { return entry(tx, fmt.Sprint("a", i), 1) })
	}
	h.release()
	check(30, 30)

	h.pen.Lock()
	conflict := &protocol.Error{Code: protocol.CodeConflict}
	for i := range 10 {
		write(nil, func(tx store.LedgerTx) error { return entry(tx, fmt.Sprint("b", i), 1) })
		write(conflict, func(tx store.LedgerTx) error {
			return errors.Join(entry(tx, fmt.Sprint("x", i), 100), entry(tx, fmt.Sprint("a", i), 100))
		})
		write(fault, func(tx store.LedgerTx) error { return errors.Join(entry(tx, fmt.Sprint("y", i), 100), fault) })
	}
	h.release()
	check(40, 40)

	// The same for one that is alone in its transaction.
	if err := h.UpdateLedger(t.Context(), func(tx store.LedgerTx) error { return entry(tx, "a0", 100) }); !errors.Is(err, conflict) {
		t.Errorf("alone: %v", err)
	}
	check(40, 40)
}

// TestSpansInOneTransaction: spans that were only appended overlap like those
// that are written.
func TestSpansInOneTransaction(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "t.db"))
	defer s.Close()
	span := func(first, last int64) store.Span {
		return store.Span{Session: 1, Hop: 2, First: first, Last: last, Seq: first}
	}
	overlaps := func(tx store.LedgerTx, first, last, want int64) {
		t.Helper()
		have, found, err := tx.Overlap(span(first, last))
		if err != nil || found != (want >= 0) || found && have.First != want {
			t.Errorf("[%d,%d): %+v, %t, %v; want %d", first, last, have, found, err, want)
		}
	}
	for range 2 { // the second time they are on the disk
		if err := s.UpdateLedger(t.Context(), func(tx store.LedgerTx) error {
			overlaps(tx, 100, 110, -1)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.UpdateLedger(t.Context(), func(tx store.LedgerTx) error {
		for _, x := range []store.Span{span(32, 64), span(0, 32), span(96, 128)} { // in no order
			overlaps(tx, x.First, x.Last, -1)
			if err := tx.AddSpan(x); err != nil {
				return err
			}
			overlaps(tx, x.First, x.Last, x.First)
		}
		overlaps(tx, 64, 96, -1)
		overlaps(tx, 63, 65, 32)
		overlaps(tx, 60, 100, 96)
		overlaps(tx, 128, 256, -1)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.ViewLedger(t.Context(), func(v store.LedgerView) error {
		if have, found, err := v.Overlap(span(10, 20)); err != nil || !found || have.First != 0 {
			t.Errorf("%+v, %t, %v", have, found, err)
		}
		if have, found, err := v.Overlap(span(64, 96)); err != nil || found {
			t.Errorf("%+v, %t, %v", have, found, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestCheckpointBesideWrites: a long WAL is copied while others write, and then
// begun anew: it does not grow with what is written.
func TestCheckpointBesideWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.db")
	s := open(t, path)
	defer s.Close()
	big := bytes.Repeat([]byte{'x'}, 40<<10)
	var n atomic.Int64
	write := func() {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					id := protocol.SessionID(fmt.Sprint(n.Add(1)))
					if err := s.AddSession(context.Background(), store.Session{ID: id, Lease: big}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	write()
	once := size()
	if once < longWAL*4096 {
		t.Fatalf("the WAL has %d bytes only", once)
	}
	for range 3 {
		err := s.checkpoint(t.Context())
		for errors.Is(err, errBusy) { // the store does the same now and then
			err = s.checkpoint(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		write()
	}
	if got := size(); got > 2*once {
		t.Errorf("the WAL has %d bytes after four rounds of about %d", got, once)
	}
	if list, err := s.Sessions(t.Context(), 2000); err != nil || len(list) != 4*4*100 {
		t.Errorf("%d sessions, %v", len(list), err)
	}
}
