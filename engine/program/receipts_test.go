package program_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReceiptsAreSigned runs a real model over three nodes: each hop's work is
// in receipts with both signatures, and the nodes' status says so. Whether they
// are delivered is for tests of the tracker's side.
func TestReceiptsAreSigned(t *testing.T) {
	n := newNetwork(t, guide, "0-3", "3-6", "6-8")
	a := n.answer(ask("What is a seam?"))
	if len(a.Telemetry.Route) != 3 {
		t.Fatalf("route of %d hops", len(a.Telemetry.Route))
	}
	for i, x := range n.nodes {
		eventually(t, "signatures for the node's work", func() bool {
			r := x.status(t).Receipts
			return r.Signed > 0 && r.Finished == r.Signed
		})
		r := x.status(t).Receipts
		if r.Unsigned != 0 || r.Denied != 0 || r.Dropped != 0 || r.Refused != 0 {
			t.Errorf("node %d: %+v", i, r)
		}
		// Hops in front have the same spans, and the hop behind has signed them.
		if first := n.nodes[0].status(t).Receipts; r.Finished != first.Finished || i > 0 && r.Given != first.Finished {
			t.Errorf("node %d: %+v, the first has %+v", i, r, first)
		}
		if r.Waiting == 0 && r.Delivered == 0 {
			t.Errorf("node %d: receipts are nowhere: %+v", i, r)
		}
		if _, err := os.Stat(filepath.Join(x.o.Data, "receipts", "receipts.spool")); err != nil {
			t.Error(err)
		}
	}
}
