package sqlite

import (
	"context"
	"errors"
	"time"

	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite/direct"
)

// operation is what is done in a transaction, see inTx.
type operation = func(ctx context.Context, tx *txn) error

// write is one operation that waits for its transaction.
type write struct {
	f     operation
	later bool
	since time.Time // that it waits
	err   error
	done  chan struct{} // closed when err is final
}

const (
	// maxWrites bounds the operations of one transaction: the last one waits for
	// all of them.
	maxWrites = 128
	// laterFor bounds the time for those of them that can wait, see store.Later.
	laterFor = 5 * time.Millisecond
	// laterWaits is after how long such an operation is due: however many others
	// there are, each transaction takes one that is.
	laterWaits = 500 * time.Millisecond
)

// inTx runs operations, each in a transaction, and returns when they are on the
// disk. Operations that come at one time share a transaction, since the pages
// that each changes are nearly all that a small one costs. One that fails leaves nothing
// behind and does not hinder the others; what it had done is undone, and so is
// what the others had, which run again. So an operation may run twice, with the
// same result. It is short and calls nothing of the store; it runs on the
// writer's goroutine, and its ctx does not end with the caller's. When the
// caller's ends, nothing is begun any more.
//
// Operations that can wait (store.Later) go behind all others, also when they
// came before, as long as they wait no longer than laterWaits.
func (s *Store) inTx(ctx context.Context, op string, fs ...operation) error {
	if err := ctx.Err(); err != nil {
		return s.wrap(op, err)
	}
	list := make([]*write, len(fs))
	now := time.Now()
	for i, f := range fs {
		list[i] = &write{f: f, later: store.IsLater(ctx), since: now, done: make(chan struct{})}
	}
	if err := s.enqueue(list); err != nil {
		return s.wrap(op, err)
	}
	var failed error
	for _, w := range list {
		if err := s.await(ctx, w); failed == nil {
			failed = err
		}
	}
	return s.wrap(op, failed)
}

var errClosed = errors.New("it is closed")

func (s *Store) enqueue(list []*write) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return errClosed
	}
	for _, w := range list {
		if s.waiting.put(w) {
			s.came.Signal()
		}
	}
	return nil
}

// await returns when an operation is written, or has left with its caller.
func (s *Store) await(ctx context.Context, w *write) error {
	end := ctx.Done()
	for {
		select {
		case <-w.done:
			return w.err
		case <-end:
			s.mu.Lock()
			left := s.waiting.leave(w)
			s.mu.Unlock()
			if left {
				return ctx.Err()
			}
			end = nil // it has begun: its result is awaited
		case <-s.synced:
			select {
			case <-w.done:
				return w.err
			default: // an operation has ended the writer, as a test does that fails in it
				return errClosed
			}
		}
	}
}

// writes is the writer: it writes group after group while there is work. It
// returns, and closes written, when the store is closing and nobody waits any
// more.
func (s *Store) writes() {
	defer close(s.written)
	for s.work() {
		s.lead(context.Background())
	}
}

// work waits until a group is due; false when none will come.
func (s *Store) work() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.waiting.empty() {
			if s.closing {
				return false
			}
			s.came.Wait()
			continue
		}
		d := s.waiting.due(time.Now())
		if d <= 0 || s.closing {
			return true
		}
		alarm := time.AfterFunc(d, func() {
			s.mu.Lock() // else it could come before Wait
			defer s.mu.Unlock()
			s.came.Signal()
		})
		s.came.Wait()
		alarm.Stop()
	}
}

// endWrites lets the writer write what waits, and nothing more, and waits until
// that is on the disk.
func (s *Store) endWrites() {
	s.mu.Lock()
	s.closing = true
	s.came.Signal()
	s.mu.Unlock()
	<-s.synced
}

// firstOf takes the operations that begin a group: all that cannot wait, and one
// that can, when there is no other or it has waited for long.
func (s *Store) firstOf() []*write {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	group := s.waiting.first.take(maxWrites, now)
	if len(group) == 0 || s.waiting.overdue(now) {
		group = append(group, s.waiting.later.take(1, now)...)
	}
	return group
}

// next takes operations for a transaction: all that cannot wait, else one that
// can, if there is room for it and its lane is due.
func (s *Store) next(room bool) []*write {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if group := s.waiting.first.take(maxWrites, now); len(group) > 0 || !room || s.waiting.later.due(now) > 0 {
		return group
	}
	return s.waiting.later.take(1, now)
}

