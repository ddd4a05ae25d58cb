package ledger

import (
	"context"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// Reserve asks for credit to be set aside for a session, before its lease is
// given out.
type Reserve struct {
	Session protocol.SessionID `json:"session"`
	Account store.AccountID    `json:"account"`
	// Key is the id of the API key whose budgets apply, or "".
	Key   string           `json:"key"`
	Model protocol.ModelID `json:"model"`
	// Prefill and Decode are the most rows that each hop may be paid for.
	Prefill int64        `json:"prefill"`
	Decode  int64        `json:"decode"`
	Hops    []ReserveHop `json:"hops"`
	Expires time.Time    `json:"expires"` // the lease's end
}

// ReserveHop is one hop of the lease. Bytes are the quantised weights of Use,
// from the manifest.
type ReserveHop struct {
	Node  protocol.NodeID `json:"node"`
	Use   protocol.Range  `json:"use"`
	Bytes int64           `json:"bytes"`
}

func (r *Reserve) check() error {
	if r.Session == "" || len(r.Session) > 64 || r.Model == "" || len(r.Model) > 80 {
		return refuse(protocol.CodeInvalidRequest, "a reservation needs a session and a model")
	}
	if len(r.Hops) == 0 || len(r.Hops) > protocol.MaxHops {
		return refuse(protocol.CodeInvalidRequest, "a reservation for %d hops; 1 to %d are possible", len(r.Hops), protocol.MaxHops)
	}
	if r.Prefill < 0 || r.Prefill > maxRows || r.Decode < 0 || r.Decode > maxRows || r.Prefill+r.Decode == 0 {
		return refuse(protocol.CodeInvalidRequest, "a reservation for %d and %d rows; at most %d of a kind are possible", r.Prefill, r.Decode, int64(maxRows))
	}
	for _, h := range r.Hops {
		if h.Node == "" || len(h.Node) > 64 || h.Use.First < 0 || h.Use.Len() <= 0 || h.Bytes < 0 || h.Bytes > maxBytes {
			return refuse(protocol.CodeInvalidRequest, "a hop of the reservation is not well formed")
		}
	}
	return nil
}

// Reserve moves the most that the session can cost from available to reserved.
// Owners and prices are those of this moment. Errors: budget_exceeded, for the
// account or its key; conflict when the session has another reservation;
// forbidden for a key that is revoked or another account's; not_found,
// unavailable without prices, invalid_request.
func (l *Ledger) Reserve(ctx context.Context, r Reserve) (out store.Reservation, err error) {
	r.Expires = r.Expires.Truncate(time.Microsecond).UTC()
	err = l.do(ctx, func(t *txn) error {
		out, err = t.reserve(&r)
		return err
	})
	return out, err
}

func (t *txn) reserve(r *Reserve) (out store.Reservation, err error) {
	if err := r.check(); err != nil {
		return out, err
	}
	id, d := "reserve:"+string(r.Session), digest(r)
	if again, err := t.repeated(id, d); err != nil {
		return out, err
	} else if again {
		s, err := t.session(r.Session)
		if err != nil {
			return out, err
		}
		return s.Reservation, nil
	}
	a, err := t.Account(r.Account)
	if err != nil {
		return out, asRefusal(err)
	}
	if a.Kind == store.KindHouse || !a.Closed.IsZero() {
		return out, refuse(protocol.CodeForbidden, "the account %s may not pay", string(a.ID))
	}
	p, err := t.current()
	if err != nil {
		return out, err
	}
	out = store.Reservation{
		Session: r.Session, Account: r.Account, Key: r.Key, Model: r.Model, Prices: p.Version, Prefill: r.Prefill, Decode: r.Decode,
		Issued: t.now, Expires: r.Expires, State: store.ReservationOpen, ToldPrefill: -1, ToldDecode: -1,
		Due: r.Expires.Add(t.cfg.LateFor),
	}
	for _, h := range r.Hops {
		hop, err := t.hop(h, p)
		if err != nil {
			return out, err
		}
		most, ok := amount(&hop, r.Prefill, r.Decode)
		if out.Amount += most; !ok || out.Amount > maxTotal {
			return out, refuse(protocol.CodeInvalidRequest, "the session could cost more than %s", maxTotal)
		}
		out.Hops = append(out.Hops, hop)
	}
	have, err := t.Balances(r.Account)
	if err != nil {
		return out, err
	}
	if have[store.Available] < out.Amount {
		return out, &refusal{protocol.Errorf(protocol.CodeBudget, "the session may cost %s credits, the account has %s", out.Amount, have[store.Available]).
			With("asked", out.Amount.String()).With("available", have[store.Available].String())}
	}
	if err := t.checkKey(r, out.Amount); err != nil {
		return out, err
	}
	return out, t.book(id, d, &out)
}

// hop finds the owner and the prices of a hop. Work of a node that nobody owns
// costs nothing.
func (t *txn) hop(h ReserveHop, p store.Prices) (store.ReservedHop, error) {
	hop := store.ReservedHop{Node: h.Node, Range: h.Use, Bytes: h.Bytes}
	o, err := t.OwnerOf(h.Node)
	if isCode(err, protocol.CodeNotFound) {
		return hop, nil
	}
	if err != nil {
		return hop, err
	}
	hop.Owner = o.Owner
	decode, ok := RowPrice(h.Bytes, p.DecodeMiB)
	if !ok {
		return hop, refuse(protocol.CodeInvalidRequest, "a range of %d bytes has no price", h.Bytes)
	}
	prefill, _ := scale(decode, p.PrefillPPM, million) // never more than decode
	hop.DecodeRow, hop.DecodeFee = decode, fee(decode, p.FeePPM)
	hop.PrefillRow, hop.PrefillFee = prefill, fee(prefill, p.FeePPM)
	return hop, nil
}

func (t *txn) checkKey(r *Reserve, amount store.Credit) error {
	if r.Key == "" {
		return nil
	}
	k, err := t.Key(r.Key)
	if err != nil {
		return asRefusal(err)
	}
	if k.Account != r.Account || !k.Revoked.IsZero() {
		return refuse(protocol.CodeForbidden, "the API key %s is revoked or belongs to another account", k.ID)
	}
	today, total, err := t.Spent(k.ID, t.now)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		what        string
		limit, have store.Credit
	}{{"budget", k.Budget, total}, {"budget for a day", k.BudgetDay, today}} {
		if x.limit > 0 && x.have+amount > x.limit {
			return &refusal{protocol.Errorf(protocol.CodeBudget, "the session may cost %s credits; of the key's %s of %s, %s are spent or reserved",
				amount, x.what, x.limit, x.have).With("asked", amount.String())}
		}
	}
	return nil
}

