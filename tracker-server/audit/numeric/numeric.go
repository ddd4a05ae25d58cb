// Package numeric plans numeric audits and keeps the book of them: which public
// sessions are sampled, which hop of theirs, who re-executes it, and what came
// of it. Audits run in shadow mode: nothing follows from a distance but a
// record of it. docs/protocol/audits.md describes the whole.
//
// It is a pure state machine like the registry: time and chance come in from
// outside, nothing is read or written, no goroutine runs, and it is not safe
// for concurrent use. The desk below it and the server import it; of our packages it uses
// engine/protocol alone. Objective faults, which do have consequences, are
// judged by tracker-server/audit.
package numeric

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
)

// Config holds the rules. Zero values take what stands in brackets.
type Config struct {
	// Share is the part of public sessions that is sampled, 0 to 1 [0: none].
	Share float64
	Rows  int           // positions that are kept and re-executed [512]
	Keep  time.Duration // how long frames are kept [10 min]
	// After is when a session that still runs is audited, counted from its
	// lease: its frames are not kept for ever [2 min].
	After time.Duration
	// Settle is how long an audit waits after the session's end, so that the
	// hop's receipts have come [10 s].
	Settle time.Duration
	// Patience bounds each step of an audit: an auditor's answer, and its
	// result [2 min].
	Patience time.Duration
	MaxOpen  int // sampled sessions at a time [32]
	// PerMinute bounds the audits that begin [6].
	PerMinute int
	Draw      func() float64 // in [0, 1) [random]
}

func (c *Config) fill() {
	if c.Rows <= 0 {
		c.Rows = 512
	}
	c.Rows = min(c.Rows, auditmsg.MaxAuditRows)
	dur := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	dur(&c.Keep, auditmsg.MaxAuditKeep)
	c.Keep = min(c.Keep, auditmsg.MaxAuditKeep)
	dur(&c.After, 2*time.Minute)
	dur(&c.Settle, 10*time.Second)
	dur(&c.Patience, 2*time.Minute)
	if c.MaxOpen <= 0 {
		c.MaxOpen = 32
	}
	if c.PerMinute <= 0 {
		c.PerMinute = 6
	}
	if c.Draw == nil {
		c.Draw = rand.Float64
	}
}

// Plan is one sampled session.
type Plan struct {
	Audit   auditmsg.AuditID
	Session protocol.SessionID
	Model   protocol.ModelID
	Name    string // the model's display name
	Layers  int
	Build   protocol.Build
	// Hop is the audited place on the route, Use what runs there, Node who.
	Hop  int
	Use  protocol.Range
	Node protocol.NodeID
	// Input and Output keep the frames.
	Input, Output protocol.NodeID
	Driver        protocol.NodeID
	Rows          int
	Begun         time.Time
	Class         auditmsg.AuditClass // of Node, as it reported

	avoid   map[protocol.NodeID]bool // everybody who had to do with the session
	state   state
	since   time.Time // of the state
	auditor protocol.NodeID
	tried   map[protocol.NodeID]bool
	// notBefore is when to ask again after a node that was busy.
	notBefore time.Time
	why       *protocol.Error // why nobody audits it yet
}

// askAgain is the pause after a node that was busy.
const askAgain = 10 * time.Second

// Auditor is who was asked last, "" before.
func (p *Plan) Auditor() protocol.NodeID { return p.auditor }

type state uint8

const (
	running state = iota // the session runs
	due                  // wants an auditor
	asked                // an auditor was asked
	sending              // it is ready, the keepers were told to send
)

// Record is the end of an audit.
type Record struct {
	Audit    auditmsg.AuditID        `json:"audit"`
	Session  protocol.SessionID      `json:"session"`
	Model    protocol.ModelID        `json:"model"`
	Name     string                  `json:"name"`
	Hop      int                     `json:"hop"`
	Use      protocol.Range          `json:"use"`
	Node     protocol.NodeID         `json:"node"`
	Auditor  protocol.NodeID         `json:"auditor,omitempty"` // "" when nobody was asked
	Begun    time.Time               `json:"begun"`
	Ended    time.Time               `json:"ended"`
	Class    auditmsg.AuditClass     `json:"class"`              // of Node
	Measures *auditmsg.AuditMeasures `json:"measures,omitempty"` // nil when it failed
	Error    *protocol.Error         `json:"error,omitempty"`    // why it failed
}

// Candidate is a node that may re-execute.
type Candidate struct {
	Node   protocol.NodeID
	Addr   string
	Owner  string // "" when not known
	Loaded protocol.Range
	Exits  []int
	Head   bool
	Build  protocol.Build
	Class  auditmsg.AuditClass
	// Idle says that it is ready and has no session.
	Idle bool
}

// Runs reports whether c can run use: it has to start where its shard starts
// and end at a legal boundary.
func (c *Candidate) Runs(use protocol.Range) bool {
	return c.Loaded.First == use.First && (use.First > 0 || c.Head) &&
		(c.Loaded.Last == use.Last || c.Loaded.Last > use.Last && slices.Contains(c.Exits, use.Last))
}

