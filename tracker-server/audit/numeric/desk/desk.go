// Package desk runs numeric audits for the tracker: it asks package numeric
// what to do, tells nodes by the server's connections, reads receipts, and
// writes what came of each audit. docs/protocol/audits.md describes the whole.
//
// Only the server imports it. It knows no connection, registry or session
// table: the server lends them as functions, together with its lock.
package desk

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
	"neuron/tracker-server/audit/numeric"
	"neuron/tracker-server/store"
)

// Store is what the desk needs of the tracker's store.
type Store interface {
	store.Audits
	Receipts(ctx context.Context, s protocol.SessionID) ([][]byte, error)
}

// Options configure a Desk. All fields are required.
type Options struct {
	Rules  numeric.Config
	Key    ed25519.PrivateKey // signs tickets
	Store  Store
	Now    func() time.Time
	Logger *slog.Logger
	// Lock is the server's. The desk holds it while it changes its own state,
	// and the functions below are called with it held; none of them waits.
	Lock sync.Locker
	// Send tells a connected node or gateway; false when it is not there.
	Send func(to protocol.NodeID, role protocol.Role, kind protocol.MessageKind, body any) bool
	// Nodes lists the holders of a model, Owner a node's owner or "".
	Nodes func(now time.Time, m protocol.ModelID) []numeric.Candidate
	Owner func(protocol.NodeID) string
	// Ended is told of each record, for metrics.
	Ended func(*numeric.Record)
	// Wake asks for a call of Write soon.
	Wake func()
}

// Desk holds the open audits. It is safe for concurrent use; methods whose name
// ends in Locked are called with Options.Lock held, the others without. Sample,
// SessionEndedLocked, Tick and Write of a nil Desk do nothing.
type Desk struct {
	o Options

	// Guarded by o.Lock.
	book    *numeric.Book
	done    []numeric.Record // to be written
	looked  time.Time        // when the book was last gone through
	retryAt time.Time        // after a write that failed
}

const (
	lookEvery = time.Second // how often the book is gone through
	// maxUnwritten bounds what waits for a database that cannot be written.
	maxUnwritten = 1000
	retryWrite   = 10 * time.Second
	// maxMessage bounds what a node can write into a record, in bytes.
	maxMessage = 300
)

// New returns a desk; with a share of 0 it samples nothing.
func New(o Options) *Desk { return &Desk{o: o, book: numeric.New(o.Rules)} }

// OpenLocked is the number of sampled sessions without a result.
func (d *Desk) OpenLocked() int { return d.book.Open() }

// Sample decides whether a new session is audited, and tells the neighbours of
// the chosen hop to keep its frames. Call it before the lease is given away.
func (d *Desk) Sample(l *protocol.Lease, name string) {
	if d == nil {
		return
	}
	d.o.Lock.Lock()
	defer d.o.Lock.Unlock()
	now := d.o.Now()
	p := d.book.Sample(now, l, name, func(m protocol.ModelID) []numeric.Candidate { return d.o.Nodes(now, m) })
	if p != nil {
		d.o.Logger.Info("session is sampled for an audit", "session", p.Session, "audit", p.Audit, "hop", p.Hop)
		d.keep(p, false)
	}
}

var sides = []auditmsg.AuditSide{auditmsg.AuditInput, auditmsg.AuditOutput}

// keep tells both keepers to begin or to drop. Who is not connected keeps
// nothing, and the audit fails with that reason when its turn comes.
func (d *Desk) keep(p *numeric.Plan, drop bool) {
	for _, side := range sides {
		k := auditmsg.AuditKeep{Session: p.Session, Side: side, Drop: drop}
		if !drop {
			k.Rows, k.Seconds = p.Rows, int(d.book.Keep()/time.Second)
		}
		d.tell(p, side, auditmsg.MsgAuditKeep, k)
	}
}

// tell reaches a keeper: a node, or the driver's gateway.
func (d *Desk) tell(p *numeric.Plan, side auditmsg.AuditSide, kind protocol.MessageKind, body any) bool {
	switch {
	case side == auditmsg.AuditOutput:
		return d.o.Send(p.Output, protocol.RoleNode, kind, body)
	case p.Hop > 0:
		return d.o.Send(p.Input, protocol.RoleNode, kind, body)
	}
	return d.o.Send(p.Input, protocol.RoleGateway, kind, body)
}

