package routing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

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

// world is what a test says of one model; index makes the real thing of it.
type world struct {
	layers int
	shards []Shard
	// rtt gives the round trip of two nodes, a before b by id.
	rtt func(a, b protocol.NodeID) (int64, bool)
}

func network(n int, shards ...Shard) *world {
	return &world{layers: n, shards: shards, rtt: func(a, b protocol.NodeID) (int64, bool) { return 2000, true }}
}

func (w *world) index() *Index {
	links := NewLinks()
	x := NewIndex("m", "test", w.layers, links)
	of := make(map[protocol.NodeID][]Shard)
	ids := []protocol.NodeID{"gw", "a", "b", "c", "d", "e", "f"}
	for _, s := range w.shards {
		if !slices.Contains(ids, s.Node) {
			ids = append(ids, s.Node)
		}
		of[s.Node] = append(of[s.Node], s)
	}
	for i, a := range ids {
		claims := make(map[protocol.NodeID]int64)
		for _, b := range ids[:i] {
			if us, ok := w.rtt(min(a, b), max(a, b)); ok {
				claims[b] = us
			}
		}
		links.Set(a, claims)
		x.Put(a, of[a])
	}
	return x
}

func find(w *world, r Request) (*Route, error) {
	x := w.index()
	if route := x.Find(&r); route != nil {
		return route, nil
	}
	return nil, x.Refusal(&r)
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
		net     *world
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
		{name: "too long", net: network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.MaxContext = 2048 })), context: 2049, code: protocol.CodeContextExceeded},
		{name: "context 0", net: network(4, shard("a", 4, 0, 4)), context: -1, code: protocol.CodeInvalidRequest},
		{name: "a shard with a shorter context is no use", net: network(4, with(shard("a", 4, 0, 2), func(s *Shard) { s.MaxContext = 700 }), shard("b", 4, 2, 4)), context: 1024,
			code: protocol.CodeContextExceeded, text: "contexts of at most 700 tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.context == 0 {
				c.context = 64
			}
			r, err := find(c.net, Request{Gateway: "gw", Context: c.context})
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
	r, err := find(n, Request{Gateway: "gw", Context: 1024, Prompt: 512, RTT: map[protocol.NodeID]int64{"a": 3001, "b": 5000}})
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
func brute(w *world, r Request, ru rules) *Route {
	q := query{Request: &r, rules: ru, cells: nextPow2(r.Context)}
	between := func(a, b protocol.NodeID) int64 {
		if us, ok := w.rtt(min(a, b), max(a, b)); ok {
			return ceilDiv(us, 2)
		}
		return DefaultRTT / 2
	}
	gateway := func(a protocol.NodeID) int64 {
		if a == r.Gateway {
			return 0
		}
		if us, ok := r.RTT[a]; ok {
			return ceilDiv(us, 2)
		}
		return between(a, r.Gateway)
	}
	var best *Route
	var walk func(hops []Hop, build protocol.Build, at int, total int64)
	walk = func(hops []Hop, build protocol.Build, at int, total int64) {
		if at == w.layers {
			back := gateway(hops[len(hops)-1].Node)
			done := &Route{Model: "m", Name: "test", Layers: w.layers, Build: build, Hops: slices.Clone(hops), ReturnMicros: back, TotalMicros: total + back,
				StepMicros: total + back, Cells: q.cells, Headroom: ru.headroom}
			for _, h := range hops {
				done.StepMicros -= h.Cost.Prefill + h.Cost.Cache
			}
			if best == nil || before(done, best) {
				best = done
			}
			return
		}
		for i := range w.shards {
			s := &w.shards[i]
			if s.Loaded.First != at || at == 0 && !s.Head || q.refuses(s) != "" || len(hops) > 0 && build != s.Build ||
				slices.ContainsFunc(hops, func(h Hop) bool { return h.Node == s.Node }) {
				continue
			}
			for e := at + 1; e <= s.Loaded.Last; e++ {
				if e != s.Loaded.Last && !slices.Contains(s.Exits, e) || e == w.layers && !s.Tail ||
					s.WholeOnly && (at != 0 || e != w.layers || s.Loaded.Last != w.layers) {
					continue
				}
				c := stageCost(s, e-at)
				all, saved := r.prefill(s, chunkCost(s, e-at))
				c.Prefill, c.Cache, c.Link = all, -saved, gateway(s.Node)
				if len(hops) > 0 {
					c.Link = between(hops[len(hops)-1].Node, s.Node)
				}
				walk(append(slices.Clone(hops), Hop{Node: s.Node, Addr: s.Addr, Use: protocol.Range{First: at, Last: e}, Loaded: s.Loaded,
					KVBytes: kvBytes(s, q.cells), Measured: s.StepMicros > 0, Cost: c}), s.Build, e, total+c.Sum())
			}
		}
	}
	walk(nil, protocol.Build{}, 0, 0)
	return best
}

