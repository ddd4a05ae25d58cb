package exec_test

import (
	"testing"

	"neuron/llama/exec"
)

// BenchmarkStep is one decode step of the guide model: to the logits without a
// callback, and up to the last layer but one with the tap, which is asked at
// each node.
func BenchmarkStep(b *testing.B) {
	loadNative(b)
	m := importAll(b, guidePath()).Model()
	s, err := exec.Load(exec.Config{Paths: []string{guidePath()}, Last: m.Layers, Layers: m.Layers, ExitNode: "l_out", Threads: 1, ChunkRows: 64})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		name string
		exit int
	}{{"whole", m.Layers}, {"tapped", m.Layers - 1}} {
		b.Run(c.name, func(b *testing.B) {
			p, err := s.NewPool(parityCells, 1, c.exit < m.Layers)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			work := []exec.Work{{IDs: []int32{7}, Logits: true}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Run(c.exit, work); err != nil {
					b.Fatal(err)
				}
				if err := p.Clear(0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
