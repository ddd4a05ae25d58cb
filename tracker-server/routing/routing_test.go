package routing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
)

var testBuild = protocol.Build{Protocol: 1, Llama: "b1"}

// shard makes a measured shard of a model with n layers: 1 ms per layer, KV
// for a million bytes per layer at 1 byte per cell.
func shard(node string, n, first, last int, exits ...int) Shard {
	return Shard{
		Node: protocol.NodeID(node), Addr: node + ":1", Loaded: protocol.Range{First: first, Last: last}, Exits: exits,
		Head: first == 0, Tail: last == n, Build: testBuild, StepMicros: int64(1000 * (last - first)),
		FreeKV: 1_000_000 * int64(last-first), KVPerCell: int64(last - first), MaxContext: 131072, MaxSessions: 8, ChunkRows: 256,
	}
}

func network(n int, shards ...Shard) *Network {
	return &Network{Model: "m", Name: "test", Layers: n, MaxContext: 131072, Shards: shards,
		RTT: func(a, b protocol.NodeID) (int64, bool) { return 2000, true }}
}

func path(r *Route) string {
	var out []string
	for _, h := range r.Hops {
		out = append(out, fmt.Sprintf("%s:%s", h.Node, h.Use))
	}
	return strings.Join(out, " ")
}

func with(s Shard, f func(*Shard)) Shard { f(&s); return s }

