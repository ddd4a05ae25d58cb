package planner_test

import (
	"math/rand/v2"
	"testing"

	"neuron/engine/planner"
)

// BenchmarkPropose plans for a catalog of 200 models.
func BenchmarkPropose(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 7))
	needs := make([]planner.Need, 200)
	for i := range needs {
		m := plain("Random", 16+rng.IntN(80), int64(40+rng.IntN(500))*mb)
		cover := make([]int, m.Layers)
		for l := range cover {
			cover[l] = rng.IntN(4)
		}
		needs[i] = planner.Need{Model: m, Coverage: cover, Demand: rng.Float64()}
	}
	p := planner.New(desktop(), nil)
	for b.Loop() {
		if _, err := p.Propose(needs); err != nil {
			b.Fatal(err)
		}
	}
}
