package load

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"neuron/internal/identity"
	"neuron/internal/owner"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/ledger/owners"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

// clientCredit is what each owner begins with: nobody runs out of it.
const clientCredit = 1_000_000_000_000_000

// bindAll makes the crowd's identities and binds nodes and gateways to owners,
// in the database of a tracker that has not started yet: its account API takes
// far fewer from one address.
func bindAll(ctx context.Context, o *Options) (ids []*identity.Identity, took time.Duration, err error) {
	from := time.Now()
	dir := filepath.Join(o.Data, "tracker")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, 0, fmt.Errorf("the tracker's folder: %w", err)
	}
	db, err := sqlite.Open(ctx, filepath.Join(dir, "tracker.db"))
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	books, err := ledger.Open(ctx, db, ledger.Config{Now: time.Now, StartingCredit: clientCredit})
	if err != nil {
		return nil, 0, err
	}
	bound := owners.New(books, time.Now)
	keys := make([]ed25519.PrivateKey, o.Owners+1) // the last one is the gateways'
	for i := range keys {
		if _, keys[i], err = ed25519.GenerateKey(nil); err != nil {
			return nil, 0, err
		}
	}
	for i := range o.Nodes + o.Gateways {
		id, err := identity.New()
		if err != nil {
			return nil, 0, err
		}
		key := keys[o.Owners]
		if i < o.Nodes {
			key = keys[i%o.Owners]
		}
		b := owner.NewBinding(id.Public(), key.Public().(ed25519.PublicKey), time.Now())
		b.SignNode(id.PrivateKey())
		b.SignOwner(key)
		if _, err := bound.Bind(ctx, b); err != nil {
			return nil, 0, err
		}
		ids = append(ids, id)
	}
	return ids, time.Since(from), nil
}

// checkBooks opens the stopped tracker's database: each accepted receipt is
// posted once, and all books add up to nothing.
func checkBooks(ctx context.Context, data string, w *work, r *report) (err error) {
	db, err := sqlite.Open(ctx, filepath.Join(data, "tracker.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	books, err := ledger.Open(ctx, db, ledger.Config{Now: time.Now})
	if err != nil {
		return err
	}
	if err := books.Check(ctx); err != nil {
		return fmt.Errorf("the books after the load: %w", err)
	}
	posted := 0
	if err := books.View(ctx, func(v store.LedgerView) error {
		return v.Each(func(t *store.Transaction) error {
			if t.Kind == store.TxPost {
				posted++
			}
			return nil
		})
	}); err != nil {
		return err
	}
	r.judge("books", posted == w.accepted, "%d receipts posted of %d accepted; all books add up to 0", posted, w.accepted)
	return nil
}
