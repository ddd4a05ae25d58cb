package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// refusal is the answer of an operation that has written nothing, so that the
// others in its batch go on.
type refusal struct{ err *protocol.Error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(c protocol.Code, format string, args ...any) error {
	return &refusal{protocol.Errorf(c, format, args...)}
}

// asRefusal turns answers of reads (not_found) into refusals.
func asRefusal(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) && e.Code == protocol.CodeNotFound {
		return &refusal{e}
	}
	return err
}

// op is one operation that waits for its turn. run must give the same result
// when it is called again in another transaction.
type op struct {
	run    func(*txn) error
	weight int
	lead   chan struct{} // closed when the op's caller has to write a batch
	done   chan error    // capacity 1
}

// queue gathers the operations that come while the disk is busy: whoever finds
// nobody writing writes for all that wait (group commit).
type queue struct {
	mu      sync.Mutex
	waiting []*op
	busy    bool // somebody writes, or has been told to
}

// maxBatch bounds the weight of a transaction: others wait for it.
const maxBatch = 256

// do runs an operation in a transaction, with those of others. Once it has been
// begun its end is awaited: the answer is known.
func (l *Ledger) do(ctx context.Context, weight int, run func(*txn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &op{run: run, weight: weight, lead: make(chan struct{}), done: make(chan error, 1)}
	q := &l.queue
	q.mu.Lock()
	q.waiting = append(q.waiting, o)
	if !q.busy {
		q.busy = true
		close(o.lead)
	}
	q.mu.Unlock()
	select {
	case <-o.lead:
		l.write(context.WithoutCancel(ctx))
	case err := <-o.done:
		return plain(err)
	case <-ctx.Done():
		if q.leave(o) {
			return ctx.Err()
		}
		select {
		case <-o.lead:
			l.write(context.WithoutCancel(ctx))
		case err := <-o.done:
			return plain(err)
		}
	}
	return plain(<-o.done)
}

// leave takes an operation out that nobody has begun.
func (q *queue) leave(o *op) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, o)
	if i < 0 {
		return false
	}
	select {
	case <-o.lead:
		return false // it has to write for the others
	default:
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// write writes one batch and hands the pen on.
func (l *Ledger) write(ctx context.Context) {
	q := &l.queue
	q.mu.Lock()
	n, weight := 0, 0
	for n < len(q.waiting) && (n == 0 || weight+q.waiting[n].weight <= maxBatch) {
		weight += q.waiting[n].weight
		n++
	}
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	q.mu.Unlock()

	answers, err := l.transact(ctx, batch)
	if err != nil && len(batch) > 1 {
		// One of them may be at fault: each gets a transaction of its own.
		for i, o := range batch {
			one, err := l.transact(ctx, []*op{o})
			if err != nil {
				one = []error{err}
			}
			answers[i] = one[0]
		}
	} else if err != nil {
		answers[0] = err
	}

	q.mu.Lock()
	if len(q.waiting) > 0 {
		close(q.waiting[0].lead)
	} else {
		q.busy = false
	}
	q.mu.Unlock()
	for i, o := range batch {
		o.done <- answers[i]
	}
}

func (l *Ledger) transact(ctx context.Context, batch []*op) (answers []error, err error) {
	answers = make([]error, len(batch))
	err = l.store.UpdateLedger(ctx, func(tx store.LedgerTx) error {
		t := &txn{LedgerTx: tx, cfg: &l.cfg, now: l.cfg.Now().Truncate(time.Microsecond).UTC(), sessions: make(map[protocol.SessionID]*session)}
		for i, o := range batch {
			answers[i] = o.run(t)
			var r *refusal
			if answers[i] != nil && !errors.As(answers[i], &r) {
				return answers[i]
			}
		}
		return t.flush()
	})
	return answers, err
}

func plain(err error) error {
	var r *refusal
	if errors.As(err, &r) {
		return r.err
	}
	return err
}

// txn is a transaction with the reservations that it has read and changed.
type txn struct {
	store.LedgerTx
	cfg      *Config
	now      time.Time
	sessions map[protocol.SessionID]*session
	prices   []store.Prices // nil until they are needed
}

type session struct {
	store.Reservation
	dirty bool
}

func (t *txn) session(id protocol.SessionID) (*session, error) {
	if s := t.sessions[id]; s != nil {
		return s, nil
	}
	r, err := t.Reservation(id)
	if isCode(err, protocol.CodeNotFound) {
		return nil, refuse(protocol.CodeSessionUnknown, "nothing is reserved for the session %.40s", string(id))
	}
	if err != nil {
		return nil, err
	}
	s := &session{Reservation: r}
	t.sessions[id] = s
	return s, nil
}

// flush writes the reservations that have changed.
func (t *txn) flush() error {
	for _, s := range t.sessions {
		if !s.dirty {
			continue
		}
		if err := t.SetReservation(&s.Reservation); err != nil {
			return err
		}
		s.dirty = false
	}
	return nil
}
