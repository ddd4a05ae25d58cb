package planner_test

import (
	"testing"

	"neuron/engine/planner"
	"neuron/engine/protocol"
)

func TestTakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r           protocol.Range
		weights, kv int64
		tokens      int
		want        string
	}{
		{protocol.Range{First: 12, Last: 20}, 6_200_000_000, 410_000_000, 32768, "layers 12 to 19 take 6.2 GB and 410 MB per 32K conversation"},
		{protocol.Range{First: 3, Last: 4}, 1_500_000, 0, 32768, "layer 3 takes 2 MB"},
		{protocol.Range{First: 0, Last: 2}, 900, 20_000, 1000, "layers 0 to 1 take 900 bytes and 20 kB per 1000-token conversation"},
	} {
		if got := planner.Takes(c.r, c.weights, c.kv, c.tokens); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