// before is the order of routes, in other words than the search's.
func before(a, b *Route) bool {
	if a.TotalMicros != b.TotalMicros {
		return a.TotalMicros < b.TotalMicros
	}
	if len(a.Hops) != len(b.Hops) {
		return len(a.Hops) < len(b.Hops)
	}
	for i := range a.Hops {
		x, y := &a.Hops[i], &b.Hops[i]
		switch {
		case x.Node != y.Node:
			return x.Node < y.Node
		case x.Use.Last != y.Use.Last:
			return x.Use.Last > y.Use.Last
		case x.Loaded.Last != y.Loaded.Last:
			return x.Loaded.Last < y.Loaded.Last
		case a.Build != b.Build:
			return a.Build.Llama < b.Build.Llama
		}
	}
	return false
}

func randomNetwork(rnd *rand.Rand) (*world, Request) {
	layers := 1 + rnd.IntN(7)
	n := network(layers)
	nodes := 1 + rnd.IntN(6)
	id := func(i int) protocol.NodeID { return protocol.NodeID(rune('a' + i)) }
	taken := make(map[string]bool)
	for range 1 + rnd.IntN(9) {
		first := rnd.IntN(layers)
		last := first + 1 + rnd.IntN(layers-first)
		s := shard(string(id(rnd.IntN(nodes))), layers, first, last)
		// A second shard of the same layers on one node would be a tie that
		// nothing breaks.
		if key := string(s.Node) + s.Loaded.String(); taken[key] {
			continue
		} else {
			taken[key] = true
		}
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
		s.Recent = rnd.IntN(3)
		s.Relayed = rnd.IntN(10) == 0
		s.DiskPressure = int64(rnd.IntN(3)) * 500
		if rnd.IntN(8) == 0 {
			s.Build.Llama = "b2"
		}
		if rnd.IntN(10) == 0 {
			s.Blocked = "draining"
		}
		if rnd.IntN(10) == 0 {
			s.Until = time.Unix(int64(rnd.IntN(3)), 0)
		}
		if rnd.IntN(10) == 0 {
			s.Barred = "banned"
		}
		if rnd.IntN(4) == 0 {
			s.Cached = []string{"p"}
		}
		n.shards = append(n.shards, s)
	}
	links := make(map[[2]protocol.NodeID]int64)
	for i := range nodes {
		for k := range i {
			if rnd.IntN(4) > 0 {
				us := int64(rnd.IntN(5)) * 1000
				if rnd.IntN(4) == 0 {
					us = 70_000 // worse than not measured
				}
				links[[2]protocol.NodeID{id(k), id(i)}] = us
			}
		}
	}
	n.rtt = func(a, b protocol.NodeID) (int64, bool) { us, ok := links[[2]protocol.NodeID{a, b}]; return us, ok }
	r := Request{Now: time.Unix(1, 0), Gateway: "gw", Context: 1 + rnd.IntN(200), RTT: map[protocol.NodeID]int64{id(0): 1000}}
	if rnd.IntN(3) == 0 {
		r.Gateway = id(rnd.IntN(nodes))
	}
	if rnd.IntN(2) == 0 {
		r.Prompt = rnd.IntN(r.Context + 1)
		r.Prefixes = []protocol.Prefix{{ID: "p", Tokens: r.Prompt / 2}}
	}
	if rnd.IntN(4) == 0 {
		r.Only = make(map[protocol.NodeID]bool)
		for i := range nodes {
			if rnd.IntN(4) > 0 {
				r.Only[id(i)] = true
			}
		}
	}
	return n, r
}