func TestFind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		net     *Network
		context int
		want    string
		code    protocol.Code
		text    string
	}{
		{name: "one node", net: network(4, shard("a", 4, 0, 4)), want: "a:0-4"},
		{name: "chain", net: network(6, shard("b", 6, 3, 6), shard("a", 6, 0, 3)), want: "a:0-3 b:3-6"},
		{name: "early exit", net: network(6, shard("a", 6, 0, 4, 1, 2, 3), shard("b", 6, 3, 6)), want: "a:0-3 b:3-6"},
		{name: "no exit there", net: network(6, shard("a", 6, 0, 4, 2), shard("b", 6, 3, 6)), code: protocol.CodeNoRoute, text: "legal cuts"},
		{name: "fewest hops", net: network(4, shard("b", 4, 0, 4), shard("a", 4, 0, 2), shard("c", 4, 2, 4)), want: "b:0-4"},
		{name: "node id breaks ties", net: network(4, shard("z", 4, 0, 4), shard("b", 4, 0, 4), shard("c", 4, 0, 4)), want: "b:0-4"},
		{name: "fast pair beats slow one", net: network(4,
			with(shard("a", 4, 0, 4), func(s *Shard) { s.StepMicros = 40_000 }), shard("b", 4, 0, 2), shard("c", 4, 2, 4)), want: "b:0-2 c:2-4"},
		{name: "unmeasured is dear", net: network(4,
			with(shard("a", 4, 0, 4), func(s *Shard) { s.StepMicros = 0 }), shard("b", 4, 0, 2), shard("c", 4, 2, 4)), want: "b:0-2 c:2-4"},
		{name: "pressure", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.Pressure = 900 }), shard("b", 4, 0, 4)), want: "b:0-4"},
		{name: "busy", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.Sessions = 3 }), shard("b", 4, 0, 4)), want: "b:0-4"},
		{name: "queue", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.Queue = 3 }), shard("b", 4, 0, 4)), want: "b:0-4"},
		{name: "full", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.Sessions = 8 })), code: protocol.CodeNoRoute, text: "session limit"},
		{name: "missing", net: network(6, shard("a", 6, 0, 2), shard("b", 6, 4, 6)), code: protocol.CodeNoRoute, text: "layers 2-4 of 6"},
		{name: "draining", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.Blocked = "draining" })), code: protocol.CodeNoRoute, text: "draining"},
		{name: "builds never mix", net: network(4, shard("a", 4, 0, 2), with(shard("b", 4, 2, 4), func(s *Shard) { s.Build.Llama = "b2" })),
			code: protocol.CodeNoRoute, text: "one build"},
		{name: "head must take tokens", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.Head = false })), code: protocol.CodeNoRoute},
		{name: "tail must sample", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.Tail = false })), code: protocol.CodeNoRoute},
		{name: "whole only, whole", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.WholeOnly = true })), want: "a:0-4"},
		{name: "whole only, part", net: network(4, with(shard("a", 4, 0, 2), func(s *Shard) { s.WholeOnly = true }), shard("b", 4, 2, 4)), code: protocol.CodeNoRoute},
		{name: "distinct nodes", net: network(6, shard("a", 6, 0, 2), shard("b", 6, 2, 4), shard("a", 6, 4, 6)), code: protocol.CodeNoRoute},
		{name: "detour around a node with two shards", net: network(6, shard("a", 6, 0, 2),
			with(shard("b", 6, 0, 2), func(s *Shard) { s.StepMicros = 90_000 }), shard("c", 6, 2, 4), shard("a", 6, 4, 6)), want: "b:0-2 c:2-4 a:4-6"},
		{name: "kv", net: network(4, shard("a", 4, 0, 4)), context: 131072, want: "a:0-4"},
		{name: "kv counts powers of two", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.FreeKV = 4 * 1500 })), context: 1025,
			code: protocol.CodeKVBudget, text: "context of 1024"},
		{name: "kv headroom kept when another fits", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.FreeKV = 4 * 1024 }),
			with(shard("b", 4, 0, 4), func(s *Shard) { s.StepMicros *= 2 })), context: 1024, want: "b:0-4"},
		{name: "kv headroom used when nothing else fits", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.FreeKV = 4 * 1024 })), context: 1024, want: "a:0-4"},
		{name: "kv of all loaded layers, also with an early exit", net: network(4, with(shard("a", 4, 0, 4, 1), func(s *Shard) { s.FreeKV = 2 * 1024; s.Tail = false }),
			shard("b", 4, 1, 4)), context: 1024, code: protocol.CodeKVBudget, text: "context of 512"},
		{name: "kv promised away", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.FreeKV = -5 })), context: 1, code: protocol.CodeKVBudget, text: "no KV memory left"},
		{name: "too long", net: func() *Network { n := network(4, shard("a", 4, 0, 4)); n.MaxContext = 2048; return n }(), context: 2049, code: protocol.CodeContextExceeded},
		{name: "context 0", net: network(4, shard("a", 4, 0, 4)), context: -1, code: protocol.CodeInvalidRequest},
		{name: "a shard with a shorter context is no use", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.MaxContext = 512 })), context: 1024,
			code: protocol.CodeNoRoute, text: "context too short"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.context == 0 {
				c.context = 64
			}
			r, err := Find(c.net, Request{Gateway: "gw", Context: c.context})
			if c.code != "" {
				if !errors.Is(err, &protocol.Error{Code: c.code}) || !strings.Contains(err.Error(), c.text) {
					t.Fatalf("got %v, want %s with %q", err, c.code, c.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := path(r); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestCostAddsUp(t *testing.T) {
	t.Parallel()
	n := network(6, with(shard("a", 6, 0, 4, 3), func(s *Shard) { s.Sessions, s.Pressure, s.ChunkMicros = 1, 500, 80_000 }), shard("b", 6, 3, 6))
	r, err := Find(n, Request{Gateway: "gw", Context: 1024, Prompt: 512, RTT: map[protocol.NodeID]int64{"a": 3001, "b": 5000}})
	if err != nil {
		t.Fatal(err)
	}
	sum, prefill := r.ReturnMicros, int64(0)
	for _, h := range r.Hops {
		sum += h.Cost.Sum()
		prefill += h.Cost.Prefill
	}
	if sum != r.TotalMicros || r.StepMicros != sum-prefill || prefill == 0 {
		t.Errorf("parts %d, prefill %d, route %+v", sum, prefill, r)
	}
	want := Cost{Stage: 3000, Link: 1501, Overhead: 500, Load: 1500, Memory: 3500, Prefill: 60_000 * 2 / 512}
	if d := cmp.Diff(want, r.Hops[0].Cost); d != "" {
		t.Error(d)
	}
	if r.ReturnMicros != 2500 || r.Hops[1].Cost.Link != 1000 {
		t.Errorf("links: %+v", r)
	}
}

// brute finds the best route by trying all of them.
func brute(n *Network, r Request, ru rules) *label {
	var best *label
	cells := nextPow2(r.Context)
	var walk func(l *label, at int, total int64)
	walk = func(l *label, at int, total int64) {
		if at == n.Layers {
			done := *l
			done.total = total + n.gatewayLink(r, l.shard.Node)
			if best == nil || compare(&done, best) < 0 {
				best = &done
			}
			return
		}
		for i := range n.Shards {
			s := &n.Shards[i]
			if s.Loaded.First != at || !s.usable(n, r, ru) || l.visits(s.Node) || l != nil && l.shard.Build != s.Build {
				continue
			}
			for e := at + 1; e <= s.Loaded.Last; e++ {
				if e != s.Loaded.Last && !slices.Contains(s.Exits, e) || e == n.Layers && !s.Tail || !s.fits(cells, ru) ||
					s.WholeOnly && (at != 0 || e != n.Layers || s.Loaded.Last != n.Layers) {
					continue
				}
				next := &label{shard: s, end: e, cost: stageCost(s, e-at, r), hops: 1, prev: l}
				if l == nil {
					next.cost.Link = n.gatewayLink(r, s.Node)
				} else {
					next.hops = l.hops + 1
					next.cost.Link = n.between(l.shard.Node, s.Node)
				}
				walk(next, e, total+next.cost.Sum())
			}
		}
	}
	walk(nil, 0, 0)
	return best
}

func randomNetwork(rnd *rand.Rand) (*Network, Request) {
	layers := 1 + rnd.IntN(7)
	n := network(layers)
	nodes := 1 + rnd.IntN(6)
	id := func(i int) protocol.NodeID { return protocol.NodeID(rune('a' + i)) }
	for range 1 + rnd.IntN(9) {
		first := rnd.IntN(layers)
		last := first + 1 + rnd.IntN(layers-first)
		s := shard(string(id(rnd.IntN(nodes))), layers, first, last)
		for e := first + 1; e < last; e++ {
			if rnd.IntN(3) > 0 {
				s.Exits = append(s.Exits, e)
			}
		}
		s.StepMicros = int64(rnd.IntN(4)) * 1000
		s.Sessions = rnd.IntN(3)
		s.MaxSessions = 1 + rnd.IntN(4)
		s.FreeKV = int64(rnd.IntN(4)) * 100 * int64(last-first)
		s.WholeOnly = rnd.IntN(20) == 0
		if rnd.IntN(8) == 0 {
			s.Build.Llama = "b2"
		}
		if rnd.IntN(10) == 0 {
			s.Blocked = "draining"
		}
		n.Shards = append(n.Shards, s)
	}
	links := make(map[[2]protocol.NodeID]int64)
	for i := range nodes {
		for k := range i {
			if rnd.IntN(4) > 0 {
				us := int64(rnd.IntN(5)) * 1000
				links[[2]protocol.NodeID{id(i), id(k)}], links[[2]protocol.NodeID{id(k), id(i)}] = us, us
			}
		}
	}
	n.RTT = func(a, b protocol.NodeID) (int64, bool) { us, ok := links[[2]protocol.NodeID{a, b}]; return us, ok }
	r := Request{Gateway: "gw", Context: 1 + rnd.IntN(200), RTT: map[protocol.NodeID]int64{id(0): 1000}}
	if rnd.IntN(3) == 0 {
		r.Gateway = id(rnd.IntN(nodes))
	}
	return n, r
}

// TestFindMatchesBruteForce compares the search with an exhaustive one, for
// the best route, its cost and its existence, and checks that the order of
// the shards does not matter.
func TestFindMatchesBruteForce(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	found := 0
	for i := range 6000 {
		n, r := randomNetwork(rnd)
		for _, ru := range []rules{{headroom: true}, {}, {anyKV: true, anySessions: true}} {
			got, want := search(n, r, ru), brute(n, r, ru)
			if (got == nil) != (want == nil) {
				t.Fatalf("case %d %+v: search %v, brute force %v\n%+v", i, ru, got, want, n.Shards)
			}
			if got == nil {
				continue
			}
			found++
			if d := cmp.Diff(want.route(n, r, ru, nextPow2(r.Context)), got); d != "" {
				t.Fatalf("case %d %+v: %s", i, ru, d)
			}
		}
		a, errA := Find(n, r)
		rnd.Shuffle(len(n.Shards), func(i, k int) { n.Shards[i], n.Shards[k] = n.Shards[k], n.Shards[i] })
		b, errB := Find(n, r)
		if d := cmp.Diff(a, b); d != "" || (errA == nil) != (errB == nil) {
			t.Fatalf("case %d depends on the order: %s %v %v", i, d, errA, errB)
		}
	}
	if found < 2000 {
		t.Errorf("only %d routes in all cases", found)
	}
}

// TestCoverageGivesRoute: when every shard may stop anywhere and each node has
// one shard, a model is routable exactly when all layers are covered.
func TestCoverageGivesRoute(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		layers := 1 + rnd.IntN(24)
		n := network(layers)
		covered := make([]bool, layers)
		for k := range 1 + rnd.IntN(10) {
			first := rnd.IntN(layers)
			last := first + 1 + rnd.IntN(layers-first)
			s := shard(fmt.Sprintf("n%02d", k), layers, first, last)
			for e := first + 1; e < last; e++ {
				s.Exits = append(s.Exits, e)
			}
			for l := first; l < last; l++ {
				covered[l] = true
			}
			n.Shards = append(n.Shards, s)
		}
		if all := !slices.Contains(covered, false); all != Connected(n) {
			t.Fatalf("case %d: covered %v, connected %v: %+v", i, covered, Connected(n), n.Shards)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	rnd := rand.New(rand.NewPCG(5, 6))
	n := network(80)
	for k := range 1000 {
		first := rnd.IntN(8) * 10
		s := shard(fmt.Sprintf("n%04d", k), 80, first, min(80, first+10+rnd.IntN(3)*10))
		for e := first + 1; e < s.Loaded.Last; e++ {
			s.Exits = append(s.Exits, e)
		}
		n.Shards = append(n.Shards, s)
	}
	for b.Loop() {
		if _, err := Find(n, Request{Gateway: "gw", Context: 4096}); err != nil {
			b.Fatal(err)
		}
	}
}
