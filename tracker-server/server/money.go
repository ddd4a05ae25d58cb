package server

import (
	"context"
	"errors"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/accounts"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/ledger/owners"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/store"
)

// CreditPolicy says whether sessions cost credit.
type CreditPolicy string

// The policies. Private routes never cost anything: they use the nodes of one
// person, or those that somebody listed.
const (
	// CreditOff keeps no accounts of work; receipts are taken and paid to nobody.
	CreditOff CreditPolicy = "off"
	// CreditOptional lets a session run unpaid whose gateway has no owner, no key
	// and no credit.
	CreditOptional CreditPolicy = "optional"
	// CreditRequired refuses such a session.
	CreditRequired CreditPolicy = "required"
)

func (p CreditPolicy) check() error {
	switch p {
	case CreditOff, CreditOptional, CreditRequired:
		return nil
	}
	return protocol.Errorf(protocol.CodeInvalidRequest, "credit is %s, %s or %s, not %.32q", CreditOff, CreditOptional, CreditRequired, string(p))
}

const (
	sweepMoneyEvery = 5 * time.Second
	settleEvery     = 10 * time.Minute
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
	return nil
}

// restoreMoney ends the reservations of sessions whose end was written, and
// whose money was not, when the tracker stopped.
func (c *core) restoreMoney(ctx context.Context) error {
	var running []store.Reservation
	if err := c.ledger.View(ctx, func(v store.LedgerView) (err error) {
		running, err = v.Running()
		return err
	}); err != nil {
		return err
	}
	for i := range running {
		if running[i].State != store.ReservationOpen {
			continue
		}
		rec, err := c.store.Session(ctx, running[i].Session)
		switch {
		case isCode(err, protocol.CodeNotFound):
			// The reservation was made and the lease never stored: nobody has it.
			c.ends[running[i].Session] = ledger.End{Session: running[i].Session, Failed: true, Prefill: -1, Decode: -1}
		case err != nil:
			return err
		case !rec.Ended.IsZero():
			s, err := fromStore(rec)
			if err != nil {
				c.o.Logger.Warn("a stored session cannot be read", "session", rec.ID, "err", err)
				continue
			}
			c.ends[rec.ID] = endOf(&s, failedByRoute(s.End))
		}
	}
	return c.finishMoney(ctx)
}

func isCode(err error, code protocol.Code) bool {
	return errors.Is(err, &protocol.Error{Code: code})
}

// nodesOf makes a private request that lists no nodes one over the nodes of the
// gateway's owner.
func (c *core) nodesOf(ctx context.Context, driver protocol.NodeID, req *protocol.RouteRequest) error {
	if req.Policy != protocol.PolicyPrivate || len(req.Nodes) > 0 {
		return nil
	}
	o, err := c.owners.Owner(ctx, driver)
	if isCode(err, protocol.CodeNotFound) {
		return protocol.Errorf(protocol.CodeForbidden,
			"a private route may use listed nodes only, or those of the gateway's owner: the request lists none, and the gateway has no owner")
	}
	if err != nil {
		return err
	}
	list, err := c.owners.Nodes(ctx, o.Owner)
	if err != nil {
		return err
	}
	for _, n := range list {
		req.Nodes = append(req.Nodes, n.Node)
	}
	return nil
}

