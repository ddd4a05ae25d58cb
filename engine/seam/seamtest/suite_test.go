package seamtest_test

import (
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/seam/seamtest"
	"neuron/internal/leaktest"
)

func TestFakePassesTheSuite(t *testing.T) {
	for name, use := range map[string]protocol.Range{
		"whole":  {First: 0, Last: seamtest.Layers},
		"head":   {First: 0, Last: 4},
		"middle": {First: 4, Last: 8},
		"tail":   {First: 8, Last: seamtest.Layers},
	} {
		t.Run(name, func(t *testing.T) {
			leaktest.Check(t)
			seamtest.StageSuite(t, func() seam.Stage { return seamtest.NewStage(use, 512) })
		})
	}
}
