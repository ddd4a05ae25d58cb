package server

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"neuron/engine/protocol"
	"neuron/tracker-server/audit/numeric"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/store"
)

// audits is the tracker's part in numeric audits. core.mu guards it; the
// metrics have their own locks.
type audits struct {
	book    *numeric.Book
	done    []numeric.Record // to be written
	looked  time.Time        // when the book was last gone through
	retryAt time.Time        // after a write that failed

	ended    *prometheus.CounterVec
	distance *prometheus.HistogramVec
}

const (
	auditEvery = time.Second // how often the book is gone through
	// maxUnwrittenAudits bounds what waits for a database that cannot be written.
	maxUnwrittenAudits = 1000
	auditRetry         = 10 * time.Second
)

// openAudits begins to sample sessions; with a share of 0 it never does.
func (c *core) openAudits() {
	a := &audits{
		book: numeric.New(c.o.Audits),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "neuron_tracker_audits_total", Help: "Numeric audits that have ended, by result: done, or the code of the failure."}, []string{"result"}),
		distance: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "neuron_tracker_audit_distance", Help: "Median relative distance of the rows of a numeric audit, by basis.",
			Buckets: []float64{1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, .1, .3, 1, 10}}, []string{"basis"}),
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "neuron_tracker_audits_open", Help: "Sampled sessions whose numeric audit has not ended."}, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(a.book.Open())
	})
	c.metrics.registry.MustRegister(a.ended, a.distance, open)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.audits = a
}

// candidatesLocked lists the holders of a model.
func (c *core) candidatesLocked(now time.Time) func(protocol.ModelID) []numeric.Candidate {
	return func(id protocol.ModelID) []numeric.Candidate {
		var out []numeric.Candidate
		for _, h := range c.reg.Holders(now, id) {
			x := h.Capability
			out = append(out, numeric.Candidate{
				Node: h.Node, Addr: h.Addr, Owner: c.ownerLocked(h.Node), Loaded: x.Loaded, Exits: x.Exits, Head: x.Head, Build: x.Build, Idle: h.Idle,
				Class: protocol.AuditClass{Threads: x.Threads, CPU: x.CPUVariant, Llama: x.Build.Llama, Engine: h.Engine},
			})
		}
		return out
	}
}

func (c *core) ownerLocked(id protocol.NodeID) string {
	owner, _ := c.ownerOf.Load(id)
	s, _ := owner.(string)
	return s
}

// sampleAudit decides whether a new session is audited, and tells the
// neighbours of the chosen hop to keep its frames. It is called before the
// lease is given away.
func (c *core) sampleAudit(s *sessions.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.audits == nil {
		return
	}
	now := c.o.Now()
	p := c.audits.book.Sample(now, s.Lease, s.Name, c.candidatesLocked(now))
	if p != nil {
		c.o.Logger.Info("session is sampled for an audit", "session", p.Session, "audit", p.Audit, "hop", p.Hop)
		c.keepLocked(p, false)
	}
}

// keepLocked tells both keepers to begin or to drop.
func (c *core) keepLocked(p *numeric.Plan, drop bool) {
	for _, side := range []protocol.AuditSide{protocol.AuditInput, protocol.AuditOutput} {
		k := protocol.AuditKeep{Session: p.Session, Side: side, Drop: drop}
		if !drop {
			k.Rows, k.Seconds = p.Rows, int(c.audits.book.Keep()/time.Second)
		}
		if to := c.keeperLocked(p, side); to != nil {
			c.sendLocked(to, protocol.MsgAuditKeep, k)
		}
	}
}

// keeperLocked is the connection of a keeper: a node, or the driver's gateway.
func (c *core) keeperLocked(p *numeric.Plan, side protocol.AuditSide) peer {
	if side == protocol.AuditOutput {
		return c.peers[peerKey{p.Output, protocol.RoleNode}]
	}
	if p.Hop > 0 {
		return c.peers[peerKey{p.Input, protocol.RoleNode}]
	}
	return c.peers[peerKey{p.Input, protocol.RoleGateway}]
}

// auditEndedLocked notes the end of a session.
func (c *core) auditEndedLocked(s *sessions.Session) {
	if c.audits == nil {
		return
	}
	if p, r := c.audits.book.Ended(c.o.Now(), s.Lease.Session, s.Phase == protocol.PhaseFailed); r != nil {
		c.keepLocked(p, true)
		c.auditDoneLocked(r)
	}
}

