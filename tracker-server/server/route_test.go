package server

import (
	"net/http"
	"strings"
	"testing"

	"neuron/engine/protocol"
	"neuron/tracker-server/routing"
)

// TestPrivateRoute: a private route uses listed nodes only, however slow they
// are, and is refused in words when they are not enough.
func TestPrivateRoute(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	fast, slow, half := tr.node(newKey(), 4, 0, 4), tr.join(newKey(), protocol.RoleNode), tr.node(newKey(), 4, 0, 2)
	slow.report(4, 0, 4, func(s *protocol.ShardReport) { s.StepMicros = 90_000 })
	g := tr.join(newKey(), protocol.RoleGateway)
	eventually(t, "all nodes", func() bool { m := tr.core.Models(); return len(m) == 1 && m[0].Replicas[0] == 3 })
	ask := func(policy string, nodes ...protocol.NodeID) {
		g.send(protocol.MsgRoute, protocol.RouteRequest{Session: protocol.NewSessionID(), Model: "guide", Context: 100, Prompt: 10, Policy: policy, Nodes: nodes})
	}
	ask("public")
	if l := g.lease(tr); l.Hops[0].Node != fast.id() || l.Policy != "public" {
		t.Errorf("public: %+v", l)
	}
	ask("private", slow.id(), half.id())
	if l := g.lease(tr); len(l.Hops) != 1 || l.Hops[0].Node != slow.id() || l.Policy != "private" {
		t.Errorf("private: %+v", l)
	}
	ask("private", half.id())
	if e := g.expectError(protocol.CodeNoRoute); e.Detail["reason"] != "policy" || !strings.Contains(e.Message, "listed nodes only") {
		t.Errorf("refusal %+v", e)
	}
	ask("private")
	g.expectError(protocol.CodeForbidden)
	ask("public", slow.id())
	g.expectError(protocol.CodeInvalidRequest)
	ask("private", "somebody")
	g.expectError(protocol.CodeInvalidRequest)

	var e routing.Explanation
	if st := tr.get("/v1/routes/explain?model=guide&context=100&node="+string(slow.id()), &e); st != http.StatusOK || e.Hops[0].Node != slow.id() || e.Out != 2 {
		t.Errorf("explain: %d %+v", st, e)
	}
	if st := tr.get("/v1/routes/explain?model=guide&node=x", nil); st != http.StatusBadRequest {
		t.Errorf("explain with a bad node: %d", st)
	}
}

func (f *fake) lease(tr *tracker) *protocol.Lease {
	f.t.Helper()
	r := expect[protocol.RouteReply](f, protocol.MsgLease)
	l, err := r.Lease.Verify(tr.Key(), tr.clock.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

// TestExplain: why this route, what the next best would cost, who was left out.
func TestExplain(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	best, next, small, off := tr.node(newKey(), 4, 0, 4), tr.join(newKey(), protocol.RoleNode), tr.join(newKey(), protocol.RoleNode), tr.join(newKey(), protocol.RoleNode)
	next.report(4, 0, 4, func(s *protocol.ShardReport) { s.StepMicros = 4000 })
	small.report(4, 0, 4, func(s *protocol.ShardReport) { s.FreeKVBytes = 300 * 256 })
	off.report(4, 0, 4, func(s *protocol.ShardReport) { s.State = protocol.ShardDraining })
	eventually(t, "all nodes", func() bool {
		n := tr.core.Nodes()
		return len(n) == 4 && len(n[0].Shards)+len(n[1].Shards)+len(n[2].Shards)+len(n[3].Shards) == 4
	})
	var e routing.Explanation
	if st := tr.get("/v1/routes/explain?model=guide&context=1000&prompt=100", &e); st != http.StatusOK {
		t.Fatal("status", st)
	}
	if e.Hops[0].Node != best.id() || e.Next == nil || e.Next.Hops[0].Node != next.id() || e.NextMicros != e.Next.TotalMicros-e.TotalMicros || !strings.Contains(e.Why, "stage time 3.0 ms") {
		t.Errorf("explained: %+v next %+v", e, e.Next)
	}
	left := map[protocol.NodeID]routing.LeftOut{}
	for _, l := range e.LeftOut {
		left[l.Node] = l
	}
	if l := left[small.id()]; e.Out != 2 || l.Reason != "kv" || l.Fits == nil || *l.Fits != 256 {
		t.Errorf("too small: %+v", l)
	}
	if l := left[off.id()]; l.Reason != "state" || l.Text != "draining" {
		t.Errorf("draining: %+v", l)
	}
	// A live session keeps what its route was chosen by; the page shows it.
	g := tr.join(newKey(), protocol.RoleGateway)
	l := g.route(tr, 1000)
	g.telemetry(l, 1, protocol.PhaseDecode, nil)
	s := tr.waitPhase(l.Session, protocol.PhaseDecode)
	if s.Route == nil || s.Route.Hops[0].Cost.Stage != 1000 {
		t.Errorf("session: %+v", s.Route)
	}
	var page string
	if tr.get("/", &page); !strings.Contains(page, "Why this route") || !strings.Contains(page, "stage time 1.0 ms") {
		t.Error("the page does not say why")
	}
	g.telemetry(l, 2, protocol.PhaseDone, func(t *protocol.Telemetry) { t.Finish = protocol.FinishStop })
	if s := tr.waitPhase(l.Session, protocol.PhaseDone); s.Route != nil {
		t.Error("an ended session still has its costs in memory")
	}
}
