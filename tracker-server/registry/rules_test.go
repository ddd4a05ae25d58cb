package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/tracker-server/routing"
)

func routeOf(t *testing.T, r *Registry, now time.Time) *routing.Route {
	t.Helper()
	x, err := r.Index("test")
	if err != nil {
		return nil
	}
	return x.Find(&routing.Request{Now: now, Gateway: "gw", Context: 16})
}

// TestGhostsCarryNoRoutes: a node that falls silent, with or without its
// connection, first gets no new sessions and then is gone, from the coverage,
// the index and the links alike.
func TestGhostsCarryNoRoutes(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		r := newRegistry()
		rep := report(shardReport(modA, 4, 0, 4))
		rep.RTTMicros = map[protocol.NodeID]int64{id(9): 1000}
		r.Join(t0, node(1, 1))
		mustReport(t, r, t0, node(1, 1), rep)
		if routeOf(t, r, t0) == nil {
			t.Fatal("no route over a ready node")
		}
		if lost {
			r.Left(node(1, 1), false)
		}
		for s, want := range map[float64]bool{1: !lost, 12.5: !lost, 12.6: false, 59: false} {
			if got := routeOf(t, r, at(s)) != nil; got != want {
				t.Errorf("lost %v, %g s: route %v", lost, s, got)
			}
		}
		r.Expire(at(60))
		if len(r.models)+len(r.byID)+len(r.byName) != 0 {
			t.Errorf("lost %v: the ghost left %v", lost, r.models)
		}
		if _, ok := r.links.RTT(id(1), id(9)); ok {
			t.Error("the ghost's round trips are still there")
		}
	}
}

// TestRejoinCountsOnce: however often a node comes back, with and without its
// old connection, it is one holder, one shard of the index and one replica.
func TestRejoinCountsOnce(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	for epoch := uint64(1); epoch <= 20; epoch++ {
		if epoch%3 == 0 {
			r.Left(node(1, epoch-1), epoch%2 == 0)
		}
		if !r.Join(at(float64(epoch)), node(1, epoch)) {
			t.Fatal("the newest connection was refused")
		}
		mustReport(t, r, at(float64(epoch)), node(1, epoch), report(shardReport(modA, 4, 0, 2+int(epoch%3))))
		x, err := r.Index("test")
		if err != nil || len(x.Shards(at(float64(epoch)))) != 1 || r.models[r.shapeOf(modA).modelKey].ready != 1 || len(r.shapeOf(modA).holders) != 1 {
			t.Fatalf("epoch %d: %v, %+v", epoch, err, r.shapeOf(modA))
		}
		if got := r.Models(at(float64(epoch)))[0].Replicas[0]; got != 1 {
			t.Fatalf("epoch %d: %d replicas", epoch, got)
		}
	}
}

// TestOldEpochChangesNothing: after a newer connection with the same key, all
// that the older one still says is ignored.
func TestOldEpochChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.Join(t0, node(1, 1))
	mustReport(t, r, t0, node(1, 1), report(shardReport(modA, 4, 0, 2)))
	r.Join(at(1), node(1, 2))
	mustReport(t, r, at(1), node(1, 2), report(shardReport(modA, 4, 0, 4)))
	before := routeOf(t, r, at(2))
	if r.Join(at(2), node(1, 1)) {
		t.Error("the old connection joined again")
	}
	if err := r.Report(at(2), node(1, 1), report(shardReport(modA, 4, 0, 2))); err == nil {
		t.Error("the old connection reported")
	}
	r.Left(node(1, 1), true)
	if d := cmp.Diff(before, routeOf(t, r, at(2))); d != "" || before == nil {
		t.Errorf("the route changed: %s", d)
	}
}

// TestEqualsShareWork: of equal nodes the one that was given a session least
// lately gets the next one; with time the memory of it fades.
func TestEqualsShareWork(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	const nodes = 5
	for i := range nodes {
		r.Join(t0, node(i, 1))
		mustReport(t, r, t0, node(i, 1), report(shardReport(modA, 4, 0, 4)))
	}
	given := make(map[protocol.NodeID]int)
	for i := range 4 * nodes {
		n := routeOf(t, r, t0).Hops[0].Node
		given[n]++
		r.Given(t0, n)
		if i == nodes-1 && len(given) != nodes {
			t.Errorf("the first %d sessions went to %v", nodes, given)
		}
	}
	for n, k := range given {
		if k != 4 {
			t.Errorf("%s got %d of %d sessions", n.Short(), k, 4*nodes)
		}
	}
	// A slower node gets none of it.
	slow := shardReport(modA, 4, 0, 4)
	slow.StepMicros = 5000
	r.Join(t0, node(9, 1))
	mustReport(t, r, t0, node(9, 1), report(slow))
	if n := routeOf(t, r, t0).Hops[0].Node; n == id(9) {
		t.Error("fairness moved work to a node that is slower by far")
	}
	later := at(600)
	for i := range nodes {
		mustReport(t, r, later, node(i, 1), report(shardReport(modA, 4, 0, 4)))
	}
	if got := routeOf(t, r, later).Hops[0].Cost.Fair; got != 0 {
		t.Errorf("after ten minutes the price is still %d", got)
	}
	r.Expire(later)
	if len(r.recent) != 0 {
		t.Errorf("still remembered: %v", r.recent)
	}
}

