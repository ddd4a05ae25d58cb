package server

import (
	"context"
	"errors"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/tracker-server/billing"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/ledger/owners"
)

// openMoney opens the books and publishes the first prices of a new tracker.
func (c *core) openMoney(ctx context.Context) error {
	l, err := ledger.Open(ctx, c.store, ledger.Config{Now: c.o.Now, Logger: c.o.Logger, StartingCredit: c.o.StartingCredit})
	if err != nil {
		return err
	}
	prices, err := l.Prices(ctx)
	if err == nil && len(prices) == 0 {
		err = l.AddPrices(ctx, ledger.DefaultPrices(c.o.Now()))
	}
	if err != nil {
		return err
	}
	c.ledger, c.owners, c.keys = l, owners.New(l, c.o.Now), keys.New(l, c.o.Now)
	c.billing = billing.New(billing.Options{
		Ledger: c.ledger, Owners: c.owners, Keys: c.keys, Store: c.store, Policy: c.o.Credit, Logger: c.o.Logger,
		Published: func(id protocol.ModelID) *manifest.Manifest {
			if p := c.catalog.Get(id); p != nil {
				return p.Description
			}
			return nil
		},
	})
	return nil
}

func isCode(err error, code protocol.Code) bool {
	return errors.Is(err, &protocol.Error{Code: code})
}
