package ledger

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/owner"
	"neuron/tracker-server/store"
)

// AddClient makes an account for somebody who pays and owns no node. Error:
// invalid_request.
func (l *Ledger) AddClient(ctx context.Context, name string) (a store.Account, err error) {
	if name = strings.TrimSpace(name); name == "" || len(name) > store.MaxNote {
		return a, protocol.Errorf(protocol.CodeInvalidRequest, "an account needs a name of at most %d bytes", store.MaxNote)
	}
	a = store.Account{ID: store.AccountID("c-" + strings.ToLower(rand.Text())), Kind: store.KindClient, Name: name}
	err = l.do(ctx, func(t *txn) error {
		a.Created = t.now
		return t.AddAccount(a)
	})
	return a, err
}

// OwnerAccount is the account of an owner's key.
func OwnerAccount(pub ed25519.PublicKey) store.AccountID {
	return store.AccountID(owner.IDOf(pub))
}

// EnsureOwner makes the account of an owner's key, with the starting credit, if
// there is none yet. Package owners calls it in the transaction that binds the
// owner's first node.
func EnsureOwner(tx store.LedgerTx, pub ed25519.PublicKey, starting store.Credit, now time.Time) (store.AccountID, error) {
	id := OwnerAccount(pub)
	_, err := tx.Account(id)
	if !isCode(err, protocol.CodeNotFound) {
		return id, err
	}
	err = tx.AddAccount(store.Account{ID: id, Kind: store.KindOwner, Key: pub, Created: now})
	if err != nil || starting == 0 {
		return id, err
	}
	return id, tx.Append(&store.Transaction{ID: "grant:" + string(id), Kind: store.TxGrant, At: now, Digest: digest([]string{string(id), starting.String()}),
		Note: "starting credit", Lines: move(nil, store.House, store.Mint, id, store.Available, starting, none)})
}

// Update runs f in a transaction together with the ledger's own operations, for
// packages keys and owners. f may be called again in another transaction, and
// returns errors of its own before it writes anything.
func (l *Ledger) Update(ctx context.Context, f func(tx store.LedgerTx, now time.Time) error) error {
	return l.do(ctx, func(t *txn) error {
		err := f(t.LedgerTx, t.now)
		var e *protocol.Error
		if !errors.As(err, &e) || e.Code.HTTPStatus() >= 500 {
			return err // a fault of the store
		}
		return &refusal{e}
	})
}

// View runs f on one consistent state.
func (l *Ledger) View(ctx context.Context, f func(store.LedgerView) error) error {
	return l.store.ViewLedger(ctx, f)
}

// OwnerOf is the account that owns a node. Error: not_found.
func (l *Ledger) OwnerOf(ctx context.Context, n protocol.NodeID) (store.NodeOwner, error) {
	return l.store.OwnerOf(ctx, n)
}

// StartingCredit is what a new owner is given.
func (l *Ledger) StartingCredit() store.Credit { return l.cfg.StartingCredit }

// Grant gives credit to an account. ref names the grant, so that a repetition
// is none. Errors: not_found, invalid_request, conflict.
func (l *Ledger) Grant(ctx context.Context, to store.AccountID, ref string, amount store.Credit, note string) error {
	return l.do(ctx, func(t *txn) error {
		if amount <= 0 || amount > MaxGrant || ref == "" || len(ref) > 100 || len(note) > store.MaxNote {
			return refuse(protocol.CodeInvalidRequest, "a grant needs a reference and an amount of at most %s", MaxGrant)
		}
		id, d := "grant:"+string(to)+":"+ref, digest([]string{string(to), ref, amount.String(), note})
		if again, err := t.repeated(id, d); err != nil || again {
			return err
		}
		if _, err := t.Account(to); err != nil {
			return asRefusal(err)
		}
		mint, err := t.Balances(store.House)
		if err != nil {
			return err
		}
		if to == store.House || mint[store.Mint] < -maxMinted {
			return refuse(protocol.CodeInvalidRequest, "the house cannot give out more")
		}
		return t.Append(&store.Transaction{ID: id, Kind: store.TxGrant, At: t.now, Digest: d, Note: note,
			Lines: move(nil, store.House, store.Mint, to, store.Available, amount, none)})
	})
}

// maxMinted bounds all credit in the world, far below what a balance can hold.
const maxMinted = store.Credit(1e18)

