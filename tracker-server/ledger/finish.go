package ledger

import (
	"context"
	"errors"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// End is the end of a session.
type End struct {
	Session protocol.SessionID `json:"session"`
	// Failed says that nobody is paid. An answer that was cut short by its
	// client, its length or a stop string has not failed.
	Failed bool `json:"failed"`
	// Prefill and Decode are the rows that each hop worked on as the tracker
	// knows it, -1 when it does not. They only decide how soon the rest of the
	// reservation goes back.
	Prefill int64 `json:"prefill"`
	Decode  int64 `json:"decode"`
}

// Finish ends a session's reservation. After a failure everything goes back to
// the client. Else what was held for its receipts becomes pending, later
// receipts are paid at once, and the rest goes back by Sweep. Errors:
// session_unknown; conflict when it ended otherwise before.
func (l *Ledger) Finish(ctx context.Context, e End) error {
	answers, err := l.FinishAll(ctx, []End{e})
	if err != nil {
		return err
	}
	return answers[0]
}

// FinishAll is Finish for many, with an answer for each that was decided. Its
// error is about the rest.
func (l *Ledger) FinishAll(ctx context.Context, ends []End) (answers []error, err error) {
	ctx = store.Later(ctx)
	for len(ends) > 0 {
		part := ends[:min(len(ends), sessionsAtOnce)]
		some, err := l.finish(ctx, part)
		if err != nil && len(part) > 1 {
			// One of them may be at fault: it is found, and those before it go on.
			part = part[:1]
			some, err = l.finish(ctx, part)
		}
		if err != nil {
			return answers, err
		}
		answers, ends = append(answers, some...), ends[len(part):]
	}
	return answers, nil
}

func (l *Ledger) finish(ctx context.Context, part []End) ([]error, error) {
	answers := make([]error, len(part))
	return answers, l.do(ctx, func(t *txn) error {
		for i := range part {
			err := t.finish(&part[i])
			var r *refusal
			if answers[i] = plain(err); err != nil && !errors.As(err, &r) {
				return err
			}
		}
		return nil
	})
}

// sessionsAtOnce is how many sessions or owners are dealt with as one operation.
const sessionsAtOnce = 16

func (t *txn) finish(e *End) error {
	s, err := t.session(e.Session)
	if err != nil {
		return err
	}
	if e.Failed {
		return t.fail(s, "the session failed")
	}
	return t.succeed(s, e)
}

func voidID(s *session) string { return "void:" + string(s.Session) }

// fail gives everything back.
func (t *txn) fail(s *session, why string) error {
	switch s.State {
	case store.ReservationFailed:
		return nil
	case store.ReservationDone, store.ReservationClosed:
		return refuse(protocol.CodeConflict, "the session %s ended well before", string(s.Session))
	}
	lines := move(nil, s.Account, store.Reserved, s.Account, store.Available, s.Amount-paid(&s.Reservation), none)
	for i := range s.Hops {
		h := &s.Hops[i]
		share, house := earned(h)
		lines = move(lines, h.Owner, store.Held, s.Account, store.Available, share, tag{i, -h.Prefill, -h.Decode})
		lines = move(lines, store.House, store.Held, s.Account, store.Available, house, tag{hop: i})
	}
	if err := t.void(s, lines, s.Amount, why); err != nil {
		return err
	}
	s.State, s.Due, s.Ended, s.dirty = store.ReservationFailed, time.Time{}, t.now, true
	return nil
}

// void writes the entry that ends a reservation; back is what the client gets
// in all.
func (t *txn) void(s *session, lines []store.Line, back store.Credit, why string) error {
	x := &store.Transaction{ID: voidID(s), Kind: store.TxVoid, At: t.now, Session: s.Num, Digest: digest(why), Note: why, Lines: lines}
	if err := t.Append(x); err != nil {
		return err
	}
	if s.Key == "" || back == 0 {
		return nil
	}
	return t.Spend(s.Key, s.Issued, -back)
}

func (t *txn) succeed(s *session, e *End) error {
	switch s.State {
	case store.ReservationFailed:
		return refuse(protocol.CodeConflict, "the session %s failed before", string(s.Session))
	case store.ReservationDone, store.ReservationClosed:
		_, err := t.repeated("earn:"+string(s.Session), digest(e))
		return err
	}
	var lines []store.Line
	for i := range s.Hops {
		h := &s.Hops[i]
		book, err := t.earnBook(h.Owner)
		if err != nil {
			return err
		}
		share, house := earned(h)
		lines = move(lines, h.Owner, store.Held, h.Owner, book, share, tag{i, h.Prefill, h.Decode})
		lines = move(lines, store.House, store.Held, store.House, store.Available, house, tag{hop: i})
	}
	x := &store.Transaction{ID: "earn:" + string(s.Session), Kind: store.TxEarn, At: t.now, Session: s.Num, Digest: digest(e), Lines: lines}
	if err := t.Append(x); err != nil {
		return err
	}
	s.State, s.Ended, s.ToldPrefill, s.ToldDecode, s.dirty = store.ReservationDone, t.now, e.Prefill, e.Decode, true
	s.Due = t.now.Add(t.cfg.LateFor)
	if agreed(&s.Reservation) {
		s.Due = t.now.Add(t.cfg.AgreedAfter)
	}
	return nil
}

// agreed reports whether all hops were paid for what the end named.
func agreed(r *store.Reservation) bool {
	for i := range r.Hops {
		if r.Hops[i].Prefill != r.ToldPrefill || r.Hops[i].Decode != r.ToldDecode {
			return false
		}
	}
	return true
}

// Sweep gives back what is left of reservations whose time is over, and reports
// how many there were. A session that nobody ended counts as failed when its
// lease has been over for LateFor.
func (l *Ledger) Sweep(ctx context.Context) (n int, err error) {
	for {
		var ids []protocol.SessionID
		err := l.store.ViewLedger(ctx, func(tx store.LedgerView) (err error) {
			ids, err = tx.Due(l.cfg.Now(), sessionsAtOnce)
			return err
		})
		if err != nil || len(ids) == 0 {
			return n, err
		}
		err = l.do(store.Later(ctx), func(t *txn) error {
			for _, id := range ids {
				if err := t.sweep(id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return n, err
		}
		n += len(ids)
	}
}

func (t *txn) sweep(id protocol.SessionID) error {
	s, err := t.session(id)
	if err != nil || s.Due.IsZero() || s.Due.After(t.now) {
		return err
	}
	if s.State == store.ReservationOpen {
		return t.fail(s, "the lease ended, and nobody told of the session's end")
	}
	rest := s.Amount - paid(&s.Reservation)
	if err := t.void(s, move(nil, s.Account, store.Reserved, s.Account, store.Available, rest, none), rest, "the rest of the reservation"); err != nil {
		return err
	}
	s.State, s.Due, s.dirty = store.ReservationClosed, time.Time{}, true
	return nil
}
