package registry

import (
	"slices"
	"testing"

	"neuron/engine/protocol"
)

func TestHolders(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	for i := range 6 {
		r.Join(at(0), node(i, 1))
	}
	busy, loading := shardReport(modA, 4, 0, 4), shardReport(modA, 4, 0, 4)
	busy.Sessions = 1
	loading.State = protocol.ShardLoading
	off := report(shardReport(modA, 4, 0, 4))
	off.SharingOff = "paused"
	for i, rep := range []*protocol.Report{report(shardReport(modA, 4, 1, 3)), report(busy), report(loading), off, report(shardReport(modB, 4, 0, 4)), report(shardReport(modA, 4, 0, 4))} {
		mustReport(t, r, at(0), node(i, 1), rep)
	}
	r.Promise(id(5), "s", modA, 0, 10)
	holders := func(seconds float64) map[protocol.NodeID]bool {
		out := map[protocol.NodeID]bool{}
		for _, h := range r.Holders(at(seconds), modA) {
			if h.Capability.Model != modA || h.Addr == "" {
				t.Errorf("%+v", h)
			}
			out[h.Node] = h.Idle
		}
		return out
	}
	got := holders(1)
	if want := []bool{true, false, false, false}; len(got) != 4 || !slices.Equal([]bool{got[id(0)], got[id(1)], got[id(3)], got[id(5)]}, want) {
		t.Errorf("%v", got)
	}
	r.Release(id(5), "s")
	r.Bar(id(0), "a proven fault")
	if got := holders(1); got[id(0)] || !got[id(5)] {
		t.Errorf("%v", got)
	}
	if got := holders(30); got[id(5)] { // its reports are missing
		t.Errorf("%v", got)
	}
}
