package billing

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/tracker-server/accounts"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/ledger/owners"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/sessions/stored"
	"neuron/tracker-server/store"
)

// Options of New; all are required.
type Options struct {
	Ledger *ledger.Ledger
	Owners *owners.Owners
	Keys   *keys.Keys
	// Store is read by Restore.
	Store  Store
	Policy Policy
	// Published is the manifest of a model of the catalog, or nil. Safe for
	// concurrent use.
	Published func(protocol.ModelID) *manifest.Manifest
	Logger    *slog.Logger
}

// Store is what a desk reads of stored sessions.
type Store interface {
	// Session is one session; code: not_found.
	Session(ctx context.Context, id protocol.SessionID) (store.Session, error)
}

// Desk takes and gives back what sessions cost. It is safe for concurrent use.
type Desk struct {
	o Options

	mu   sync.Mutex                        // guards below; nothing waits under it
	ends map[protocol.SessionID]ledger.End // to be told to the ledger
}

// New returns the desk of open books.
func New(o Options) *Desk {
	return &Desk{o: o, ends: make(map[protocol.SessionID]ledger.End)}
}

// Restore ends the reservations of sessions whose end was written, and
// whose money was not, when the tracker stopped.
func (d *Desk) Restore(ctx context.Context) error {
	var running []store.Reservation
	if err := d.o.Ledger.View(ctx, func(v store.LedgerView) (err error) {
		running, err = v.Running()
		return err
	}); err != nil {
		return err
	}
	for i := range running {
		if running[i].State != store.ReservationOpen {
			continue
		}
		rec, err := d.o.Store.Session(ctx, running[i].Session)
		switch {
		case isCode(err, protocol.CodeNotFound):
			// The reservation was made and the lease never stored: nobody has it.
			d.Unused(running[i].Session)
		case err != nil:
			return err
		case !rec.Ended.IsZero():
			s, err := stored.From(rec)
			if err != nil {
				d.o.Logger.Warn("a stored session cannot be read", "session", rec.ID, "err", err)
				continue
			}
			d.Ended(&s)
		}
	}
	return d.Finish(ctx)
}

func isCode(err error, code protocol.Code) bool {
	return errors.Is(err, &protocol.Error{Code: code})
}

// NodesOf makes a private request that lists no nodes one over the nodes of the
// gateway's owner.
func (d *Desk) NodesOf(ctx context.Context, driver protocol.NodeID, req *protocol.RouteRequest) error {
	if req.Policy != protocol.PolicyPrivate || len(req.Nodes) > 0 {
		return nil
	}
	o, err := d.o.Owners.Owner(ctx, driver)
	if isCode(err, protocol.CodeNotFound) {
		return protocol.Errorf(protocol.CodeForbidden,
			"a private route may use listed nodes only, or those of the gateway's owner: the request lists none, and the gateway has no owner")
	}
	if err != nil {
		return err
	}
	list, err := d.o.Owners.Nodes(ctx, o.Owner)
	if err != nil {
		return err
	}
	for _, n := range list {
		req.Nodes = append(req.Nodes, n.Node)
	}
	return nil
}

// Reserve sets credit aside for a session before its lease is given away. It
// reports what it did, so that it can be undone.
func (d *Desk) Reserve(ctx context.Context, s *sessions.Session, req *protocol.RouteRequest) (reserved bool, err error) {
	l := s.Lease
	if d.o.Policy == Off || l.Policy == protocol.PolicyPrivate {
		return false, nil
	}
	payer, key, err := d.payer(ctx, l.Driver, req.APIKey)
	if err != nil {
		return false, err // a wrong key is never silently nobody
	}
	m := d.o.Published(l.Model)
	if m == nil {
		// Files that nobody published have no manifest, so no price.
		return false, nil
	}
	if payer == "" {
		if d.o.Policy == Required {
			return false, protocol.Errorf(protocol.CodeUnauthorized, "sessions cost credit here: the gateway has no owner, and the request has no key")
		}
		return false, nil
	}
	r := ledger.Reserve{
		Session: l.Session, Account: payer, Key: key, Model: l.Model,
		Prefill: int64(req.Prompt), Decode: int64(req.Context - req.Prompt), Expires: l.Expires,
	}
	for _, h := range l.Hops {
		r.Hops = append(r.Hops, ledger.ReserveHop{Node: h.Node, Use: h.Use, Bytes: m.WeightBytes(h.Use)})
	}
	_, err = d.o.Ledger.Reserve(ctx, r)
	if isCode(err, protocol.CodeBudget) && d.o.Policy == Optional && key == "" {
		d.o.Logger.Info("session runs unpaid: its owner has not enough credit", "session", l.Session)
		return false, nil
	}
	return err == nil, err
}

// payer says whose credit a session costs: that of the key, else of the owner
// of the gateway's node, else nobody's.
func (d *Desk) payer(ctx context.Context, driver protocol.NodeID, apiKey string) (store.AccountID, string, error) {
	return accounts.Payer(ctx, d.o.Keys, d.o.Owners, driver, apiKey)
}

// Ended notes how a session ended, for Finish. It never waits.
func (d *Desk) Ended(s *sessions.Session) {
	d.put(endOf(s, failedByRoute(s.End)))
}

// Unused notes that a session was paid for and its lease never given away. It
// never waits.
func (d *Desk) Unused(id protocol.SessionID) {
	d.put(ledger.End{Session: id, Failed: true, Prefill: -1, Decode: -1})
}

func (d *Desk) put(e ledger.End) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ends[e.Session] = e
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

// Finish tells the ledger of sessions that have ended. What it cannot
// write stays for the next call.
func (d *Desk) Finish(ctx context.Context) error {
	d.mu.Lock()
	batch := d.ends
	d.ends = make(map[protocol.SessionID]ledger.End)
	d.mu.Unlock()
	ends := slices.Collect(maps.Values(batch))
	answers, err := d.o.Ledger.FinishAll(ctx, ends)
	for i, e := range ends {
		switch {
		case i >= len(answers):
			d.put(e)
		case answers[i] == nil, isCode(answers[i], protocol.CodeSessionUnknown): // it ran unpaid
		default:
			d.o.Logger.Warn("the money of a session ended otherwise before", "session", e.Session, "err", answers[i])
		}
	}
	return err
}

const (
	sweepMoneyEvery = 5 * time.Second
	settleEvery     = 10 * time.Minute
)

// Run gives back what sessions did not cost and settles what was earned,
// until ctx ends.
func (d *Desk) Run(ctx context.Context) {
	sweep, settle := time.NewTicker(sweepMoneyEvery), time.NewTicker(settleEvery)
	defer sweep.Stop()
	defer settle.Stop()
	work := func(what string, f func(context.Context) (int, error)) {
		n, err := f(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			d.o.Logger.Error("ledger", "work", what, "err", err)
		case n > 0:
			d.o.Logger.Info("ledger", "work", what, "count", n)
		}
	}
	work("settle", d.o.Ledger.Settle)
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			work("sweep", d.o.Ledger.Sweep)
		case <-settle.C:
			work("settle", d.o.Ledger.Settle)
		}
	}
}