// Book holds the open plans.
type Book struct {
	cfg   Config
	plans map[auditmsg.AuditID]*Plan
	of    map[protocol.SessionID]*Plan
	begun []time.Time // audits of the last minute
}

// New makes an empty book.
func New(cfg Config) *Book {
	cfg.fill()
	return &Book{cfg: cfg, plans: map[auditmsg.AuditID]*Plan{}, of: map[protocol.SessionID]*Plan{}}
}

// Open is the number of open plans.
func (b *Book) Open() int { return len(b.plans) }

// Keep is how long the keepers of p keep its frames.
func (b *Book) Keep() time.Duration { return b.cfg.Keep }

// Patience is how long a ticket is good.
func (b *Book) Patience() time.Duration { return b.cfg.Patience }

// Sample decides about a new lease; nodes lists the holders of a model. It returns the plan, or nil: not
// sampled, private, or no hop that anybody could re-execute. A tail is never
// taken: what leaves it are sampled tokens, no hidden states. Neither is a hop
// whose input and output would have one keeper, or that would keep its own
// input, as at a gateway that is the head itself.
func (b *Book) Sample(now time.Time, l *protocol.Lease, name string, nodes func(protocol.ModelID) []Candidate) *Plan {
	if l.Policy != protocol.PolicyPublic || b.cfg.Share <= 0 || len(b.plans) >= b.cfg.MaxOpen || b.of[l.Session] != nil || b.cfg.Draw() >= b.cfg.Share {
		return nil
	}
	avoid := map[protocol.NodeID]bool{l.Driver: true}
	for _, h := range l.Hops {
		avoid[h.Node] = true
	}
	var hops []int
	list := nodes(l.Model)
	for i, h := range l.Hops[:len(l.Hops)-1] {
		in, out := keepers(l, i)
		if in == out || in == h.Node || out == h.Node {
			continue
		}
		if slices.ContainsFunc(list, func(c Candidate) bool { return !avoid[c.Node] && c.Build == l.EngineBuild && c.Runs(h.Use) }) {
			hops = append(hops, i)
		}
	}
	if len(hops) == 0 {
		return nil
	}
	hop := hops[b.pick(len(hops))]
	h := l.Hops[hop]
	p := &Plan{
		Audit: auditmsg.NewAuditID(), Session: l.Session, Model: l.Model, Name: name, Layers: l.Layers, Build: l.EngineBuild,
		Hop: hop, Use: h.Use, Node: h.Node, Driver: l.Driver, Rows: min(b.cfg.Rows, l.Context), Begun: now,
		avoid: avoid, since: now, tried: map[protocol.NodeID]bool{},
	}
	p.Input, p.Output = keepers(l, hop)
	if i := slices.IndexFunc(list, func(c Candidate) bool { return c.Node == h.Node }); i >= 0 {
		p.Class = list[i].Class
	}
	b.plans[p.Audit], b.of[p.Session] = p, p
	return p
}

// keepers are who sends hop's input and who receives its output.
func keepers(l *protocol.Lease, hop int) (in, out protocol.NodeID) {
	in = l.Driver
	if hop > 0 {
		in = l.Hops[hop-1].Node
	}
	return in, l.Hops[hop+1].Node
}

// pick draws a number below n.
func (b *Book) pick(n int) int { return min(int(b.cfg.Draw()*float64(n)), n-1) }

// Ended notes the end of a session. A sampled one that failed is given up, and
// its record is returned; its keepers may forget it.
func (b *Book) Ended(now time.Time, s protocol.SessionID, failed bool) (*Plan, *Record) {
	p := b.of[s]
	if p == nil || p.state != running {
		return nil, nil
	}
	if failed {
		return p, b.close(now, p, nil, protocol.Errorf(protocol.CodeCancelled, "the session failed before it was audited"))
	}
	p.state, p.since, p.notBefore = due, now, now.Add(b.cfg.Settle)
	return p, nil
}

