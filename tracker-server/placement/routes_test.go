package placement_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"neuron/engine/protocol"
	"neuron/tracker-server/placement"
)

// flow counts node-disjoint routes by the definition: augmenting paths over
// boundaries and nodes, each node once, from the start of its range to every
// boundary up to its end. It shares nothing with the code under test.
func flow(layers int, ranges []protocol.Range) int {
	// Points: boundaries 0..layers, then an in and an out point per node.
	n := layers + 1 + 2*len(ranges)
	capacity := make([]map[int]int, n)
	for i := range capacity {
		capacity[i] = map[int]int{}
	}
	for i, r := range ranges {
		in, out := layers+1+2*i, layers+2+2*i
		capacity[r.First][in] = 1
		capacity[in][out] = 1
		for e := r.First + 1; e <= r.Last; e++ {
			capacity[out][e] = 1
		}
	}
	total := 0
	for {
		from := slices.Repeat([]int{-1}, n)
		queue := []int{0}
		from[0] = 0
		for len(queue) > 0 && from[layers] < 0 {
			u := queue[0]
			queue = queue[1:]
			for v, c := range capacity[u] {
				if c > 0 && from[v] < 0 {
					from[v] = u
					queue = append(queue, v)
				}
			}
		}
		if from[layers] < 0 {
			return total
		}
		for v := layers; v != 0; v = from[v] {
			capacity[from[v]][v]--
			capacity[v][from[v]]++
		}
		total++
	}
}

func TestRoutesAgainstMaxFlow(t *testing.T) {
	t.Parallel()
	some := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		layers := 1 + rng.IntN(12)
		m := placement.New(placement.Config{})
		set(t, m, plain(1, layers, mb), 1)
		var ranges []protocol.Range
		before := 0
		for i := range 1 + rng.IntN(30) {
			a := rng.IntN(layers)
			r := protocol.Range{First: a, Last: a + 1 + rng.IntN(layers-a)}
			ranges = append(ranges, r)
			m.Put(holds(i, modelID(1), r.First, r.Last))
			v := view(t, m, modelID(1))
			if v.Routes < before {
				t.Fatalf("seed %d: a node more, and %d routes became %d", seed, before, v.Routes)
			}
			before = v.Routes
		}
		v := view(t, m, modelID(1))
		want := flow(layers, ranges)
		routes, err := m.Routes(modelID(1))
		if err != nil || v.Routes != want || len(routes) != want || slices.Min(v.Ready) != want {
			t.Fatalf("seed %d: %d nodes on %d layers: max flow %d, %d routes, %d listed, coverage %v, %v", seed, len(ranges), layers, want, v.Routes, len(routes), v.Ready, err)
		}
		some += want
		checkRoutes(t, layers, routes, func(id protocol.NodeID) protocol.Range { return m.Held(id)[0].Range })
	}
	if some < 100 {
		t.Errorf("only %d routes in all cases", some)
	}
}

// checkRoutes: routes of distinct nodes, each covering all layers once, each
// use being the front part of what the node holds.
func checkRoutes(t *testing.T, layers int, routes [][]placement.Use, held func(protocol.NodeID) protocol.Range) {
	t.Helper()
	seen := make(map[protocol.NodeID]bool)
	for _, route := range routes {
		at := 0
		for _, u := range route {
			if h := held(u.Node); seen[u.Node] || u.Use.First != at || u.Use.First != h.First || u.Use.Last > h.Last || u.Use.Len() < 1 {
				t.Fatalf("hop %+v at layer %d, the node holds %v, seen before: %v", u, at, h, seen[u.Node])
			}
			seen[u.Node] = true
			at = u.Use.Last
		}
		if at != layers {
			t.Fatalf("a route ends at layer %d of %d", at, layers)
		}
	}
}

func TestWeightedRoutesAgainstMaxFlow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 4))
		layers := 1 + rng.IntN(8)
		m := placement.New(placement.Config{})
		set(t, m, plain(1, layers, mb), 1)
		// A node of weight w is w copies of one of a sixteenth: the flow with
		// capacities is the flow with copies.
		var copies []protocol.Range
		for i := range 1 + rng.IntN(8) {
			a := rng.IntN(layers)
			n := holds(i, modelID(1), a, a+1+rng.IntN(layers-a))
			sixteenths := 2 + rng.IntN(8)
			n.Speed = int64(sixteenths) * 20 * gb / 16
			m.Put(n)
			copies = append(copies, slices.Repeat([]protocol.Range{n.Shards[0].Range}, sixteenths)...)
		}
		if v, want := view(t, m, modelID(1)), float64(flow(layers, copies))/16; v.Weighted != want {
			t.Fatalf("seed %d: %g weighted routes, max flow %g", seed, v.Weighted, want)
		}
	}
}
