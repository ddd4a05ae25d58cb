package protocol_test

import (
	"testing"

	"neuron/engine/protocol"
)

func TestMissingLayers(t *testing.T) {
	t.Parallel()
	for want, replicas := range map[string][]int{
		"": {1, 2, 3}, "0-1": {0, 1}, "0-3": {0, 0, 0}, "1-2, 4-6": {1, 0, 2, 1, 0, 0},
	} {
		if got := protocol.MissingLayers(replicas); got != want {
			t.Errorf("%v: %q, want %q", replicas, got, want)
		}
	}
	if got := protocol.MissingLayers(nil); got != "" {
		t.Errorf("no layers: %q", got)
	}
}
