package ledger

import (
	"context"
	"fmt"
	"slices"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// Work is what a receipt proves, after its signatures, hashes and lease were
// checked.
type Work struct {
	Session protocol.SessionID `json:"session"`
	Hop     int                `json:"hop"` // index on the route
	// Epoch counts the rewinds of the session (a receipt's EpochLast): after
	// one, the same positions may be worked on again.
	Epoch int64           `json:"epoch"`
	Node  protocol.NodeID `json:"node"`
	// Owner is checked when it is not "".
	Owner store.AccountID `json:"-"`
	// Bytes are the quantised weights of the hop's range; AsReserved takes what
	// the reservation says.
	Bytes int64 `json:"bytes"`
	// First and Last are the span [First, Last) of positions that stood at its
	// end. It is empty, without rows, when all of them were rolled back.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Prefill and Decode are the rows in it; together at most Last-First.
	Prefill int64 `json:"prefill"`
	Decode  int64 `json:"decode"`
	// BothSigned says that both ends of the hop signed the receipt.
	BothSigned bool `json:"-"`
}

// AsReserved stands for the bytes that a hop was reserved with.
const AsReserved = -1

// MaxSpan bounds a receipt's span: a prefill chunk.
const MaxSpan = 4096

// Status is what became of one receipt.
type Status string

// The values of Status. After each but StatusRefused with code unavailable the
// node may forget the receipt.
const (
	StatusPosted   Status = "posted"   // paid, now
	StatusRepeated Status = "repeated" // was there already
	StatusUnpaid   Status = "unpaid"   // valid, but its session failed, or none of its rows stood
	StatusRefused  Status = "refused"  // see Error
)

// Result is the answer to one Work.
type Result struct {
	Status Status       `json:"status"`
	Amount store.Credit `json:"amount"` // the owner's part
	// Error says why it was refused: invalid_request, forbidden, conflict (the
	// same work in another receipt), session_unknown, lease_expired (too late).
	Error *protocol.Error `json:"error,omitempty"`
}

// PieceSize is about how many receipts are dealt with in one go: leases wait for
// that.
const PieceSize = 32

// Piece is work that is posted in one transaction, with what belongs to it.
type Piece struct {
	Work []Work
	// With runs in the same transaction, see store.Ledger; nil does nothing.
	With func(store.LedgerTx) error
	// Results is set by SubmitAll, in the order of Work.
	Results []Result
}

// Submit posts receipts: what the client reserved moves to the owners of the
// hops and to the house, held until the session has ended well. The results
// stand in the order of work. The error is not nil when not all could be
// decided; submitting all again is safe. Leases do not wait for it
// (store.Later).
func (l *Ledger) Submit(ctx context.Context, work []Work) ([]Result, error) {
	var pieces []*Piece
	for part := range slices.Chunk(work, PieceSize) {
		pieces = append(pieces, &Piece{Work: part})
	}
	if err := l.SubmitAll(ctx, pieces); err != nil {
		return nil, err
	}
	out := make([]Result, 0, len(work))
	for _, p := range pieces {
		out = append(out, p.Results...)
	}
	return out, nil
}

// SubmitAll is Submit for pieces; each is decided as a whole.
func (l *Ledger) SubmitAll(ctx context.Context, pieces []*Piece) error {
	runs := make([]func(*txn) error, len(pieces))
	for i, p := range pieces {
		p.Results = make([]Result, len(p.Work))
		runs[i] = func(t *txn) error {
			for j := range p.Work {
				var err error
				if p.Results[j], err = t.post(&p.Work[j]); err != nil {
					return err
				}
			}
			if p.With == nil {
				return nil
			}
			return p.With(t.LedgerTx)
		}
	}
	return l.do(store.Later(ctx), runs...)
}

// post decides one receipt. Its error is one of the store.
func (t *txn) post(asked *Work) (Result, error) {
	own := *asked
	w := &own
	refused := func(c protocol.Code, format string, args ...any) (Result, error) {
		return Result{Status: StatusRefused, Error: protocol.Errorf(c, format, args...)}, nil
	}
	switch {
	case !w.BothSigned:
		return refused(protocol.CodeForbidden, "a receipt that one side signed is not paid")
	case w.Hop < 0 || w.Hop >= protocol.MaxHops || w.Epoch < 0 || w.First < 0 || w.Last < w.First || w.Last-w.First > MaxSpan || w.Last > maxRows:
		return refused(protocol.CodeInvalidRequest, "a span from %d to %d, epoch %d, hop %d", w.First, w.Last, w.Epoch, w.Hop)
	case w.Prefill < 0 || w.Decode < 0 || w.Prefill > MaxSpan || w.Decode > MaxSpan || (w.Prefill+w.Decode == 0) != (w.First == w.Last) || w.Prefill+w.Decode > w.Last-w.First:
		return refused(protocol.CodeInvalidRequest, "%d and %d rows in a span of %d positions", w.Prefill, w.Decode, w.Last-w.First)
	}
	s, err := t.session(w.Session)
	if isCode(err, protocol.CodeSessionUnknown) {
		return refused(protocol.CodeSessionUnknown, "nothing is reserved for the session %.40s", string(w.Session))
	}
	if err != nil {
		return Result{}, err
	}
	if w.Hop >= len(s.Hops) {
		return refused(protocol.CodeInvalidRequest, "hop %d of a route of %d", w.Hop, len(s.Hops))
	}
	h := &s.Hops[w.Hop]
	if w.Node != h.Node || w.Owner != "" && w.Owner != h.Owner {
		return refused(protocol.CodeForbidden, "hop %d of the session is another node's", w.Hop)
	}
	if w.Bytes == AsReserved {
		w.Bytes = h.Bytes
	}
	if w.Bytes != h.Bytes {
		return refused(protocol.CodeForbidden, "the receipt counts %d bytes of weights, the lease %d", w.Bytes, h.Bytes)
	}
	if s.State == store.ReservationFailed || w.First == w.Last {
		return Result{Status: StatusUnpaid}, nil
	}
	return t.postSpan(w, s, h)
}

func (t *txn) postSpan(w *Work, s *session, h *store.ReservedHop) (Result, error) {
	refused := func(c protocol.Code, format string, args ...any) (Result, error) {
		return Result{Status: StatusRefused, Error: protocol.Errorf(c, format, args...)}, nil
	}
	id, d := postID(w), digest(w)
	span := store.Span{Session: s.Num, Hop: w.Hop, Epoch: w.Epoch, First: w.First, Last: w.Last}
	have, found, err := t.Overlap(span)
	if err != nil {
		return Result{}, err
	}
	if found {
		if have.First == w.First && have.Last == w.Last {
			x, err := t.Transaction(id)
			if err != nil {
				return Result{}, err
			}
			if x.Digest == d {
				return Result{Status: StatusRepeated, Amount: gain(&x)}, nil
			}
		}
		return refused(protocol.CodeConflict, "positions %d to %d of hop %d were paid with another receipt", have.First, have.Last, w.Hop)
	}
	if s.State == store.ReservationClosed {
		return refused(protocol.CodeLeaseExpired, "the session's receipts were due before")
	}
	// More rows than the lease has room for are not paid.
	prefill, decode := min(w.Prefill, s.Prefill-h.Prefill), min(w.Decode, s.Decode-h.Decode)
	share, house := split(h, prefill, decode)
	ownerBook, houseBook := store.Held, store.Held
	if s.State == store.ReservationDone {
		if ownerBook, err = t.earnBook(h.Owner); err != nil {
			return Result{}, err
		}
		houseBook = store.Available
	}
	g := tag{w.Hop, prefill, decode}
	lines := move(nil, s.Account, store.Reserved, h.Owner, ownerBook, share, g)
	if house > 0 {
		lines = move(lines, s.Account, store.Reserved, store.House, houseBook, house, tag{hop: w.Hop})
	}
	x := &store.Transaction{ID: id, Kind: store.TxPost, At: t.now, Session: s.Num, Digest: d, Lines: lines}
	if err := t.Append(x); err != nil {
		return Result{}, err
	}
	span.Seq = x.Seq
	if err := t.AddSpan(span); err != nil {
		return Result{}, err
	}
	h.Prefill, h.Decode = h.Prefill+prefill, h.Decode+decode
	s.paid |= 1 << w.Hop
	if s.State == store.ReservationDone && agreed(&s.Reservation) {
		s.Due, s.dirty = s.Ended.Add(t.cfg.AgreedAfter), true
	}
	return Result{Status: StatusPosted, Amount: share}, nil
}

// postID names the work: the same positions, on the same hop, in the same
// epoch, are the same work.
func postID(w *Work) string {
	return fmt.Sprintf("post:%s:%d:%d:%d-%d", w.Session, w.Hop, w.Epoch, w.First, w.Last)
}

// gain is what a posting brought to the owner.
func gain(x *store.Transaction) store.Credit {
	if len(x.Lines) < 2 || x.Lines[1].Account == store.House {
		return 0
	}
	return x.Lines[1].Amount
}

// earnBook is where an owner's earnings go once a session has ended well.
func (t *txn) earnBook(owner store.AccountID) (store.Book, error) {
	if owner == "" {
		return store.Pending, nil
	}
	a, err := t.Account(owner)
	if err == nil && a.Frozen > 0 {
		return store.Frozen, nil
	}
	return store.Pending, err
}
