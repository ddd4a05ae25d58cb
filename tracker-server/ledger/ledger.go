// Package ledger is the money of the network: credit that clients set aside for
// a session, that receipts turn into the earnings of owners, and that goes back
// when a session fails. docs/protocol/ledger.md is the published form of its
// rules, docs/decisions/0011-ledger.md says why they are what they are.
//
// The server and the operator's commands import it. It takes facts that were
// verified elsewhere (signatures, frame hashes) and knows no wire format; rows
// are kept by store.Ledger, through which it alone writes entries.
package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// Config holds what an operator may set.
type Config struct {
	Now    func() time.Time
	Logger *slog.Logger
	// StartingCredit is given to each new owner; 0 gives nothing.
	StartingCredit store.Credit
	// LateFor is how long after a session's end its receipts are still paid;
	// default 6 h. Nodes that lost the tracker send them when it is back.
	LateFor time.Duration
	// AgreedAfter is how long a reservation waits after a session's end when
	// all hops have been paid for exactly the rows that the end named; default
	// 1 min.
	AgreedAfter time.Duration
	// SettleAfter is how long earnings stay unsettled, at least; default 1 h.
	SettleAfter time.Duration
}

func (c *Config) fill() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.LateFor, 6*time.Hour)
	set(&c.AgreedAfter, time.Minute)
	set(&c.SettleAfter, time.Hour)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Ledger applies operations. Each is a no-op when it is repeated: its
// transactions have ids that say what they are for. It is safe for concurrent
// use, and operations that come at one time share one transaction of the
// database. What an operation reported as done survives the end of the process
// at any moment.
type Ledger struct {
	cfg   Config
	store store.Ledger
}

// Open checks the books: every transaction adds up to 0, and so do all
// balances; the table of balances is the sum of the lines, or is made anew from
// them. Error: data_folder when the entries themselves are wrong.
func Open(ctx context.Context, st store.Ledger, cfg Config) (*Ledger, error) {
	cfg.fill()
	l := &Ledger{cfg: cfg, store: st}
	if cfg.StartingCredit < 0 || cfg.StartingCredit > MaxGrant {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "a starting credit of %s; 0 to %s are possible", cfg.StartingCredit, MaxGrant)
	}
	err := l.store.UpdateLedger(ctx, func(tx store.LedgerTx) error {
		fold, err := tx.Fold()
		if err != nil {
			return err
		}
		if err := checkFold(fold); err != nil {
			return err
		}
		cached, err := tx.Cached()
		if err != nil || equalBalances(fold, cached) {
			return err
		}
		cfg.Logger.Error("the table of balances was not the sum of the entries and is made anew", "accounts", len(fold))
		return tx.Rebuild()
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

func checkFold(fold map[store.AccountID]store.Balances) error {
	var sum store.Credit
	for id, books := range fold {
		for b, v := range books {
			sum += v
			if v < 0 && b != store.Mint && b != store.Available {
				return broken("the account %s has %s in %s", id, v, b)
			}
		}
	}
	if sum != 0 {
		return broken("all balances add up to %s instead of 0", sum)
	}
	return nil
}

func broken(format string, args ...any) error {
	err := protocol.Errorf(protocol.CodeDataFolder, format, args...)
	err.Message = "the ledger is damaged: " + err.Message + "; restore the database from a backup"
	return err
}

func equalBalances(a, b map[store.AccountID]store.Balances) bool {
	return maps.EqualFunc(a, b, maps.Equal)
}

// Check verifies everything: the hash over all transactions, each one's sum,
// balances against lines, and balances against reservations. It reads the whole
// ledger, and writers wait meanwhile. Error: data_folder.
func (l *Ledger) Check(ctx context.Context) error {
	return l.store.ViewLedger(ctx, func(tx store.LedgerView) error {
		var chain [sha256.Size]byte
		var last int64
		err := tx.Each(func(t *store.Transaction) error {
			if err := t.Check(); err != nil || t.Seq != last+1 {
				return broken("transaction %d (%s): %w", t.Seq, t.ID, errors.Join(err, gap(last, t.Seq)))
			}
			chain, last = t.Chain(chain), t.Seq
			return nil
		})
		if err != nil {
			return err
		}
		seq, _, want, err := tx.Head()
		if err != nil {
			return err
		}
		if seq != last || chain != want {
			return broken("the newest of %d transactions is not the one that was written as number %d", last, seq)
		}
		fold, err := tx.Fold()
		if err != nil {
			return err
		}
		if err := checkFold(fold); err != nil {
			return err
		}
		cached, err := tx.Cached()
		if err != nil {
			return err
		}
		if !equalBalances(fold, cached) {
			return broken("the table of balances is not the sum of the entries")
		}
		return checkReservations(tx, fold)
	})
}

func gap(last, seq int64) error {
	if seq != last+1 {
		return protocol.Errorf(protocol.CodeDataFolder, "it follows %d", last)
	}
	return nil
}

// checkReservations compares what running sessions hold with the books.
func checkReservations(tx store.LedgerView, fold map[store.AccountID]store.Balances) error {
	running, err := tx.Running()
	if err != nil {
		return err
	}
	type place struct {
		id   store.AccountID
		book store.Book
	}
	want := make(map[place]store.Credit)
	for i := range running {
		r := &running[i]
		want[place{r.Account, store.Reserved}] += r.Amount - paid(r)
		if r.State != store.ReservationOpen {
			continue
		}
		for j := range r.Hops {
			share, fee := earned(&r.Hops[j])
			want[place{r.Hops[j].Owner, store.Held}] += share
			want[place{store.House, store.Held}] += fee
		}
	}
	for id, books := range fold {
		for _, b := range []store.Book{store.Reserved, store.Held} {
			if books[b] != want[place{id, b}] {
				return broken("the account %s has %s in %s, its sessions %s", id, books[b], b, want[place{id, b}])
			}
			delete(want, place{id, b})
		}
	}
	for p, v := range want {
		if v != 0 {
			return broken("the account %s has nothing in %s, its sessions %s", p.id, p.book, v)
		}
	}
	return nil
}

// digest is over what an operation asks for, in a fixed form.
func digest(v any) [sha256.Size]byte {
	raw, err := json.Marshal(v)
	if err != nil {
		// Only our own plain structs come here.
		panic("ledger: encode an operation: " + err.Error())
	}
	return sha256.Sum256(raw)
}

// repeated reports whether the transaction is there already; it is a conflict
// when it was for something else.
func (t *txn) repeated(id string, d [sha256.Size]byte) (bool, error) {
	have, err := t.Transaction(id)
	if isCode(err, protocol.CodeNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if have.Digest != d {
		return false, refuse(protocol.CodeConflict, "the transaction %s exists with other content", id)
	}
	return true, nil
}

func isCode(err error, c protocol.Code) bool { return errors.Is(err, &protocol.Error{Code: c}) }
