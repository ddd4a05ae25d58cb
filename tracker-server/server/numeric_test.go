package server

import (
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
	"neuron/tracker-server/audit/numeric"
	"neuron/tracker-server/audit/numeric/desk"
)

// audited is a tracker that samples every session, a route of three nodes, and
// a fourth that can re-execute the middle.
type audited struct {
	*tracker
	head, middle, tail, extra *fake
	gateway                   *fake
}

func newAudited(t *testing.T, data string, change func(*numeric.Config)) *audited {
	t.Helper()
	c := numeric.Config{Share: 1, Settle: time.Millisecond, PerMinute: 1000}
	if change != nil {
		change(&c)
	}
	a := &audited{tracker: startWith(t, &clock{}, Options{Data: data, Audits: c})}
	a.head, a.middle, a.tail = a.node(newKey(), 6, 0, 2), a.node(newKey(), 6, 2, 4), a.node(newKey(), 6, 4, 6)
	a.ready()
	a.extra = a.join(newKey(), protocol.RoleNode)
	a.extra.report(6, 2, 4, func(s *protocol.ShardReport) { s.StepMicros = 500_000 }) // never on a route
	a.gateway = a.join(newKey(), protocol.RoleGateway)
	eventually(t, "the extra node", func() bool { m := a.core.Models(); return len(m) == 1 && m[0].Replicas[2] == 2 })
	return a
}

// session runs one to its end.
func (a *audited) run(p protocol.Phase) *protocol.Lease {
	a.t.Helper()
	l := a.gateway.route(a.tracker, 100)
	if len(l.Hops) != 3 || l.Hops[1].Node != a.middle.id() {
		a.t.Fatalf("route %+v", l.Hops)
	}
	a.gateway.telemetry(l, 1, protocol.PhaseDecode, nil)
	a.gateway.telemetry(l, 2, p, func(x *protocol.Telemetry) {
		if p == protocol.PhaseFailed {
			x.Error = protocol.Errorf(protocol.CodeHopLost, "x")
		}
	})
	return l
}

func (a *audited) ticket(s *auditmsg.SignedAuditTicket) *auditmsg.AuditTicket {
	a.t.Helper()
	x, err := s.Verify(a.Key(), a.clock.Now())
	if err != nil {
		a.t.Fatal(err)
	}
	return x
}

func (a *audited) page() *desk.Page {
	a.t.Helper()
	page, err := a.NumericAudits(a.t.Context(), time.Time{}, 10)
	if err != nil {
		a.t.Fatal(err)
	}
	return page
}

// record waits for the n-th written audit.
func (a *audited) record(n int) numeric.Record {
	a.t.Helper()
	var page *desk.Page
	eventually(a.t, "a written audit", func() bool { page = a.page(); return len(page.Audits) == n })
	return page.Audits[0]
}

