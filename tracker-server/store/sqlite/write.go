package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// write is one operation that waits for its transaction.
type write struct {
	op   string
	f    func(ctx context.Context, tx *sql.Tx) error
	err  error
	done chan struct{} // closed when err is final
}

// maxWrites bounds the operations of one transaction: the last one waits for
// all of them.
const maxWrites = 128

// inTx runs f in a transaction, once, and returns when it is on the disk.
// Operations that come at one time share a transaction, since waiting for the
// disk is nearly all that a small one costs: whoever finds nobody writing
// writes for all that wait, on its own goroutine. An f that fails leaves
// nothing behind and does not hinder the others. f is short and calls nothing
// of the store; its ctx does not end with the caller's.
func (s *Store) inTx(ctx context.Context, op string, f func(ctx context.Context, tx *sql.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return s.wrap(op, err)
	}
	w := &write{op: op, f: f, done: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	for {
		select {
		case <-w.done:
			return s.wrap(op, w.err)
		case s.pen <- struct{}{}:
			s.lead(context.WithoutCancel(ctx))
			<-s.pen
		}
	}
}

// lead writes one group; its caller holds the pen.
func (s *Store) lead(ctx context.Context) {
	s.mu.Lock()
	n := min(len(s.waiting), maxWrites)
	group := s.waiting[:n:n]
	if s.waiting = s.waiting[n:]; len(s.waiting) == 0 {
		s.waiting = nil
	}
	s.mu.Unlock()
	if len(group) == 0 {
		return
	}
	err := s.together(ctx, group)
	s.writing.fill(ctx)
	if err != nil {
		for _, w := range group {
			if w.err == nil {
				w.err = err
			}
		}
	}
	for _, w := range group {
		close(w.done)
	}
}

// together runs a group in one transaction. It sets the errors of single
// operations; what it returns is about all of them: nothing was written.
func (s *Store) together(ctx context.Context, group []*write) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	wrote := false
	for _, w := range group {
		if w.err, err = s.savepoint(ctx, tx, w.f); err != nil {
			// A full disk, for one, ends the whole transaction.
			return errors.Join(err, ignoreDone(tx.Rollback()))
		}
		wrote = wrote || w.err == nil
	}
	if !wrote {
		return ignoreDone(tx.Rollback())
	}
	return tx.Commit()
}

// savepoint runs f so that its failure, the first result, leaves nothing
// behind. The second one is that of the transaction.
func (s *Store) savepoint(ctx context.Context, tx *sql.Tx, f func(ctx context.Context, tx *sql.Tx) error) (failed, err error) {
	if err := s.writing.exec(ctx, tx, "SAVEPOINT w"); err != nil {
		return nil, err
	}
	if failed = f(ctx, tx); failed != nil {
		if err := s.writing.exec(ctx, tx, "ROLLBACK TO w"); err != nil {
			return failed, errors.Join(failed, err)
		}
	}
	return failed, s.writing.exec(ctx, tx, "RELEASE w")
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}