// TestFindMatchesBruteForce compares the search with an exhaustive one, for
// the best route, its cost and its existence, and checks that neither the
// order of the shards nor the history of the index matters.
func TestFindMatchesBruteForce(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	found := 0
	for i := range 6000 {
		n, r := randomNetwork(rnd)
		x := n.index()
		for _, ru := range []rules{{headroom: true}, {}, {anyKV: true, anySessions: true}, roomy} {
			got, want := x.route(&r, ru, nil), brute(n, r, ru)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("case %d %+v: %s\n%+v", i, ru, d, n.shards)
			}
			if got != nil {
				found++
			}
		}
		if got, want := x.Connected(r.Now), brute(n, Request{Now: r.Now, Context: 1}, roomy) != nil; got != want {
			t.Fatalf("case %d: connected %v, want %v", i, got, want)
		}
		a := x.Find(&r)
		rnd.Shuffle(len(n.shards), func(i, k int) { n.shards[i], n.shards[k] = n.shards[k], n.shards[i] })
		y := n.index()
		for range 4 { // come and go, change and change back
			s := n.shards[rnd.IntN(len(n.shards))]
			var own []Shard
			for _, o := range n.shards {
				if o.Node == s.Node {
					own = append(own, o)
				}
			}
			s.StepMicros += 500
			s.Loaded.First = 0
			y.Put(s.Node, []Shard{s})
			y.Put(s.Node, nil)
			y.Put(s.Node, own)
		}
		if d := cmp.Diff(a, y.Find(&r)); d != "" {
			t.Fatalf("case %d depends on the history: %s", i, d)
		}
		if d := cmp.Diff(a, y.Clone(r.Gateway).Find(&r)); d != "" {
			t.Fatalf("case %d: a clone answers otherwise: %s", i, d)
		}
		if a == nil {
			if err := x.Refusal(&r); err == nil {
				t.Fatalf("case %d: no reason", i)
			}
			continue
		}
		e, err := y.Explain(&r)
		if err != nil {
			t.Fatal(err)
		}
		if next := secondBest(n, r, rules{headroom: a.Headroom}, a); (next == nil) != (e.Next == nil) || next != nil && next.TotalMicros != e.Next.TotalMicros {
			t.Fatalf("case %d: next best %+v, want %+v", i, e.Next, next)
		}
		if d := cmp.Diff(a, e.Route); d != "" {
			t.Fatalf("case %d: explained another route: %s", i, d)
		}
	}
	if found < 2000 {
		t.Errorf("only %d routes in all cases", found)
	}
}

// secondBest is the best route that lacks one of a's shards.
func secondBest(w *world, r Request, ru rules, a *Route) (best *Route) {
	for _, h := range a.Hops {
		less := *w
		less.shards = slices.DeleteFunc(slices.Clone(w.shards), func(s Shard) bool { return s.Node == h.Node && s.Loaded == h.Loaded })
		if n := brute(&less, r, ru); n != nil && (best == nil || n.TotalMicros < best.TotalMicros) {
			best = n
		}
	}
	return best
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
			n.shards = append(n.shards, s)
		}
		if all, got := !slices.Contains(covered, false), n.index().Connected(time.Time{}); all != got {
			t.Fatalf("case %d: covered %v, connected %v: %+v", i, covered, got, n.shards)
		}
	}
}