// heard lists the kinds of audit messages that are waiting.
func (f *fake) heard() (kinds []protocol.MessageKind) {
	for {
		select {
		case e, ok := <-f.msgs:
			if !ok {
				return kinds
			}
			if strings.HasPrefix(string(e.Kind), "audit") {
				kinds = append(kinds, e.Kind)
			}
		default:
			return kinds
		}
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	a := newAudited(t, data, nil)
	l := a.run(protocol.PhaseDone)
	for f, side := range map[*fake]auditmsg.AuditSide{a.head: auditmsg.AuditInput, a.tail: auditmsg.AuditOutput} {
		k := expect[auditmsg.AuditKeep](f, auditmsg.MsgAuditKeep)
		if k.Session != l.Session || k.Side != side || k.Rows != 100 || k.Seconds != 600 || k.Check() != nil {
			t.Errorf("%+v", k)
		}
	}
	run := expect[auditmsg.AuditRun](a.extra, auditmsg.MsgAuditRun)
	x := a.ticket(run.Ticket)
	if x.Session != l.Session || x.Use != (protocol.Range{First: 2, Last: 4}) || x.Input != a.head.id() || x.Output != a.tail.id() ||
		x.Auditor.Node != a.extra.id() || x.Auditor.Addr != "127.0.0.1:9" || x.Rows != 100 || x.Build != testBuild {
		t.Errorf("%+v", x)
	}
	// Only the asked node may answer.
	a.middle.send(auditmsg.MsgAuditReady, auditmsg.AuditReady{Audit: x.Audit})
	a.middle.expectError(protocol.CodeForbidden)
	a.extra.send(auditmsg.MsgAuditReady, auditmsg.AuditReady{Audit: auditmsg.NewAuditID()})
	a.extra.expectError(protocol.CodeNotFound)
	a.extra.send(auditmsg.MsgAuditReady, auditmsg.AuditReady{Audit: x.Audit})
	for f, side := range map[*fake]auditmsg.AuditSide{a.head: auditmsg.AuditInput, a.tail: auditmsg.AuditOutput} {
		s := expect[auditmsg.AuditSend](f, auditmsg.MsgAuditSend)
		if y := a.ticket(s.Ticket); s.Side != side || y.Keeper(side) != f.id() || y.Auditor.Node != a.extra.id() || y.Audit != x.Audit {
			t.Errorf("%+v %+v", s, y)
		}
	}
	m := auditmsg.AuditMeasures{Basis: auditmsg.AuditContribution, Rows: 40, Max: .5, P90: .25, Median: .125, MinCosine: .9, Class: auditmsg.AuditClass{CPU: "zen4"}}
	spoilt := m
	spoilt.Median = -1
	a.extra.send(auditmsg.MsgAuditResult, auditmsg.AuditResult{Audit: x.Audit, Measures: &spoilt})
	a.extra.expectError(protocol.CodeInvalidRequest)
	a.extra.send(auditmsg.MsgAuditResult, auditmsg.AuditResult{Audit: x.Audit, Measures: &m})
	r := a.record(1)
	if r.Measures == nil || *r.Measures != m || r.Node != a.middle.id() || r.Auditor != a.extra.id() || r.Hop != 1 || r.Session != l.Session || r.Class.Llama != "b1" || r.Class.Engine != "test" {
		t.Errorf("%+v", r)
	}
	a.extra.send(auditmsg.MsgAuditResult, auditmsg.AuditResult{Audit: x.Audit, Measures: &m})
	a.extra.expectError(protocol.CodeNotFound)
	var metrics string
	a.get("/metrics", &metrics)
	for _, want := range []string{
		`neuron_tracker_audits_total{result="done"} 1`, `neuron_tracker_audit_distance_count{basis="contribution"} 1`, `neuron_tracker_audits_open 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in /metrics", want)
		}
	}
	if k := a.middle.heard(); len(k) != 0 {
		t.Errorf("the audited node learned of it: %v", k)
	}
	// Nothing followed from it, and it is there after a restart.
	if n := a.session(l.Session); n.Phase != protocol.PhaseDone {
		t.Errorf("the session is %s", n.Phase)
	}
	a.halt()
	b := start(t, data, &clock{})
	page, err := b.NumericAudits(t.Context(), time.Time{}, 10)
	if err != nil || len(page.Audits) != 1 || page.Audits[0].Audit != x.Audit || len(page.Calibration) != 1 || page.Calibration[0].Median.Max != .125 || page.Share != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// TestAuditFailures: each step may fail, and what is recorded says why.
func TestAuditFailures(t *testing.T) {
	t.Parallel()
	a := newAudited(t, t.TempDir(), func(c *numeric.Config) { c.Patience = 20 * time.Second })
	ask := func() *auditmsg.AuditTicket {
		t.Helper()
		// A session that has ended counts until the node's next report.
		a.extra.report(6, 2, 4, func(s *protocol.ShardReport) { s.StepMicros = 500_000 })
		a.run(protocol.PhaseDone)
		return a.ticket(expect[auditmsg.AuditRun](a.extra, auditmsg.MsgAuditRun).Ticket)
	}
	n := 0
	fails := func(code protocol.Code, message string) {
		t.Helper()
		n++
		if r := a.record(n); r.Error == nil || r.Error.Code != code || !strings.Contains(r.Error.Message, message) || r.Measures != nil {
			t.Errorf("%+v", r)
		}
	}
	x := ask()
	a.extra.send(auditmsg.MsgAuditReady, auditmsg.AuditReady{Audit: x.Audit})
	expect[auditmsg.AuditSend](a.tail, auditmsg.MsgAuditSend)
	a.tail.send(auditmsg.MsgAuditResult, auditmsg.AuditResult{Audit: x.Audit, Error: protocol.Errorf(protocol.CodeNotFound, "no frames are kept here")})
	fails(protocol.CodeNotFound, "no frames")

	x = ask()
	a.extra.send(auditmsg.MsgAuditReady, auditmsg.AuditReady{Audit: x.Audit})
	expect[auditmsg.AuditSend](a.tail, auditmsg.MsgAuditSend)
	a.extra.send(auditmsg.MsgAuditResult, auditmsg.AuditResult{Audit: x.Audit, Error: &protocol.Error{Code: "made_up", Message: strings.Repeat("x", 5000)}})
	fails(protocol.CodeInternal, "xxx")
	if r := a.record(n); len(r.Error.Message) > 300 {
		t.Errorf("a message of %d bytes is kept", len(r.Error.Message))
	}

	x = ask()
	a.extra.send(auditmsg.MsgAuditReady, auditmsg.AuditReady{Audit: x.Audit})
	expect[auditmsg.AuditSend](a.tail, auditmsg.MsgAuditSend)
	a.clock.Advance(21 * time.Second) // and says nothing any more
	fails(protocol.CodeTimeout, "no result")

	// The session failed: its keepers may forget it.
	for _, f := range []*fake{a.head, a.middle, a.tail, a.extra} {
		f.heard()
	}
	a.head.report(6, 0, 2, nil)
	a.middle.report(6, 2, 4, nil)
	a.tail.report(6, 4, 6, nil)
	a.extra.report(6, 2, 4, func(s *protocol.ShardReport) { s.StepMicros = 500_000 })
	a.ready()
	l := a.run(protocol.PhaseFailed)
	for _, f := range []*fake{a.head, a.tail} {
		if k := expect[auditmsg.AuditKeep](f, auditmsg.MsgAuditKeep); k.Drop {
			t.Errorf("%+v", k)
		}
		if k := expect[auditmsg.AuditKeep](f, auditmsg.MsgAuditKeep); !k.Drop || k.Session != l.Session {
			t.Errorf("%+v", k)
		}
	}
	fails(protocol.CodeCancelled, "failed")
}

// TestNoAudit: private sessions are never audited, and without a share nobody
// is.
func TestNoAudit(t *testing.T) {
	t.Parallel()
	a := newAudited(t, t.TempDir(), nil)
	a.gateway.send(protocol.MsgRoute, protocol.RouteRequest{
		Session: protocol.NewSessionID(), Model: "guide", Context: 100, Prompt: 10, Policy: protocol.PolicyPrivate,
		Nodes: []protocol.NodeID{a.head.id(), a.middle.id(), a.tail.id()},
	})
	if l := a.gateway.lease(a.tracker); l.Policy != protocol.PolicyPrivate || len(l.Hops) != 3 {
		t.Fatalf("%+v", l)
	}
	b := newAudited(t, t.TempDir(), func(c *numeric.Config) { c.Share = 0 })
	b.run(protocol.PhaseDone)
	for _, x := range []*audited{a, b} {
		if n := x.page().Open; n != 0 {
			t.Errorf("%d sessions are sampled", n)
		}
		// The answer to a message of each node shows that nothing came before it.
		for _, f := range []*fake{x.head, x.middle, x.tail} {
			f.send("dance", nil)
			for e := range f.msgs {
				if strings.HasPrefix(string(e.Kind), "audit") {
					t.Errorf("%s came", e.Kind)
				}
				if e.Kind == protocol.MsgError {
					break
				}
			}
		}
	}
}

// TestAuditMessagesHaveAPlace: a node cannot give the tracker's orders.
func TestAuditMessagesHaveAPlace(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	g := tr.join(newKey(), protocol.RoleGateway)
	for _, kind := range []protocol.MessageKind{auditmsg.MsgAuditKeep, auditmsg.MsgAuditRun, auditmsg.MsgAuditSend} {
		g.send(kind, struct{}{})
		g.expectError(protocol.CodeInvalidRequest)
	}
	g.send(auditmsg.MsgAuditReady, auditmsg.AuditReady{})
	g.expectError(protocol.CodeNotFound)
	g.send(auditmsg.MsgAuditResult, []int{1})
	g.expectError(protocol.CodeInvalidRequest)
}