// lead writes one group.
func (s *Store) lead(ctx context.Context) {
	s.pen.Lock()
	defer s.pen.Unlock()
	first := s.firstOf()
	if len(first) == 0 {
		return // they have left
	}
	group, failed := s.together(ctx, first)
	if failed {
		s.again(ctx, group)
	}
	s.owners.settled()
	s.toSync(group)
}

// together runs a group in one transaction, and with it what comes meanwhile:
// whoever cannot wait waits for others that can no longer than laterFor. It
// reports whether one of them failed; nothing was written then.
func (s *Store) together(ctx context.Context, first []*write) (group []*write, failed bool) {
	begun := time.Now()
	tx, err := s.begin(ctx)
	if err != nil {
		fail(first, err)
		return first, false
	}
	room := true
	for next := first; len(next) > 0; next = s.next(room) {
		for i, w := range next {
			group = append(group, w)
			s.o.Begun(w.later, time.Since(w.since))
			if err := w.f(ctx, tx); err != nil {
				s.writer.Rollback(ctx)
				group = append(group, next[i+1:]...)
				if len(group) == 1 {
					w.err = err
				}
				return group, len(group) > 1
			}
		}
		if len(group) >= maxWrites {
			break
		}
		room = room && time.Since(begun) < laterFor
	}
	if tx.flush() != nil {
		s.writer.Rollback(ctx)
		return group, true
	}
	if err := s.commit(ctx); err != nil {
		fail(group, err)
	}
	return group, false
}

func fail(group []*write, err error) {
	for _, w := range group {
		if w.err == nil {
			w.err = err
		}
	}
}

// again runs a group of which an operation failed: each so that its failure
// leaves nothing behind. Saving the pages for that costs too much to do it
// always.
func (s *Store) again(ctx context.Context, group []*write) {
	tx, err := s.begin(ctx)
	if err != nil {
		fail(group, err)
		return
	}
	wrote := false
	for _, w := range group {
		if w.err, err = s.savepoint(ctx, tx, w); err != nil {
			// A full disk, for one, ends the whole transaction.
			s.writer.Rollback(ctx)
			fail(group, err)
			return
		}
		wrote = wrote || w.err == nil
	}
	if !wrote {
		s.writer.Rollback(ctx)
		return
	}
	if err := s.commit(ctx); err != nil {
		fail(group, err)
	}
}

// savepoint runs one operation so that its failure, the first result, leaves
// nothing behind. The second one is that of the transaction.
func (s *Store) savepoint(ctx context.Context, tx *txn, w *write) (failed, err error) {
	if err := tx.Exec(ctx, "SAVEPOINT w"); err != nil {
		return nil, err
	}
	tx.books = nil // what it knew may have been undone
	tx.exact = true
	if failed = w.f(ctx, tx); failed == nil {
		failed = tx.flush()
	}
	if failed != nil {
		if err := tx.Exec(ctx, "ROLLBACK TO w"); err != nil {
			return failed, err
		}
	}
	return failed, tx.Exec(ctx, "RELEASE w")
}

// txn is a transaction of the writer.
type txn struct {
	*direct.Conn
	s *Store
	// books is the ledger as this transaction leaves it, for all operations in
	// it; nil until one asks.
	books *ledgerTx
	// exact says that an entry of the ledger is written when it is appended, so
	// that an operation learns what is wrong with it.
	exact bool
}

func (t *txn) ledger(ctx context.Context) *ledgerTx {
	if t.books == nil {
		t.books = newLedgerTx(ctx, t.s, t.Conn)
		t.books.alone, t.books.exact = true, t.exact
	}
	return t.books
}

func (t *txn) flush() error {
	if t.books == nil {
		return nil
	}
	return t.books.flush()
}

func (s *Store) begin(ctx context.Context) (*txn, error) {
	if err := s.writer.Open(ctx); err != nil {
		return nil, err
	}
	if err := s.recover(ctx); err != nil {
		return nil, err
	}
	// A transaction that reads before it writes would fail at once, without the
	// busy timeout, when another process wrote in between.
	if err := s.writer.Exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	return &txn{Conn: s.writer, s: s}, nil
}

func (s *Store) commit(ctx context.Context) error {
	err := s.writer.Exec(ctx, "COMMIT")
	if err != nil {
		s.writer.Rollback(ctx)
	}
	s.commits.Add(1)
	return err
}
