package ledger

import (
	"context"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// Settle makes available what was earned in the hours that had ended
// Config.SettleAfter ago, and reports for how many owners. Frozen credit stays.
// It is due once an hour; more often does no harm.
func (l *Ledger) Settle(ctx context.Context) (n int, err error) {
	until := l.cfg.Now().UTC().Add(-l.cfg.SettleAfter).Truncate(time.Hour)
	var owners []store.AccountID
	err = l.store.ViewLedger(ctx, func(tx store.LedgerView) (err error) {
		owners, err = tx.Unsettled()
		return err
	})
	for len(owners) > 0 && err == nil {
		part := owners[:min(len(owners), sessionsAtOnce)]
		owners = owners[len(part):]
		settled := 0
		err = l.do(store.Later(ctx), func(t *txn) error {
			settled = 0
			for _, o := range part {
				done, err := t.settle(o, until)
				if err != nil {
					return err
				}
				if done {
					settled++
				}
			}
			return nil
		})
		n += settled
	}
	return n, err
}

// settle moves what was earned before until and is still pending.
func (t *txn) settle(o store.AccountID, until time.Time) (bool, error) {
	id := "settle:" + string(o) + ":" + until.Format("2006-01-02T15")
	if again, err := t.repeated(id, digest(id)); err != nil || again {
		return false, err
	}
	seq, err := t.SeqBefore(until)
	if err != nil {
		return false, err
	}
	have, err := t.Balances(o)
	if err != nil {
		return false, err
	}
	young, err := t.GainedAfter(o, store.Pending, seq)
	if err != nil {
		return false, err
	}
	// What left the book since then was the oldest of it.
	amount := have[store.Pending] - young
	if amount <= 0 {
		return false, nil
	}
	return true, t.Append(&store.Transaction{ID: id, Kind: store.TxSettle, At: t.now, Digest: digest(id),
		Lines: move(nil, o, store.Pending, o, store.Available, amount, none)})
}

// Freeze holds an owner's unsettled credit, and what it earns from now on,
// after a proven fault. proof names the slash proof (its hash). Settled credit
// is not touched. Errors: not_found, invalid_request.
func (l *Ledger) Freeze(ctx context.Context, owner store.AccountID, proof, note string) error {
	return l.fault(ctx, owner, proof, func(t *txn, a *store.Account) error {
		id := "freeze:" + string(owner) + ":" + proof
		if again, err := t.repeated(id, digest(id)); err != nil || again {
			return err
		}
		have, err := t.Balances(owner)
		if err != nil {
			return err
		}
		a.Frozen++
		if err := t.SetAccount(*a); err != nil {
			return err
		}
		return t.Append(&store.Transaction{ID: id, Kind: store.TxFreeze, At: t.now, Digest: digest(id), Note: note,
			Lines: move(nil, owner, store.Pending, owner, store.Frozen, max(0, have[store.Pending]), none)})
	})
}

// Thaw takes a freeze back: when it was the last one, the credit is pending
// again. Forfeit ends it the other way: all frozen credit goes to the house.
// Of the two, one ends a freeze, once. Errors: not_found without that freeze,
// conflict when it ended otherwise.
func (l *Ledger) Thaw(ctx context.Context, owner store.AccountID, proof, note string) error {
	return l.endFreeze(ctx, owner, proof, note, store.TxThaw, store.TxForfeit)
}

// Forfeit is described at Thaw.
func (l *Ledger) Forfeit(ctx context.Context, owner store.AccountID, proof, note string) error {
	return l.endFreeze(ctx, owner, proof, note, store.TxForfeit, store.TxThaw)
}

func (l *Ledger) endFreeze(ctx context.Context, owner store.AccountID, proof, note string, kind, other store.TxKind) error {
	return l.fault(ctx, owner, proof, func(t *txn, a *store.Account) error {
		name := func(k store.TxKind) string { return string(k) + ":" + string(owner) + ":" + proof }
		id := name(kind)
		if again, err := t.repeated(id, digest(id)); err != nil || again {
			return err
		}
		if _, err := t.Transaction(name(store.TxFreeze)); err != nil {
			return asRefusal(err)
		}
		if _, err := t.Transaction(name(other)); !isCode(err, protocol.CodeNotFound) {
			if err == nil {
				err = refuse(protocol.CodeConflict, "this freeze ended with %s", string(other))
			}
			return err
		}
		have, err := t.Balances(owner)
		if err != nil {
			return err
		}
		a.Frozen--
		if err := t.SetAccount(*a); err != nil {
			return err
		}
		var lines []store.Line
		switch {
		case kind == store.TxForfeit:
			lines = move(nil, owner, store.Frozen, store.House, store.Available, max(0, have[store.Frozen]), none)
		case a.Frozen == 0:
			lines = move(nil, owner, store.Frozen, owner, store.Pending, max(0, have[store.Frozen]), none)
		}
		return t.Append(&store.Transaction{ID: id, Kind: kind, At: t.now, Digest: digest(id), Note: note, Lines: lines})
	})
}

func (l *Ledger) fault(ctx context.Context, owner store.AccountID, proof string, f func(*txn, *store.Account) error) error {
	return l.do(ctx, func(t *txn) error {
		if proof == "" || len(proof) > 100 {
			return refuse(protocol.CodeInvalidRequest, "the proof's name has %d bytes; 1 to 100 are possible", len(proof))
		}
		a, err := t.Account(owner)
		if err != nil {
			return asRefusal(err)
		}
		if a.Kind != store.KindOwner {
			return refuse(protocol.CodeInvalidRequest, "%s is not an owner's account", string(owner))
		}
		return f(t, &a)
	})
}

// Seed is what a receiver signed for: bytes that a node seeded on the tracker's
// grant.
type Seed struct {
	Grant string           `json:"grant"` // the tracker's grant, which is paid once
	Node  protocol.NodeID  `json:"node"`
	Model protocol.ModelID `json:"model"`
	Bytes int64            `json:"bytes"`
	To    protocol.NodeID  `json:"to"`
	// BothSigned says that seeder and receiver signed.
	BothSigned bool `json:"-"`
}

// Seed pays the owner of a node for seeding, out of the house's mint, and
// returns the amount. Errors: forbidden for a one-sided receipt, conflict for a
// grant that was paid for something else, not_found for a node without owner.
func (l *Ledger) Seed(ctx context.Context, s Seed) (amount store.Credit, err error) {
	err = l.do(ctx, func(t *txn) error {
		amount, err = t.seed(&s)
		return err
	})
	return amount, err
}

func (t *txn) seed(s *Seed) (store.Credit, error) {
	if !s.BothSigned {
		return 0, refuse(protocol.CodeForbidden, "a receipt that one side signed is not paid")
	}
	if s.Grant == "" || len(s.Grant) > 200 || s.Bytes <= 0 || s.Bytes > maxBytes || len(s.Node) > 64 || len(s.To) > 64 || s.Node == s.To {
		return 0, refuse(protocol.CodeInvalidRequest, "the seeding receipt is not well formed")
	}
	id, d := "seed:"+s.Grant, digest(s)
	if again, err := t.repeated(id, d); err != nil {
		return 0, err
	} else if again {
		x, err := t.Transaction(id)
		return gain(&x), err
	}
	o, err := t.OwnerOf(s.Node)
	if err != nil {
		return 0, asRefusal(err)
	}
	// Sending to oneself is no work for others.
	amount := store.Credit(0)
	if to, err := t.OwnerOf(s.To); err != nil && !isCode(err, protocol.CodeNotFound) {
		return 0, err
	} else if err != nil || to.Owner != o.Owner {
		p, err := t.current()
		if err != nil {
			return 0, err
		}
		amount, _ = RowPrice(s.Bytes, p.SeedMiB)
	}
	if amount > maxTotal {
		return 0, refuse(protocol.CodeInvalidRequest, "seeding could cost more than %s", maxTotal)
	}
	book, err := t.earnBook(o.Owner)
	if err != nil {
		return 0, err
	}
	return amount, t.Append(&store.Transaction{ID: id, Kind: store.TxSeed, At: t.now, Digest: d,
		Lines: move(nil, store.House, store.Mint, o.Owner, book, amount, none)})
}