// tickAudits gives up what is over time, and begins at most one audit.
func (c *core) tickAudits(ctx context.Context) {
	c.mu.Lock()
	now := c.o.Now()
	a := c.audits
	if a == nil || now.Sub(a.looked) < auditEvery {
		c.mu.Unlock()
		return
	}
	a.looked = now
	for _, r := range a.book.Expire(now) {
		c.auditDoneLocked(r)
	}
	if len(a.done) > 0 && !now.Before(a.retryAt) {
		c.kickLocked()
	}
	p, auditor := a.book.Next(now, c.candidatesLocked(now), c.ownerLocked)
	c.mu.Unlock()
	if p == nil {
		return
	}
	// The database is read without the lock. Nobody else touches a plan's
	// constant fields.
	if err := c.askAuditor(ctx, p, auditor); err != nil {
		c.o.Logger.Error("begin an audit", "audit", p.Audit, "err", err)
	}
}

// ticket lets the keepers of p send to an auditor.
func (c *core) ticket(p *numeric.Plan, auditor protocol.Peer) (*protocol.SignedAuditTicket, error) {
	return protocol.SignAuditTicket(&protocol.AuditTicket{
		Version: protocol.Version, Audit: p.Audit, Session: p.Session, Model: p.Model, Layers: p.Layers, Use: p.Use, Build: p.Build, Rows: p.Rows,
		Input: p.Input, Output: p.Output, Auditor: auditor, Expires: c.o.Now().Add(c.audits.book.Patience()).UTC().Truncate(time.Second),
	}, c.key)
}

