package audit

import (
	"bytes"
	"testing"

	"neuron/engine/protocol"
)

// TestCheckerIsCheck: the form of a receipt and what it is signed with are
// written down twice, and both agree on every receipt, whatever byte of it is
// wrong.
func TestCheckerIsCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	raws := [][]byte{nil, {1, 2, 3}}
	for _, good := range [][]byte{w.both(w.receipt(0, 0)), w.half(w.receipt(1, 0)).Encode()} {
		raws = append(raws, good, good[:len(good)-1], append(bytes.Clone(good), 0))
		for at := range good {
			bad := bytes.Clone(good)
			bad[at] ^= byte(1 << (at % 8))
			raws = append(raws, bad)
		}
		for _, zero := range [][2]int{{protocol.ReceiptSize, protocol.ReceiptSize + 32}, {protocol.ReceiptSize + 32, receiverAt}, {receiverAt, receiverAt + 32}, {receiverAt + 32, len(good)}} {
			bad := bytes.Clone(good)
			clear(bad[zero[0]:zero[1]])
			raws = append(raws, bad)
		}
	}
	var k Checker
	got, errs := k.Check(raws)
	accepted := 0
	for i, raw := range raws {
		want, err := Check(raw)
		if (err == nil) != (errs[i] == nil) || (got[i] == nil) != (errs[i] != nil) || err != nil && protocol.AsError(err).Code != protocol.AsError(errs[i]).Code {
			t.Errorf("receipt %d: %v, Check says %v", i, errs[i], err)
			continue
		}
		if err == nil {
			accepted++
			if got[i].id != want.id || got[i].both != want.both || *got[i].receipt != *want.receipt || !bytes.Equal(got[i].raw, raw) {
				t.Errorf("receipt %d: %+v, want %+v", i, got[i], want)
			}
		}
	}
	if accepted < 2 {
		t.Errorf("%d were accepted", accepted)
	}
}

// BenchmarkChecker is a hop's batch.
func BenchmarkChecker(b *testing.B) {
	w := newWorld(b, 2)
	var raws [][]byte
	for seq := range uint32(5) {
		raws = append(raws, w.both(w.receipt(0, seq)))
	}
	var k Checker
	for b.Loop() {
		if _, errs := k.Check(raws); errs[0] != nil {
			b.Fatal(errs[0])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(raws)), "ns/receipt")
}