// SessionEndedLocked notes the end of a session.
func (d *Desk) SessionEndedLocked(s protocol.SessionID, failed bool) {
	if d == nil {
		return
	}
	if p, r := d.book.Ended(d.o.Now(), s, failed); r != nil {
		d.keep(p, true)
		d.end(r)
	}
}

// Tick gives up what is over time, and begins at most one audit a second. It
// reads the store.
func (d *Desk) Tick(ctx context.Context) {
	if d == nil {
		return
	}
	p, auditor := d.next()
	if p == nil {
		return
	}
	// The store is read without the lock; what is used of a plan never changes.
	run := auditmsg.AuditRun{Receipts: d.receipts(ctx, p)}
	var err error
	if run.Ticket, err = d.ticket(p, protocol.Peer{Node: auditor.Node, Addr: auditor.Addr}); err != nil {
		d.o.Logger.Error("sign an audit ticket", "audit", p.Audit, "err", err)
		return
	}
	d.o.Lock.Lock()
	defer d.o.Lock.Unlock()
	if d.o.Send(auditor.Node, protocol.RoleNode, auditmsg.MsgAuditRun, run) {
		d.o.Logger.Info("audit begins", "audit", p.Audit, "auditor", auditor.Node.Short(), "receipts", len(run.Receipts))
	}
}

func (d *Desk) next() (*numeric.Plan, numeric.Candidate) {
	d.o.Lock.Lock()
	defer d.o.Lock.Unlock()
	now := d.o.Now()
	if now.Sub(d.looked) < lookEvery {
		return nil, numeric.Candidate{}
	}
	d.looked = now
	for _, r := range d.book.Expire(now) {
		d.end(r)
	}
	if len(d.done) > 0 && !now.Before(d.retryAt) {
		d.o.Wake()
	}
	return d.book.Next(now, func(m protocol.ModelID) []numeric.Candidate { return d.o.Nodes(now, m) }, d.o.Owner)
}

// ticket lets the keepers of p send to an auditor.
func (d *Desk) ticket(p *numeric.Plan, auditor protocol.Peer) (*auditmsg.SignedAuditTicket, error) {
	return auditmsg.SignAuditTicket(&auditmsg.AuditTicket{
		Version: protocol.Version, Audit: p.Audit, Session: p.Session, Model: p.Model, Layers: p.Layers, Use: p.Use, Build: p.Build, Rows: p.Rows,
		Input: p.Input, Output: p.Output, Auditor: auditor, Expires: d.o.Now().Add(d.book.Patience()).UTC().Truncate(time.Second),
	}, d.o.Key)
}

// receipts are those of the audited hop that an auditor can hold the frames
// against. Without them the audit goes on with less proof.
func (d *Desk) receipts(ctx context.Context, p *numeric.Plan) [][]byte {
	all, err := d.o.Store.Receipts(ctx, p.Session)
	if err != nil {
		d.o.Logger.Error("read the receipts of an audited session", "audit", p.Audit, "err", err)
		return nil
	}
	var out [][]byte
	for _, raw := range all {
		s, r, err := protocol.ParseSignedReceipt(raw)
		if err == nil && s.Both() && r.Hop == p.Hop && r.Node == p.Node && r.Span.EpochLast == 0 && int(r.Span.First) < p.Rows && len(out) < auditmsg.MaxAuditReceipts {
			out = append(out, raw)
		}
	}
	return out
}

// ReadyLocked takes an auditor's word that it waits, and tells the keepers to
// send to its address.
func (d *Desk) ReadyLocked(from protocol.Peer, m *auditmsg.AuditReady) error {
	now := d.o.Now()
	p, err := d.book.Ready(now, from.Node, m.Audit)
	if err != nil {
		return err
	}
	ticket, err := d.ticket(p, from)
	if err != nil {
		return err
	}
	for _, side := range sides {
		if d.tell(p, side, auditmsg.MsgAuditSend, auditmsg.AuditSend{Ticket: ticket, Side: side}) {
			continue
		}
		gone := protocol.Errorf(protocol.CodeUnavailable, "the keeper of the %s is not connected", string(side))
		_, r, err := d.book.Result(now, from.Node, &auditmsg.AuditResult{Audit: p.Audit, Error: gone})
		if r != nil {
			d.end(r)
		}
		return err
	}
	return nil
}

