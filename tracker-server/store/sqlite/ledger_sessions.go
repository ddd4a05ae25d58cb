package sqlite

import (
	"math"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite/direct"
)

const reservationColumns = `s.num, s.id, a.id, s.api_key, s.model, s.prices, s.prefill, s.decode, s.amount, s.issued, s.expires,
	s.state, s.ended, s.told_prefill, s.told_decode, s.due`

// Reservation implements store.ReservationView.
func (t *ledgerTx) Reservation(id protocol.SessionID) (store.Reservation, error) {
	out, err := t.reservations(`WHERE s.id = ?`, string(id))
	if err != nil {
		return store.Reservation{}, err
	}
	if len(out) != 1 {
		return store.Reservation{}, protocol.Errorf(protocol.CodeNotFound, "nothing is reserved for the session %.40s", string(id))
	}
	return out[0], nil
}

// Running implements store.ReservationView.
func (t *ledgerTx) Running() ([]store.Reservation, error) {
	return t.reservations(`WHERE s.state IN (?, ?) ORDER BY s.num`, int64(store.ReservationOpen), int64(store.ReservationDone))
}

func (t *ledgerTx) reservations(where string, args ...any) (out []store.Reservation, err error) {
	err = t.each(`SELECT `+reservationColumns+` FROM ledger_sessions s JOIN accounts a ON a.num = s.account `+where, args, func(r *direct.Answer) error {
		var x store.Reservation
		var issued, expires, ended, due int64
		err := r.Scan(&x.Num, &x.Session, &x.Account, &x.Key, &x.Model, &x.Prices, &x.Prefill, &x.Decode, &x.Amount, &issued, &expires,
			&x.State, &ended, &x.ToldPrefill, &x.ToldDecode, &due)
		x.Issued, x.Expires, x.Ended, x.Due = fromMicros(issued), fromMicros(expires), fromMicros(ended), fromMicros(due)
		out = append(out, x)
		return err
	})
	for i := range out {
		if err != nil {
			break
		}
		out[i].Hops, err = t.hops(out[i].Num)
	}
	return out, err
}

func (t *ledgerTx) hops(session int64) (out []store.ReservedHop, err error) {
	err = t.each(`SELECT node, owner, first, last, bytes, decode_row, decode_fee, prefill_row, prefill_fee, prefill, decode
		FROM ledger_hops WHERE session = ? ORDER BY hop`, []any{session}, func(r *direct.Answer) error {
		var h store.ReservedHop
		err := r.Scan(&h.Node, &h.Owner, &h.Range.First, &h.Range.Last, &h.Bytes, &h.DecodeRow, &h.DecodeFee, &h.PrefillRow, &h.PrefillFee,
			&h.Prefill, &h.Decode)
		out = append(out, h)
		return err
	})
	return out, err
}

// Due implements store.ReservationView.
func (t *ledgerTx) Due(now time.Time, limit int) (out []protocol.SessionID, err error) {
	err = t.each(`SELECT id FROM ledger_sessions WHERE due > 0 AND due <= ? ORDER BY due, num LIMIT ?`, []any{micros(now), limit}, func(r *direct.Answer) error {
		var id protocol.SessionID
		err := r.Scan(&id)
		out = append(out, id)
		return err
	})
	return out, err
}

// AddReservation implements store.ReservationTx.
func (t *ledgerTx) AddReservation(x *store.Reservation) error {
	account, err := t.num(x.Account)
	if err != nil {
		return err
	}
	n, err := t.exec(`INSERT INTO ledger_sessions (num, id, account, api_key, model, prices, prefill, decode, amount, issued, expires,
		state, ended, told_prefill, told_decode, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		x.Num, string(x.Session), account, x.Key, string(x.Model), x.Prices, x.Prefill, x.Decode, int64(x.Amount), micros(x.Issued), micros(x.Expires),
		int64(x.State), micros(x.Ended), x.ToldPrefill, x.ToldDecode, micros(x.Due))
	if err == nil && n != 1 {
		err = protocol.Errorf(protocol.CodeConflict, "credit for the session %s is reserved already", string(x.Session))
	}
	for i, h := range x.Hops {
		if err != nil {
			break
		}
		_, err = t.exec(`INSERT INTO ledger_hops (session, hop, node, owner, first, last, bytes, decode_row, decode_fee, prefill_row, prefill_fee,
			prefill, decode) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			x.Num, i, string(h.Node), string(h.Owner), h.Range.First, h.Range.Last, h.Bytes, int64(h.DecodeRow), int64(h.DecodeFee),
			int64(h.PrefillRow), int64(h.PrefillFee), h.Prefill, h.Decode)
	}
	return err
}

// SetReservation implements store.ReservationTx.
func (t *ledgerTx) SetReservation(x *store.Reservation) error {
	_, err := t.exec(`UPDATE ledger_sessions SET state = ?, ended = ?, told_prefill = ?, told_decode = ?, due = ? WHERE num = ?`,
		int64(x.State), micros(x.Ended), x.ToldPrefill, x.ToldDecode, micros(x.Due), x.Num)
	return err
}

// SetPaid implements store.ReservationTx.
func (t *ledgerTx) SetPaid(x *store.Reservation, hop int) error {
	h := &x.Hops[hop]
	_, err := t.exec(`UPDATE ledger_hops SET prefill = ?, decode = ? WHERE session = ? AND hop = ?`, h.Prefill, h.Decode, x.Num, hop)
	return err
}

// Overlap implements store.ReservationView: posted spans do not overlap each
// other, so the last one that begins before the end of s is the only one to
// look at. Most spans follow the last one that there is.
func (t *ledgerTx) Overlap(s store.Span) (store.Span, bool, error) {
	last, known := t.pending.last[spanKey{s.Session, s.Hop, s.Epoch}]
	if !known {
		var err error
		if last, err = t.spanBefore(s, math.MaxInt64); err != nil {
			return store.Span{}, false, err
		}
		t.pending.reached(last)
	}
	if last.Last <= s.First {
		return store.Span{Session: s.Session, Hop: s.Hop, Epoch: s.Epoch}, false, nil
	}
	if err := t.write(); err != nil {
		return store.Span{}, false, err
	}
	out, err := t.spanBefore(s, s.Last)
	return out, out.Last > s.First, err
}

// spanBefore is the last span of the same session, hop and epoch that begins
// before a position; an empty one when there is none.
func (t *ledgerTx) spanBefore(s store.Span, before int64) (store.Span, error) {
	out := store.Span{Session: s.Session, Hop: s.Hop, Epoch: s.Epoch}
	_, err := t.one(`SELECT first, last, seq FROM ledger_spans WHERE session = ? AND hop = ? AND epoch = ? AND first < ? ORDER BY first DESC LIMIT 1`,
		[]any{s.Session, s.Hop, s.Epoch, before}, &out.First, &out.Last, &out.Seq)
	return out, err
}

// AddSpan implements store.ReservationTx.
func (t *ledgerTx) AddSpan(s store.Span) error {
	t.pending.spans = append(t.pending.spans, s)
	t.pending.reached(s)
	if t.exact {
		return t.write()
	}
	return nil
}
