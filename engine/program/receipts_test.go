package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// TestReceiptsOfARoute runs a real model over three nodes: all of each hop's
// work is in receipts with both signatures, which the tracker takes, and the
// nodes' status says so.
func TestReceiptsOfARoute(t *testing.T) {
	n := newNetwork(t, guide, "0-3", "3-6", "6-8")
	r := ask("What is a seam?")
	r.NoDraft = true // so many rows make so many spans
	a := n.answer(r)
	if len(a.Telemetry.Route) != 3 {
		t.Fatalf("route of %d hops", len(a.Telemetry.Route))
	}
	c := a.Telemetry.Route[0].Counters
	want := c.PrefillChunks + (c.DecodeRows+protocol.MaxSpanPositions-1)/protocol.MaxSpanPositions
	for i, x := range n.nodes {
		var r localapi.Receipts
		eventually(t, "signatures for the node's work, and the tracker", func() bool {
			r = x.status(t).Receipts
			return r.Delivered >= want
		})
		got := r
		got.Bytes = 0
		exact := localapi.Receipts{Signed: want, Finished: want, Given: want, Delivered: want}
		if i == 0 {
			exact.Given = 0
		}
		if got != exact {
			t.Errorf("node %d: %+v, want %+v", i, got, exact)
		}
		if _, err := os.Stat(filepath.Join(x.o.Data, "receipts", "receipts.spool")); err != nil {
			t.Error(err)
		}
	}
}

// TestReceiptsBehindAKeptPrompt: the second of two equal questions is computed
// from its last block on; the tracker takes the receipts of both sessions.
func TestReceiptsBehindAKeptPrompt(t *testing.T) {
	n := newNetwork(t, guide, "0-4", "4-8")
	r := ask(strings.Repeat("What is a seam, and what crosses it? ", 20))
	r.NoDraft = true
	var want int64
	texts := map[string]bool{}
	for i := range 2 {
		a := n.answer(r)
		texts[a.Text] = true
		if kept := a.Telemetry.PrefillCached; (i > 0) != (kept >= 128) {
			t.Fatalf("question %d: %d tokens were kept of %d", i, kept, a.Telemetry.PrefillTotal)
		}
		c := a.Telemetry.Route[0].Counters
		if int(c.PrefillRows)+a.Telemetry.PrefillCached != a.Telemetry.PrefillTotal {
			t.Errorf("%d rows ran behind %d kept ones of %d", c.PrefillRows, a.Telemetry.PrefillCached, a.Telemetry.PrefillTotal)
		}
		want += c.PrefillChunks + (c.DecodeRows+protocol.MaxSpanPositions-1)/protocol.MaxSpanPositions
	}
	if len(texts) != 1 {
		t.Errorf("two answers to one question: %v", texts)
	}
	for i, x := range n.nodes {
		var r localapi.Receipts
		eventually(t, "signatures for the node's work, and the tracker", func() bool {
			r = x.status(t).Receipts
			return r.Delivered >= want
		})
		got := r
		got.Bytes = 0
		exact := localapi.Receipts{Signed: want, Finished: want, Given: want, Delivered: want}
		if i == 0 {
			exact.Given = 0
		}
		if got != exact {
			t.Errorf("node %d: %+v, want %+v", i, got, exact)
		}
	}
}