// reserve sets credit aside for a session before its lease is given away. It
// reports what it did, so that it can be undone.
func (c *core) reserve(ctx context.Context, s *sessions.Session, req *protocol.RouteRequest) (reserved bool, err error) {
	l := s.Lease
	if c.o.Credit == CreditOff || l.Policy == protocol.PolicyPrivate {
		return false, nil
	}
	payer, key, err := c.payer(ctx, l.Driver, req.APIKey)
	if err != nil {
		return false, err // a wrong key is never silently nobody
	}
	p := c.catalog.Load().byID[l.Model]
	if p == nil {
		// Files that nobody published have no manifest, so no price.
		return false, nil
	}
	if payer == "" {
		if c.o.Credit == CreditRequired {
			return false, protocol.Errorf(protocol.CodeUnauthorized, "sessions cost credit here: the gateway has no owner, and the request has no key")
		}
		return false, nil
	}
	r := ledger.Reserve{
		Session: l.Session, Account: payer, Key: key, Model: l.Model,
		Prefill: int64(req.Prompt), Decode: int64(req.Context - req.Prompt), Expires: l.Expires,
	}
	for _, h := range l.Hops {
		r.Hops = append(r.Hops, ledger.ReserveHop{Node: h.Node, Use: h.Use, Bytes: p.manifest.WeightBytes(h.Use)})
	}
	_, err = c.ledger.Reserve(ctx, r)
	if isCode(err, protocol.CodeBudget) && c.o.Credit == CreditOptional && key == "" {
		c.o.Logger.Info("session runs unpaid: its owner has not enough credit", "session", l.Session)
		return false, nil
	}
	return err == nil, err
}

// payer says whose credit a session costs: that of the key, else of the owner
// of the gateway's node, else nobody's.
func (c *core) payer(ctx context.Context, driver protocol.NodeID, apiKey string) (store.AccountID, string, error) {
	return accounts.Payer(ctx, c.keys, c.owners, driver, apiKey)
}

// failedByRoute says whether an end pays nobody: the route failed. A client
// that left or a gateway that fell silent has not made the work undone.
func failedByRoute(e *sessions.End) bool {
	if e == nil || e.Error == nil || e.Finish == protocol.FinishCancelled {
		return false
	}
	return e.Error.Code != protocol.CodeCancelled && e.Error.Detail[sessions.ByDriver] == ""
}

// endOf is the end of a session as the ledger needs it: the rows are known when
// all hops have counted alike.
func endOf(s *sessions.Session, failed bool) ledger.End {
	e := ledger.End{Session: s.Lease.Session, Failed: failed, Prefill: -1, Decode: -1}
	route := s.Telemetry.Route
	if len(route) != len(s.Lease.Hops) {
		return e
	}
	first := route[0].Counters
	for i := range route {
		if c := route[i].Counters; c.PrefillRows != first.PrefillRows || c.DecodeRows-c.DroppedRows != first.DecodeRows-first.DroppedRows {
			return e
		}
	}
	e.Prefill, e.Decode = first.PrefillRows, first.DecodeRows-first.DroppedRows // as in receipts
	return e
}

// finishMoney tells the ledger of sessions that have ended. What it cannot
// write stays for the next call.
func (c *core) finishMoney(ctx context.Context) error {
	c.mu.Lock()
	batch := c.ends
	c.ends = make(map[protocol.SessionID]ledger.End)
	c.mu.Unlock()
	var failed error
	for id, e := range batch {
		err := c.ledger.Finish(ctx, e)
		switch {
		case err == nil, isCode(err, protocol.CodeSessionUnknown): // it ran unpaid
		case isCode(err, protocol.CodeConflict):
			c.o.Logger.Warn("the money of a session ended otherwise before", "session", id, "err", err)
		default:
			failed = err
			c.mu.Lock()
			c.ends[id] = e
			c.mu.Unlock()
		}
	}
	return failed
}

// moneyLoop gives back what sessions did not cost and settles what was earned,
// until ctx ends.
func (c *core) moneyLoop(ctx context.Context) {
	sweep, settle := time.NewTicker(sweepMoneyEvery), time.NewTicker(settleEvery)
	defer sweep.Stop()
	defer settle.Stop()
	work := func(what string, f func(context.Context) (int, error)) {
		n, err := f(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			c.o.Logger.Error("ledger", "work", what, "err", err)
		case n > 0:
			c.o.Logger.Info("ledger", "work", what, "count", n)
		}
	}
	work("settle", c.ledger.Settle)
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			work("sweep", c.ledger.Sweep)
		case <-settle.C:
			work("settle", c.ledger.Settle)
		}
	}
}
