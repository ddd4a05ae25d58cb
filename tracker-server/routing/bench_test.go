package routing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"neuron/engine/protocol"
)

// heavyWorld is a model of 80 layers on so many nodes. With grid the ranges
// start at every tenth layer, as placement makes them, else anywhere. Each
// node has measured its way to 64 others.
func heavyWorld(rnd *rand.Rand, nodes int, grid bool) (*Index, []protocol.NodeID) {
	const layers = 80
	links := NewLinks()
	x := NewIndex("m", "heavy", layers, links)
	ids := make([]protocol.NodeID, nodes)
	for k := range ids {
		ids[k] = protocol.NodeID(fmt.Sprintf("node-with-an-id-as-long-as-real-ones-have-it-%05d", k))
	}
	for k, id := range ids {
		first := rnd.IntN(8) * 10
		last := min(layers, first+10+rnd.IntN(3)*10)
		if !grid {
			first = max(0, rnd.IntN(layers+10)-10)
			last = min(layers, first+5+rnd.IntN(30))
		}
		s := shard(string(id), layers, first, last)
		for e := first + 1; e < last; e++ {
			s.Exits = append(s.Exits, e)
		}
		s.StepMicros = int64(last-first) * int64(800+rnd.IntN(400))
		s.ChunkMicros = s.StepMicros * 40
		claims := make(map[protocol.NodeID]int64, 64)
		for range 64 {
			claims[ids[rnd.IntN(nodes)]] = int64(1000 + rnd.IntN(80_000))
		}
		links.Set(ids[k], claims)
		x.Put(ids[k], []Shard{s})
	}
	return x, ids
}

// BenchmarkFind measures one request against one heavy model.
func BenchmarkFind(b *testing.B) {
	for _, c := range []struct {
		name  string
		nodes int
		grid  bool
	}{{"1000grid", 1000, true}, {"1500grid", 1500, true}, {"1500anywhere", 1500, false}} {
		b.Run(c.name, func(b *testing.B) {
			x, ids := heavyWorld(rand.New(rand.NewPCG(5, 6)), c.nodes, c.grid)
			var times []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				if x.Find(&Request{Gateway: ids[i%len(ids)], Context: 4096, Prompt: 1000}) == nil {
					b.Fatal("no route")
				}
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-us")
		})
	}
}