func TestBarredNodes(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.Bar(id(1), "a proven fault") // before it is known, as after a restart
	r.Join(t0, node(1, 1))
	mustReport(t, r, t0, node(1, 1), report(shardReport(modA, 4, 0, 4)))
	x, err := r.Index("test")
	if err != nil || routeOf(t, r, t0) != nil {
		t.Fatal("a public route over a barred node", err)
	}
	own := &routing.Request{Now: t0, Context: 16, Only: map[protocol.NodeID]bool{id(1): true}}
	if x.Find(own) == nil {
		t.Error("its owner may not use it")
	}
	r.Bar(id(1), "")
	if routeOf(t, r, t0) == nil {
		t.Error("it stays barred")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.Limit(id(1), Limit{Waits: "waits"}) // before it is known, as after a restart
	r.Join(t0, node(1, 1))
	mustReport(t, r, t0, node(1, 1), report(shardReport(modA, 4, 0, 4)))
	own := &routing.Request{Now: t0, Context: 16, Only: map[protocol.NodeID]bool{id(1): true}}
	is := func(what string, public, private bool, s State) {
		t.Helper()
		x, err := r.Index("test")
		if err != nil {
			t.Fatal(err)
		}
		if (routeOf(t, r, t0) != nil) != public || (x.Find(own) != nil) != private || state(t, r, t0, id(1)) != s {
			t.Errorf("%s: public %v, private %v, %s", what, routeOf(t, r, t0) != nil, x.Find(own) != nil, state(t, r, t0, id(1)))
		}
	}
	is("waits", false, true, StateReady)
	if v := r.Nodes(t0); v[0].Barred != "waits" {
		t.Errorf("barred %q", v[0].Barred)
	}
	r.Bar(id(1), "a proven fault")
	r.Limit(id(1), Limit{})
	is("barred", false, true, StateReady)
	r.Bar(id(1), "")
	is("free", true, true, StateReady)
	r.Limit(id(1), Limit{Drained: "new disk"})
	is("drained", false, false, StateDraining)
	if v := r.Nodes(t0); v[0].Why != "new disk" {
		t.Errorf("why %q", v[0].Why)
	}
	r.Join(t0, node(1, 2)) // comes back
	mustReport(t, r, t0, node(1, 2), report(shardReport(modA, 4, 0, 4)))
	is("drained still", false, false, StateDraining)
	r.Limit(id(1), Limit{})
	is("undrained", true, true, StateReady)
	r.Limit(id(1), Limit{Waits: "waits"})
	r.Left(node(1, 2), true)
	if len(r.limits) != 0 {
		t.Errorf("limits of nodes that left are kept: %v", r.limits)
	}
}

func TestCheckRoute(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]protocol.RouteRequest{
		"nodes":    {Prompt: 5, Nodes: make([]protocol.NodeID, protocol.MaxRouteNodes+1)},
		"node":     {Prompt: 5, Nodes: []protocol.NodeID{"x"}},
		"prefixes": {Prompt: 5, Prefixes: slicesOf(protocol.Prefix{ID: "p", Tokens: 1}, protocol.MaxPrefixes+1)},
		"tokens":   {Prompt: 5, Prefixes: []protocol.Prefix{{ID: "p", Tokens: 6}}},
		"no id":    {Prompt: 5, Prefixes: []protocol.Prefix{{Tokens: 5}}},
		"control":  {Prompt: 5, Prefixes: []protocol.Prefix{{ID: "a\x00", Tokens: 5}}},
		"rtt":      {RTTMicros: map[protocol.NodeID]int64{id(1): -1}},
	} {
		if err := CheckRoute(&q); protocol.AsError(err).Code != protocol.CodeInvalidRequest && name != "node" {
			t.Errorf("%s: %v", name, err)
		} else if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	good := protocol.RouteRequest{Prompt: 5, Nodes: []protocol.NodeID{id(1)}, Prefixes: []protocol.Prefix{{ID: "p", Tokens: 5}}}
	if err := CheckRoute(&good); err != nil {
		t.Error(err)
	}
	long := report(shardReport(modA, 4, 0, 4))
	for i := range protocol.MaxPrefixes + 1 {
		long.Shards[0].Prefixes = append(long.Shards[0].Prefixes, fmt.Sprint(i))
	}
	if CheckReport(long) == nil {
		t.Error("too many prefixes in a report")
	}
}

func slicesOf[T any](v T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// TestPeersPreferNeighbours: in a large network most of the nodes to measure
// can share a route with the one that measures.
func TestPeersPreferNeighbours(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	for i := range 300 {
		m, first := modB, 0
		if i < 100 {
			m, first = modA, i%2*2
		}
		r.Join(t0, node(i, 1))
		mustReport(t, r, t0, node(i, 1), report(shardReport(m, 4, first, first+2)))
	}
	near := 0
	got := r.Peers(t0, node(0, 1), 32)
	for _, p := range got {
		for i := 1; i < 100; i += 2 {
			if p.Node == id(i) {
				near++
			}
		}
	}
	if len(got) != 32 || near < 24 {
		t.Errorf("%d of %d peers can follow", near, len(got))
	}
}
