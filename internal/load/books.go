package load

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"neuron/tracker-server/ledger"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

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
