package ledger

import (
	"context"
	"errors"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// refusal is the answer of an operation that has written nothing, so that the
// others in its transaction go on.
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

// do runs operations, each in a transaction, which it may share with others. An
// operation gives the same result when it is called again in another
// transaction. The error is that of one of them.
func (l *Ledger) do(ctx context.Context, runs ...func(*txn) error) error {
	answers := make([]error, len(runs))
	list := make([]func(store.LedgerTx) error, len(runs))
	for i, run := range runs {
		list[i] = func(tx store.LedgerTx) error {
			t := &txn{LedgerTx: tx, cfg: &l.cfg, now: l.cfg.Now().Truncate(time.Microsecond).UTC(), sessions: make(map[protocol.SessionID]*session)}
			answers[i] = run(t)
			var r *refusal
			switch {
			case errors.As(answers[i], &r):
				return nil
			case answers[i] != nil:
				return answers[i]
			}
			return t.flush()
		}
	}
	if err := l.store.UpdateLedger(ctx, list...); err != nil {
		return err
	}
	for _, err := range answers {
		if err != nil {
			return plain(err)
		}
	}
	return nil
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
	dirty bool   // what SetReservation stores has changed
	paid  uint64 // a bit for each hop whose paid rows have changed
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

// flush writes what has changed of reservations.
func (t *txn) flush() error {
	for _, s := range t.sessions {
		if s.dirty {
			if err := t.SetReservation(&s.Reservation); err != nil {
				return err
			}
		}
		for i := range s.Hops {
			if s.paid&(1<<i) == 0 {
				continue
			}
			if err := t.SetPaid(&s.Reservation, i); err != nil {
				return err
			}
		}
		s.dirty, s.paid = false, 0
	}
	return nil
}