// Next finds the plan and the node with which an audit can begin now, nil for
// none. ownerOf is "" for nodes without a known owner; nodes lists the holders
// of a model. The caller asks that node; whether it agrees comes by Ready or
// Result.
func (b *Book) Next(now time.Time, nodes func(protocol.ModelID) []Candidate, ownerOf func(protocol.NodeID) string) (*Plan, Candidate) {
	b.begun = slices.DeleteFunc(b.begun, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if len(b.begun) >= b.cfg.PerMinute {
		return nil, Candidate{}
	}
	busy := map[protocol.NodeID]bool{}
	for _, p := range b.plans {
		if p.state == asked || p.state == sending {
			busy[p.auditor] = true
		}
	}
	for _, p := range b.Plans() {
		if p.state == running && now.Sub(p.Begun) >= b.cfg.After {
			p.state, p.since = due, now
		}
		if p.state != due || now.Before(p.notBefore) {
			continue
		}
		owner := ownerOf(p.Node)
		var fit []Candidate
		for _, c := range nodes(p.Model) {
			if c.Idle && !busy[c.Node] && !p.avoid[c.Node] && !p.tried[c.Node] && c.Build == p.Build && c.Runs(p.Use) && (owner == "" || c.Owner != owner) {
				fit = append(fit, c)
			}
		}
		if len(fit) == 0 {
			if p.why == nil {
				p.why = protocol.Errorf(protocol.CodeUnavailable, "no other idle node of another owner holds layers %s", p.Use)
			}
			continue
		}
		slices.SortFunc(fit, func(a, b Candidate) int { return cmp.Compare(a.Node, b.Node) })
		c := fit[b.pick(len(fit))]
		p.state, p.since, p.auditor, p.tried[c.Node] = asked, now, c.Node, true
		b.begun = append(b.begun, now)
		return p, c
	}
	return nil, Candidate{}
}

// Plans lists the open ones, the oldest first; they must not be changed.
func (b *Book) Plans() []*Plan {
	return slices.SortedFunc(maps.Values(b.plans), func(x, y *Plan) int {
		return cmp.Or(x.Begun.Compare(y.Begun), cmp.Compare(x.Audit, y.Audit))
	})
}

// Ready notes that the asked node waits for the frames. Codes: not_found,
// forbidden for a node that was not asked.
func (b *Book) Ready(now time.Time, from protocol.NodeID, id auditmsg.AuditID) (*Plan, error) {
	p := b.plans[id]
	switch {
	case p == nil:
		return nil, protocol.Errorf(protocol.CodeNotFound, "no such audit is open")
	case p.state != asked || p.auditor != from:
		return nil, protocol.Errorf(protocol.CodeForbidden, "another node was asked for this audit")
	}
	p.state, p.since = sending, now
	return p, nil
}

// Result notes what an auditor found, or why it or a keeper failed. It returns
// the record when the audit has ended with it: a node that was asked and
// declines only makes room for the next one. Codes: invalid_request, not_found,
// forbidden.
func (b *Book) Result(now time.Time, from protocol.NodeID, r *auditmsg.AuditResult) (*Plan, *Record, error) {
	if err := r.Check(); err != nil {
		return nil, nil, err
	}
	p := b.plans[r.Audit]
	if p == nil {
		return nil, nil, protocol.Errorf(protocol.CodeNotFound, "no such audit is open")
	}
	isAuditor := from == p.auditor && (p.state == asked || p.state == sending)
	isKeeper := p.state == sending && (from == p.Input || from == p.Output)
	switch {
	case !isAuditor && (!isKeeper || r.Error == nil):
		return nil, nil, protocol.Errorf(protocol.CodeForbidden, "this node has no part in the audit")
	case r.Error == nil && p.state != sending:
		return nil, nil, protocol.Errorf(protocol.CodeForbidden, "a result before any frame was sent")
	case r.Measures != nil && r.Measures.Rows > p.Rows:
		return nil, nil, protocol.Errorf(protocol.CodeInvalidRequest, "%d rows were measured, %d were asked for", r.Measures.Rows, p.Rows)
	case r.Error != nil && p.state == asked:
		p.state, p.since, p.why = due, now, r.Error
		if r.Error.Code == protocol.CodeHostBusy || r.Error.Code == protocol.CodeRateLimited {
			delete(p.tried, from) // it may have time later
			p.notBefore = now.Add(askAgain)
		}
		return p, nil, nil
	}
	return p, b.close(now, p, r.Measures, r.Error), nil
}

// Expire ends the audits that nobody can end any more.
func (b *Book) Expire(now time.Time) []*Record {
	var out []*Record
	for _, p := range b.Plans() {
		switch {
		case p.state == asked && now.Sub(p.since) >= b.cfg.Patience:
			p.state, p.since = due, now
			p.why = protocol.Errorf(protocol.CodeTimeout, "the node that was asked did not answer within %s", b.cfg.Patience)
		case p.state == sending && now.Sub(p.since) >= b.cfg.Patience:
			out = append(out, b.close(now, p, nil, protocol.Errorf(protocol.CodeTimeout, "the auditor gave no result within %s", b.cfg.Patience)))
		case p.state != sending && now.Sub(p.Begun) >= b.cfg.Keep:
			why := p.why
			if why == nil {
				why = protocol.Errorf(protocol.CodeTimeout, "the frames were kept for %s and no audit began", b.cfg.Keep)
			}
			out = append(out, b.close(now, p, nil, why))
		}
	}
	return out
}

func (b *Book) close(now time.Time, p *Plan, m *auditmsg.AuditMeasures, e *protocol.Error) *Record {
	delete(b.plans, p.Audit)
	delete(b.of, p.Session)
	return &Record{
		Audit: p.Audit, Session: p.Session, Model: p.Model, Name: p.Name, Hop: p.Hop, Use: p.Use, Node: p.Node, Auditor: p.auditor,
		Begun: p.Begun, Ended: now, Class: p.Class, Measures: m, Error: e,
	}
}
