package placement_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/stopwatch"
	"neuron/tracker-server/placement"
)

// BenchmarkDecide is one node that leaves and one that joins a network of
// 10,000 nodes and 200 models; the decision alone is in p50 and p99.
func BenchmarkDecide(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 5))
	m := placement.New(placement.Config{})
	for i := range 200 {
		set(b, m, plain(i+1, []int{16, 28, 32, 40, 64, 80}[rng.IntN(6)], int64(40+rng.IntN(400))*mb), 100/math.Pow(float64(i+1), 1.1))
	}
	const nodes = 10_000
	one := func(i int) time.Duration {
		j := join(i, int64(3+rng.IntN(12))*gb)
		j.Request.Offer.Speed, j.Request.Offer.DownRate = 5*gb+rng.Int64N(50*gb), mb+rng.Int64N(20*mb)
		j.Request.Held = []protocol.HeldLayers{{Model: modelID(1 + rng.IntN(200)), Ranges: []protocol.Range{{First: 4, Last: 12}}}}
		watch := stopwatch.Start()
		d := decide(b, m, j)
		took := watch.Elapsed()
		take(m, j, d)
		return took
	}
	for i := range nodes {
		one(i)
	}
	var times []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		i := rng.IntN(nodes)
		m.Drop(nodeID(i))
		times = append(times, one(i))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-us")
}

// BenchmarkPut is a report of a node: what the tracker does most often.
func BenchmarkPut(b *testing.B) {
	m := placement.New(placement.Config{})
	set(b, m, plain(1, 80, 500*mb), 1)
	n := holds(1, modelID(1), 20, 40)
	for b.Loop() {
		m.Put(n)
	}
}

// BenchmarkRoutes lists the routes of a model that 2,000 nodes hold.
func BenchmarkRoutes(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 6))
	m := placement.New(placement.Config{})
	set(b, m, plain(1, 80, 500*mb), 1)
	for i := range 2000 {
		a := rng.IntN(80)
		m.Put(holds(i, modelID(1), a, min(80, a+1+rng.IntN(20))))
	}
	for b.Loop() {
		if _, err := m.Routes(modelID(1)); err != nil {
			b.Fatal(err)
		}
	}
}
