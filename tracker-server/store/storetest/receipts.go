package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

func receiptOf(s, hop, seq int, both bool) store.Receipt {
	return store.Receipt{
		Session: protocol.SessionID(fmt.Sprint("s-", s)), Hop: hop, Seq: uint32(seq), Both: both, Expires: t0.Add(time.Duration(s) * time.Hour),
		Raw: fmt.Append(nil, s, hop, seq, both, "\x00\xff"),
	}
}

func wantReceipts(t *testing.T, st store.Store, s protocol.SessionID, want ...store.Receipt) {
	t.Helper()
	got, err := st.Receipts(t.Context(), s)
	must(t, err)
	raws := make([][]byte, len(want))
	for i, r := range want {
		raws[i] = r.Raw
	}
	if !slices.EqualFunc(raws, got, slices.Equal) {
		t.Errorf("session %s: %q, want %q", s, got, raws)
	}
}

// receipts come back in the order in which they were stored, whatever they say
// of themselves, and once.
func receipts(t *testing.T, open Opener) {
	s := open(t)
	must(t, s.AddReceipts(t.Context(), nil, nil))
	a, b, half, full := receiptOf(1, 1, 7, true), receiptOf(1, 0, 3, true), receiptOf(1, 0, 0, false), receiptOf(1, 0, 0, true)
	other := receiptOf(2, 0, 0, true)
	must(t, s.AddReceipts(t.Context(), []store.Receipt{a, other, half}, nil))
	s = reopen(t, s, open)
	again := a
	again.Raw = []byte("something else")
	must(t, s.AddReceipts(t.Context(), []store.Receipt{again, b, full, b}, nil))
	wantReceipts(t, s, "s-1", a, half, b, full)
	wantReceipts(t, s, "s-2", other)
	wantReceipts(t, s, "s-3")
	for _, x := range []struct {
		session protocol.SessionID
		hop     int
		seq     uint32
		want    []store.Receipt
	}{{"s-1", 0, 0, []store.Receipt{half, full}}, {"s-1", 1, 7, []store.Receipt{a}}, {"s-2", 0, 0, []store.Receipt{other}}, {"s-1", 1, 0, nil}, {"s-3", 0, 0, nil}} {
		got, err := s.SpanReceipts(t.Context(), x.session, x.hop, x.seq)
		must(t, err)
		if !slices.EqualFunc(x.want, got, func(r store.Receipt, raw []byte) bool { return slices.Equal(r.Raw, raw) }) {
			t.Errorf("span %d of hop %d of %s: %q", x.seq, x.hop, x.session, got)
		}
	}

	// More sessions than one transaction of the pruning takes.
	var many, want []store.Receipt
	for i := 10; i < 110; i++ {
		many = append(many, receiptOf(i, 0, 0, true), receiptOf(i, 1, 0, true))
	}
	must(t, s.AddReceipts(t.Context(), many, nil))
	want = many[len(many)-2:]
	n, err := s.PruneReceipts(t.Context(), want[0].Expires)
	must(t, err)
	if n != 2+99 {
		t.Errorf("receipts of %d sessions were pruned, want 101", n)
	}
	s = reopen(t, s, open)
	wantReceipts(t, s, "s-1")
	wantReceipts(t, s, "s-108")
	wantReceipts(t, s, "s-109", want...)
	if n, err := s.PruneReceipts(t.Context(), want[0].Expires); n != 0 || err != nil {
		t.Errorf("pruned again: %d, %v", n, err)
	}
	must(t, s.AddReceipts(t.Context(), []store.Receipt{b}, nil)) // late, after the pruning
	wantReceipts(t, s, "s-1", b)
	must(t, s.Close())
}

func proofOf(i int) store.Proof {
	file := []byte(strings.Repeat(fmt.Sprint(i, "\xff"), 1000))
	return store.Proof{
		ID: sha256.Sum256(file), Kind: "equivocation", Culprit: protocol.NodeID(fmt.Sprint("n-", i%2)), Session: "s-1", Hop: i,
		Text: "it's two", File: file, Found: t0.Add(time.Duration(-i) * time.Second), Owner: store.AccountID(strings.Repeat("o", i%3)),
	}
}

func proofs(t *testing.T, open Opener) {
	s := open(t)
	var all []store.Proof
	for i := range 5 {
		p := proofOf(i)
		must(t, s.AddReceipts(t.Context(), []store.Receipt{receiptOf(1, 0, i, true)}, []store.Proof{p, p}))
		p.Num = int64(i + 1)
		all = append(all, p)
	}
	s = reopen(t, s, open)
	bare := func(ps ...store.Proof) []store.Proof {
		out := slices.Clone(ps)
		for i := range out {
			out[i].File = nil
		}
		return out
	}
	same := func(what string, want, got []store.Proof, err error) {
		t.Helper()
		must(t, err)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s:\n%s", what, d)
		}
	}
	got, err := s.Proofs(t.Context(), 0, 2)
	same("newest", bare(all[4], all[3]), got, err)
	got, err = s.Proofs(t.Context(), got[1].Num, 10)
	same("next", bare(all[2], all[1], all[0]), got, err)

	// A second finding changes nothing, also of one that has ended.
	all[1].Lifted, all[1].Note = t0.Add(time.Hour), "a bug of ours"
	all[2].Forfeited, all[2].Note = t0.Add(time.Hour), "kept"
	for _, p := range all[1:3] {
		must(t, s.SetProof(t.Context(), p))
	}
	must(t, s.AddReceipts(t.Context(), nil, []store.Proof{proofOf(1), proofOf(2)}))
	s = reopen(t, s, open)
	got, err = s.StandingProofs(t.Context())
	same("standing", bare(all[0], all[2], all[3], all[4]), got, err)
	for _, want := range all {
		p, err := s.Proof(t.Context(), want.ID)
		same("one", []store.Proof{want}, []store.Proof{p}, err)
	}
	for _, err := range []error{s.SetProof(t.Context(), proofOf(9)), func() error { _, err := s.Proof(t.Context(), proofOf(9).ID); return err }()} {
		if !errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
			t.Errorf("an unknown proof: %v", err)
		}
	}
	// Pruning leaves proofs alone, of whatever age.
	if _, err := s.PruneReceipts(t.Context(), t0.Add(1000*time.Hour)); err != nil {
		t.Error(err)
	}
	must(t, s.Prune(t.Context(), t0.Add(1000*time.Hour)))
	got, err = s.Proofs(t.Context(), 0, 10)
	if err != nil || len(got) != 5 {
		t.Errorf("%d proofs are left, %v", len(got), err)
	}
	// All or nothing.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.AddReceipts(ctx, []store.Receipt{receiptOf(7, 0, 0, true)}, []store.Proof{proofOf(7)}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	wantReceipts(t, s, "s-7")
	must(t, s.Close())
}