// ResultLocked records what an auditor measured, or why it or a keeper failed.
func (d *Desk) ResultLocked(from protocol.NodeID, m *auditmsg.AuditResult) error {
	if e := m.Error; e != nil {
		code := e.Code
		if !code.Known() {
			code = protocol.CodeInternal
		}
		m.Error = protocol.Errorf(code, "%s", strings.ToValidUTF8(e.Message[:min(len(e.Message), maxMessage)], ""))
	}
	_, r, err := d.book.Result(d.o.Now(), from, m)
	if r != nil {
		d.end(r)
	}
	return err
}

// end notes the end of an audit. Nothing else follows from it.
func (d *Desk) end(r *numeric.Record) {
	if r.Error != nil {
		d.o.Logger.Info("audit failed", "audit", r.Audit, "session", r.Session, "hop", r.Hop, "code", r.Error.Code, "reason", r.Error.Message)
	} else {
		d.o.Logger.Info("audit done", "audit", r.Audit, "session", r.Session, "hop", r.Hop, "node", r.Node.Short(), "auditor", r.Auditor.Short(),
			"rows", r.Measures.Rows, "proven", r.Measures.Proven, "median", r.Measures.Median, "max", r.Measures.Max)
	}
	d.o.Ended(r)
	rec := *r
	rec.Begun, rec.Ended = rec.Begun.UTC().Truncate(time.Microsecond), rec.Ended.UTC().Truncate(time.Microsecond)
	d.done = append(d.done, rec)
	if n := len(d.done) - maxUnwritten; n > 0 {
		d.done = slices.Delete(d.done, 0, n)
	}
	d.o.Wake()
}

// Write writes what has ended; what cannot be written stays for later.
func (d *Desk) Write(ctx context.Context) {
	if d == nil {
		return
	}
	d.o.Lock.Lock()
	batch := d.done
	d.done = nil
	d.o.Lock.Unlock()
	if len(batch) == 0 {
		return
	}
	list := make([]store.Audit, len(batch))
	for i, r := range batch {
		list[i] = store.Audit(r)
	}
	if err := d.o.Store.AddAudits(ctx, list); err != nil {
		d.o.Logger.Error("write audits; trying again", "err", err)
		d.o.Lock.Lock()
		defer d.o.Lock.Unlock()
		d.done = append(batch, d.done...)
		d.retryAt = d.o.Now().Add(retryWrite)
	}
}

// Page is what the operator sees of numeric audits.
type Page struct {
	// Share is the part of public sessions that is sampled, Open how many
	// sampled ones have no result yet.
	Share float64 `json:"share"`
	Open  int     `json:"open"`
	// Audits are the newest ones. Calibration and Failures sum the newest
	// summed, whatever was asked for.
	Audits      []numeric.Record      `json:"audits"`
	Calibration []numeric.Line        `json:"calibration"`
	Failures    map[protocol.Code]int `json:"failures"`
}

// summed is how many of the newest audits are summed.
const summed = 10_000

// Page lists the newest audits that ended before before, when it is not zero.
// It is for operators only: audited nodes must not learn that they are. Audits
// that are not written yet are missing.
func (d *Desk) Page(ctx context.Context, before time.Time, limit int) (*Page, error) {
	recent, err := d.o.Store.Audits(ctx, time.Time{}, summed)
	if err != nil {
		return nil, err
	}
	list, err := d.o.Store.Audits(ctx, before, limit)
	if err != nil {
		return nil, err
	}
	all := records(recent)
	p := &Page{Share: d.o.Rules.Share, Audits: records(list), Calibration: numeric.Summary(all), Failures: numeric.Failures(all)}
	d.o.Lock.Lock()
	defer d.o.Lock.Unlock()
	p.Open = d.book.Open()
	return p, nil
}

func records(list []store.Audit) []numeric.Record {
	out := make([]numeric.Record, len(list))
	for i, a := range list {
		out[i] = numeric.Record(a)
	}
	return out
}