// book writes a reservation that was found to be good.
func (t *txn) book(id string, d [32]byte, r *store.Reservation) error {
	x := &store.Transaction{ID: id, Kind: store.TxReserve, At: t.now, Digest: d, Lines: move(nil, r.Account, store.Available, r.Account, store.Reserved, r.Amount, none)}
	if err := t.Append(x); err != nil {
		return err
	}
	r.Num, r.Issued = x.Seq, x.At
	if err := t.AddReservation(r); err != nil {
		return err
	}
	t.sessions[r.Session] = &session{Reservation: *r}
	if r.Key == "" {
		return nil
	}
	return t.Spend(r.Key, r.Issued, r.Amount)
}

// tag is what a line says about the work that it is for.
type tag struct {
	hop             int
	prefill, decode int64
}

var none = tag{hop: -1}

// move adds the two lines that move an amount, none for 0.
func move(lines []store.Line, from store.AccountID, fb store.Book, to store.AccountID, tb store.Book, amount store.Credit, g tag) []store.Line {
	if amount == 0 {
		return lines
	}
	line := func(a store.AccountID, b store.Book, v store.Credit) store.Line {
		return store.Line{Account: a, Book: b, Amount: v, Hop: g.hop, Prefill: g.prefill, Decode: g.decode}
	}
	return append(lines, line(from, fb, -amount), line(to, tb, amount))
}

// amount is what rows on a hop cost.
func amount(h *store.ReservedHop, prefill, decode int64) (store.Credit, bool) {
	p, ok1 := times(prefill, h.PrefillRow)
	d, ok2 := times(decode, h.DecodeRow)
	return p + d, ok1 && ok2 && p <= maxTotal && d <= maxTotal
}

// split is what rows that were reserved cost, as the owner's and the house's
// part. Both are linear in the rows: it does not matter how work is cut into
// receipts.
func split(h *store.ReservedHop, prefill, decode int64) (share, house store.Credit) {
	house = store.Credit(prefill)*h.PrefillFee + store.Credit(decode)*h.DecodeFee
	return store.Credit(prefill)*h.PrefillRow + store.Credit(decode)*h.DecodeRow - house, house
}

func earned(h *store.ReservedHop) (share, house store.Credit) { return split(h, h.Prefill, h.Decode) }

// paid is what a reservation's receipts have taken from it.
func paid(r *store.Reservation) (sum store.Credit) {
	for i := range r.Hops {
		share, house := earned(&r.Hops[i])
		sum += share + house
	}
	return sum
}