// askAuditor sends the order to re-execute.
func (c *core) askAuditor(ctx context.Context, p *numeric.Plan, to numeric.Candidate) error {
	run := protocol.AuditRun{Receipts: c.auditReceipts(ctx, p)}
	var err error
	if run.Ticket, err = c.ticket(p, protocol.Peer{Node: to.Node, Addr: to.Addr}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.peers[peerKey{to.Node, protocol.RoleNode}]; conn != nil {
		c.o.Logger.Info("audit begins", "audit", p.Audit, "auditor", to.Node.Short(), "receipts", len(run.Receipts))
		c.sendLocked(conn, protocol.MsgAuditRun, run)
	}
	return nil
}

// auditReceipts are those receipts of the audited hop that an auditor can hold
// the frames against. Without them the audit goes on with less proof.
func (c *core) auditReceipts(ctx context.Context, p *numeric.Plan) [][]byte {
	all, err := c.store.Receipts(ctx, p.Session)
	if err != nil {
		c.o.Logger.Error("read the receipts of an audited session", "audit", p.Audit, "err", err)
		return nil
	}
	var out [][]byte
	for _, raw := range all {
		s, r, err := protocol.ParseSignedReceipt(raw)
		if err == nil && s.Both() && r.Hop == p.Hop && r.Node == p.Node && r.Span.EpochLast == 0 && int(r.Span.First) < p.Rows && len(out) < protocol.MaxAuditReceipts {
			out = append(out, raw)
		}
	}
	return out
}

// onAuditReady tells the keepers to send.
func (c *core) onAuditReady(p peer, e *protocol.Envelope) error {
	m, err := protocol.Unpack[protocol.AuditReady](e)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.currentLocked(p); err != nil {
		return err
	}
	if c.audits == nil {
		return protocol.Errorf(protocol.CodeNotFound, "no such audit is open")
	}
	now := c.o.Now()
	plan, err := c.audits.book.Ready(now, p.Node(), m.Audit)
	if err != nil {
		return err
	}
	ticket, err := c.ticket(plan, protocol.Peer{Node: p.Node(), Addr: p.Hello().Addr})
	if err != nil {
		return err
	}
	for _, side := range []protocol.AuditSide{protocol.AuditInput, protocol.AuditOutput} {
		to := c.keeperLocked(plan, side)
		if to == nil {
			gone := protocol.Errorf(protocol.CodeUnavailable, "the keeper of the %s is not connected", string(side))
			_, r, err := c.audits.book.Result(now, plan.Auditor(), &protocol.AuditResult{Audit: plan.Audit, Error: gone})
			if r != nil {
				c.auditDoneLocked(r)
			}
			return err
		}
		c.sendLocked(to, protocol.MsgAuditSend, protocol.AuditSend{Ticket: ticket, Side: side})
	}
	return nil
}

// onAuditResult records what an auditor measured, or why it or a keeper failed.
func (c *core) onAuditResult(p peer, e *protocol.Envelope) error {
	m, err := protocol.Unpack[protocol.AuditResult](e)
	if err != nil {
		return err
	}
	if m.Error != nil {
		m.Error = cleanAuditError(m.Error)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.currentLocked(p); err != nil {
		return err
	}
	if c.audits == nil {
		return protocol.Errorf(protocol.CodeNotFound, "no such audit is open")
	}
	_, r, err := c.audits.book.Result(c.o.Now(), p.Node(), m)
	if r != nil {
		c.auditDoneLocked(r)
	}
	return err
}

// cleanAuditError bounds what a node can write into the record.
func cleanAuditError(e *protocol.Error) *protocol.Error {
	code := e.Code
	if !code.Known() {
		code = protocol.CodeInternal
	}
	return protocol.Errorf(code, "%.300s", e.Message)
}

// auditDoneLocked records the end of an audit. Nothing else follows from it.
func (c *core) auditDoneLocked(r *numeric.Record) {
	a := c.audits
	if r.Error != nil {
		a.ended.WithLabelValues(string(r.Error.Code)).Inc()
		c.o.Logger.Info("audit failed", "audit", r.Audit, "session", r.Session, "hop", r.Hop, "code", r.Error.Code, "reason", r.Error.Message)
	} else {
		a.ended.WithLabelValues("done").Inc()
		a.distance.WithLabelValues(string(r.Measures.Basis)).Observe(r.Measures.Median)
		c.o.Logger.Info("audit done", "audit", r.Audit, "session", r.Session, "hop", r.Hop, "node", r.Node.Short(), "auditor", r.Auditor.Short(),
			"rows", r.Measures.Rows, "proven", r.Measures.Proven, "median", r.Measures.Median, "max", r.Measures.Max)
	}
	rec := *r
	rec.Begun, rec.Ended = rec.Begun.UTC().Truncate(time.Microsecond), rec.Ended.UTC().Truncate(time.Microsecond)
	a.done = append(a.done, rec)
	if n := len(a.done) - maxUnwrittenAudits; n > 0 {
		a.done = slices.Delete(a.done, 0, n)
	}
	c.kickLocked()
}

// kickLocked wakes the persister; it needs no lock.
func (c *core) kickLocked() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// writeAudits writes what has ended; what cannot be written stays for later.
func (c *core) writeAudits(ctx context.Context) {
	c.mu.Lock()
	if c.audits == nil || len(c.audits.done) == 0 {
		c.mu.Unlock()
		return
	}
	batch := c.audits.done
	c.audits.done = nil
	c.mu.Unlock()
	list := make([]store.Audit, len(batch))
	for i, r := range batch {
		list[i] = store.Audit(r)
	}
	if err := c.store.AddAudits(ctx, list); err != nil {
		c.o.Logger.Error("write audits; trying again", "err", err)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.audits.done = append(batch, c.audits.done...)
		c.audits.retryAt = c.o.Now().Add(auditRetry)
	}
}

// AuditPage is what the operator sees of numeric audits.
type AuditPage struct {
	// Share is the part of public sessions that is sampled, Open how many
	// sampled ones have no result yet.
	Share float64 `json:"share"`
	Open  int     `json:"open"`
	// Audits are the newest ones, Calibration sums the newest calibrationOf.
	Audits      []numeric.Record      `json:"audits"`
	Calibration []numeric.Line        `json:"calibration"`
	Failures    map[protocol.Code]int `json:"failures"`
}

// calibrationOf is how many of the newest audits are summed.
const calibrationOf = 10_000

// NumericAudits lists the newest audits that ended before before (when it is
// not zero), and sums the newest ones whatever before is. It is for operators
// only: audited nodes must not learn that they are. Audits that are not written
// yet are missing.
func (c *core) NumericAudits(ctx context.Context, before time.Time, limit int) (*AuditPage, error) {
	recent, err := c.store.Audits(ctx, time.Time{}, calibrationOf)
	if err != nil {
		return nil, err
	}
	list, err := c.store.Audits(ctx, before, limit)
	if err != nil {
		return nil, err
	}
	page := &AuditPage{Share: c.o.Audits.Share, Calibration: numeric.Summary(records(recent)), Failures: numeric.Failures(records(recent)), Audits: records(list)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.audits != nil {
		page.Open = c.audits.book.Open()
	}
	return page, nil
}

func records(list []store.Audit) []numeric.Record {
	out := make([]numeric.Record, len(list))
	for i, a := range list {
		out[i] = numeric.Record(a)
	}
	return out
}

// NumericAudits is core.NumericAudits, for tests and for the operator's pages.
func (s *Server) NumericAudits(ctx context.Context, before time.Time, limit int) (*AuditPage, error) {
	return s.core.NumericAudits(ctx, before, limit)
}