// CloseAccount lets an account pay no more; what it has stays. Closing twice
// does no harm. Error: not_found, forbidden for the house.
func (l *Ledger) CloseAccount(ctx context.Context, id store.AccountID) error {
	return l.do(ctx, func(t *txn) error {
		a, err := t.Account(id)
		if err != nil {
			return asRefusal(err)
		}
		if a.Kind == store.KindHouse {
			return refuse(protocol.CodeForbidden, "the house cannot be closed")
		}
		if !a.Closed.IsZero() {
			return nil
		}
		a.Closed = t.now
		return t.SetAccount(a)
	})
}

// Accounts lists accounts by id, above after.
func (l *Ledger) Accounts(ctx context.Context, after store.AccountID, limit int) (out []store.Account, err error) {
	err = l.View(ctx, func(tx store.LedgerView) (err error) {
		out, err = tx.Accounts(after, min(max(limit, 1), maxPage))
		return err
	})
	return out, err
}

// Balances is what an account has. Error: not_found.
func (l *Ledger) Balances(ctx context.Context, id store.AccountID) (out store.Balances, err error) {
	err = l.View(ctx, func(tx store.LedgerView) (err error) {
		out, err = tx.Balances(id)
		return err
	})
	return out, err
}

// Correct undoes a grant, a posting, a seeding or a forfeit with an entry of its
// own, once. Money that has moved on is taken from where it is now: frozen,
// pending, then available, which alone may become negative. A posting can be
// corrected once its session has ended well. Errors: not_found, invalid_request
// for other kinds, conflict.
func (l *Ledger) Correct(ctx context.Context, txID, reason string) error {
	return l.do(ctx, func(t *txn) error {
		if reason == "" || len(reason) > store.MaxNote || len(txID) > 250 {
			return refuse(protocol.CodeInvalidRequest, "a correction needs a reason of at most %d bytes", store.MaxNote)
		}
		id := "correct:" + txID
		if again, err := t.repeated(id, digest(txID)); err != nil || again {
			return err
		}
		x, err := t.Transaction(txID)
		if err != nil {
			return asRefusal(err)
		}
		switch x.Kind {
		case store.TxGrant, store.TxSeed, store.TxForfeit, store.TxPost:
		default:
			return refuse(protocol.CodeInvalidRequest, "a transaction of the kind %s is not corrected", string(x.Kind))
		}
		if err := t.ended(&x); err != nil {
			return err
		}
		lines, err := t.undo(&x)
		if err != nil {
			return err
		}
		return t.Append(&store.Transaction{ID: id, Kind: store.TxCorrect, At: t.now, Session: x.Session, Digest: digest(txID), Note: reason, Lines: lines})
	})
}

// ended refuses what is still held for a session or was given back already.
func (t *txn) ended(x *store.Transaction) error {
	if x.Kind != store.TxPost {
		return nil
	}
	name := strings.Split(x.ID, ":")
	s, err := t.session(protocol.SessionID(name[1]))
	if err != nil {
		return err
	}
	if s.State == store.ReservationOpen || s.State == store.ReservationFailed {
		return refuse(protocol.CodeConflict, "the session %s has not ended well", string(s.Session))
	}
	return nil
}

// undo makes the lines that reverse a transaction.
func (t *txn) undo(x *store.Transaction) ([]store.Line, error) {
	var out []store.Line
	for _, l := range x.Lines {
		r := store.Line{Account: l.Account, Book: l.Book, Amount: -l.Amount, Hop: l.Hop}
		switch {
		case l.Book == store.Mint, l.Book == store.Available:
		case r.Amount > 0 || l.Account == store.House:
			r.Book = store.Available
		default:
			r.Prefill, r.Decode = -l.Prefill, -l.Decode
			have, err := t.Balances(l.Account)
			if err != nil {
				return nil, err
			}
			for _, b := range []store.Book{store.Frozen, store.Pending} {
				part := min(-r.Amount, max(0, have[b]))
				if part > 0 {
					out = append(out, store.Line{Account: l.Account, Book: b, Amount: -part, Hop: l.Hop, Prefill: r.Prefill, Decode: r.Decode})
					r.Amount, r.Prefill, r.Decode = r.Amount+part, 0, 0
				}
			}
			r.Book = store.Available
			if r.Amount == 0 {
				continue
			}
		}
		out = append(out, r)
	}
	return out, nil
}
