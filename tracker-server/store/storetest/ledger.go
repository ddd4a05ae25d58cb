package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

func isCode(err error, c protocol.Code) bool { return errors.Is(err, &protocol.Error{Code: c}) }

func update(t *testing.T, s store.Store, f func(store.LedgerTx) error) {
	t.Helper()
	must(t, s.UpdateLedger(t.Context(), f))
}

func view(t *testing.T, s store.Store, f func(store.LedgerView) error) {
	t.Helper()
	must(t, s.ViewLedger(t.Context(), f))
}

func account(i int) store.Account {
	return store.Account{ID: store.AccountID(fmt.Sprintf("c-%d", i)), Kind: store.KindClient, Name: "name's", Created: t0}
}

func grant(id string, to store.AccountID, amount store.Credit) *store.Transaction {
	return &store.Transaction{
		ID: id, Kind: store.TxGrant, At: t0, Digest: sha256.Sum256([]byte(id)), Note: "ü",
		Lines: []store.Line{
			{Account: store.House, Book: store.Mint, Amount: -amount, Hop: -1},
			{Account: to, Book: store.Available, Amount: amount, Hop: 3, Prefill: 5, Decode: 6},
		},
	}
}

func entries(t *testing.T, open Opener) {
	s := open(t)
	update(t, s, func(tx store.LedgerTx) error {
		for i := range 3 {
			must(t, tx.AddAccount(account(i)))
		}
		if err := tx.AddAccount(account(1)); !isCode(err, protocol.CodeConflict) {
			t.Errorf("an account twice: %v", err)
		}
		x := grant("a", "c-1", 100)
		must(t, tx.Append(x))
		if x.Seq != 1 || !x.At.Equal(t0) {
			t.Errorf("%+v", x)
		}
		b, err := tx.Balances("c-1") // sees its own writes
		if err != nil || b[store.Available] != 100 {
			t.Errorf("%v, %v", b, err)
		}
		back := grant("b", "c-1", 20)
		back.At = t0.Add(-time.Hour)
		must(t, tx.Append(back))
		if !back.At.Equal(t0) {
			t.Errorf("time went back to %s", back.At)
		}
		if err := tx.Append(grant("a", "c-1", 1)); !isCode(err, protocol.CodeConflict) {
			t.Errorf("an id twice: %v", err)
		}
		if err := tx.Append(grant("x", "c-9", 1)); !isCode(err, protocol.CodeNotFound) {
			t.Errorf("an unknown account: %v", err)
		}
		crooked := grant("x", "c-1", 1)
		crooked.Lines[0].Amount++
		if err := tx.Append(crooked); !isCode(err, protocol.CodeInternal) {
			t.Errorf("a sum that is not 0: %v", err)
		}
		return nil
	})
	stop := errors.New("stop")
	if err := s.UpdateLedger(t.Context(), func(tx store.LedgerTx) error {
		must(t, tx.AddAccount(account(5)))
		must(t, tx.Append(grant("c", "c-1", 1000)))
		return stop
	}); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if err := s.UpdateLedger(t.Context(), func(tx store.LedgerTx) error {
		must(t, tx.Append(grant("big", "c-2", math.MaxInt64-50)))
		return tx.Append(grant("bigger", "c-2", 100))
	}); !isCode(err, protocol.CodeInternal) {
		t.Errorf("an overflow: %v", err)
	}
	s = reopen(t, s, open)
	update(t, s, func(tx store.LedgerTx) error { return tx.Append(grant("d", "c-2", 7)) })
	view(t, s, func(tx store.LedgerView) error {
		want := map[store.AccountID]store.Balances{
			"c-1": {store.Available: 120}, "c-2": {store.Available: 7}, store.House: {store.Mint: -127},
		}
		fold, err := tx.Fold()
		must(t, err)
		cached, err := tx.Cached()
		must(t, err)
		if d := cmp.Diff(want, fold); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(want, cached); d != "" {
			t.Error(d)
		}
		got, err := tx.Transaction("a")
		must(t, err)
		x := grant("a", "c-1", 100)
		x.Seq = 1
		if d := cmp.Diff(*x, got); d != "" {
			t.Error(d)
		}
		freezes, err := tx.Freezes("c-1", 10)
		if err != nil || len(freezes) != 0 {
			t.Errorf("freezes %v, %v", freezes, err)
		}
		if _, err := tx.Transaction("c"); !isCode(err, protocol.CodeNotFound) {
			t.Errorf("what was undone: %v", err)
		}
		var chain [sha256.Size]byte
		n := int64(0)
		must(t, tx.Each(func(x *store.Transaction) error {
			n++
			chain = x.Chain(chain)
			return nil
		}))
		seq, at, head, err := tx.Head()
		if err != nil || n != 3 || seq != 3 || head != chain || !at.Equal(t0) {
			t.Errorf("%d transactions, head %d, same %t, %v", n, seq, head == chain, err)
		}
		if all, err := tx.Accounts("c-0", 10); err != nil || len(all) != 3 || all[0].ID != "c-1" || all[2].ID != store.House {
			t.Errorf("%+v, %v", all, err)
		}
		return nil
	})
	update(t, s, func(tx store.LedgerTx) error {
		a := account(1)
		a.Closed, a.Frozen = t0, 2
		must(t, tx.SetAccount(a))
		got, err := tx.Account("c-1")
		if err != nil || got.Frozen != 2 || !got.Closed.Equal(t0) {
			t.Errorf("%+v, %v", got, err)
		}
		if err := tx.SetAccount(account(9)); !isCode(err, protocol.CodeNotFound) {
			t.Errorf("an unknown account: %v", err)
		}
		return tx.Rebuild()
	})
	view(t, s, func(tx store.LedgerView) error {
		if b, err := tx.Balances("c-1"); err != nil || b[store.Available] != 120 {
			t.Errorf("%v, %v", b, err)
		}
		return nil
	})
	must(t, s.Close())
}

func hours(t *testing.T, open Opener) {
	s := open(t)
	hour := t0.Truncate(time.Hour).Add(time.Hour)
	update(t, s, func(tx store.LedgerTx) error {
		must(t, tx.AddAccount(account(1)))
		for i, at := range []time.Duration{0, 59 * time.Minute, time.Hour, 5 * time.Hour} {
			x := grant(fmt.Sprint(i), "c-1", 1)
			x.At = hour.Add(at)
			must(t, tx.Append(x))
		}
		return nil
	})
	view(t, s, func(tx store.LedgerView) error {
		for at, want := range map[time.Duration]int64{-time.Hour: 0, 0: 0, time.Hour: 2, 2 * time.Hour: 3, 5 * time.Hour: 3, 6 * time.Hour: 4} {
			if got, err := tx.SeqBefore(hour.Add(at)); err != nil || got != want {
				t.Errorf("before %s: %d, want %d, %v", at, got, want, err)
			}
		}
		if sum, err := tx.GainedAfter("c-1", store.Available, 2); err != nil || sum != 2 {
			t.Errorf("%d, %v", sum, err)
		}
		return nil
	})
	must(t, s.Close())
}

func reservations(t *testing.T, open Opener) {
	s := open(t)
	r := store.Reservation{
		Num: 4, Session: "s-1", Account: "c-1", Key: "nk-1", Model: "m", Prices: 2, Prefill: 3, Decode: 4, Amount: 100, Issued: t0,
		Expires: t0.Add(time.Hour), State: store.ReservationOpen, ToldPrefill: -1, ToldDecode: -1, Due: t0.Add(2 * time.Hour),
		Hops: []store.ReservedHop{
			{Node: "a", Owner: "o-a", Range: protocol.Range{First: 0, Last: 2}, Bytes: 1 << 40, DecodeRow: 5, DecodeFee: 1, PrefillRow: 2, PrefillFee: 1},
			{Node: "b", Range: protocol.Range{First: 2, Last: 9}},
		},
	}
	update(t, s, func(tx store.LedgerTx) error {
		must(t, tx.AddAccount(account(1)))
		must(t, tx.AddReservation(&r))
		if err := tx.AddReservation(&r); !isCode(err, protocol.CodeConflict) {
			t.Errorf("twice: %v", err)
		}
		for _, x := range []store.Span{{First: 0, Last: 10, Seq: 5}, {First: 20, Last: 30, Seq: 6}, {Epoch: 1, First: 0, Last: 99}, {Hop: 1, First: 0, Last: 99}} {
			x.Session = r.Num
			must(t, tx.AddSpan(x))
		}
		return nil
	})
	s = reopen(t, s, open)
	view(t, s, func(tx store.LedgerView) error {
		got, err := tx.Reservation("s-1")
		must(t, err)
		if d := cmp.Diff(r, got); d != "" {
			t.Error(d)
		}
		if _, err := tx.Reservation("s-2"); !isCode(err, protocol.CodeNotFound) {
			t.Errorf("unknown: %v", err)
		}
		for _, c := range []struct{ first, last, found int64 }{{10, 20, -1}, {30, 40, -1}, {9, 11, 0}, {0, 1, 0}, {15, 21, 20}, {22, 23, 20}, {0, 99, 20}} {
			x, found, err := tx.Overlap(store.Span{Session: r.Num, First: c.first, Last: c.last})
			if err != nil || found != (c.found >= 0) || found && x.First != c.found {
				t.Errorf("%+v: %+v, %t, %v", c, x, found, err)
			}
		}
		for d, want := range map[time.Duration]int{time.Hour: 0, 2 * time.Hour: 1} {
			if due, err := tx.Due(t0.Add(d), 10); err != nil || len(due) != want {
				t.Errorf("due: %v, %v", due, err)
			}
		}
		return nil
	})
	r.State, r.Ended, r.Due, r.ToldDecode = store.ReservationClosed, t0, time.Time{}, 3
	r.Hops[0].Prefill, r.Hops[0].Decode = 3, 4
	update(t, s, func(tx store.LedgerTx) error {
		must(t, tx.SetReservation(&r))
		for i := range r.Hops {
			must(t, tx.SetPaid(&r, i))
		}
		got, err := tx.Reservation("s-1")
		must(t, err)
		if d := cmp.Diff(r, got); d != "" {
			t.Error(d)
		}
		if due, err := tx.Due(t0.Add(99*time.Hour), 10); err != nil || len(due) != 0 {
			t.Errorf("due: %v, %v", due, err)
		}
		if spent, err := tx.SpentFold(); err != nil || spent["nk-1"] != 3*2+4*5 {
			t.Errorf("%v, %v", spent, err)
		}
		return nil
	})
	must(t, s.Close())
}

func keysAndOwners(t *testing.T, open Opener) {
	s := open(t)
	k := store.APIKey{ID: "nk-1", Hash: sha256.Sum256([]byte("x")), Account: "c-1", Name: "n", Created: t0, Budget: 1, BudgetDay: 2, PerMinute: 3}
	pairing := store.Pairing{Hash: sha256.Sum256([]byte("code")), Owner: "c-1", Expires: t0}
	update(t, s, func(tx store.LedgerTx) error {
		must(t, tx.AddAccount(account(1)))
		must(t, tx.AddKey(k))
		if err := tx.AddKey(k); !isCode(err, protocol.CodeConflict) {
			t.Errorf("a key twice: %v", err)
		}
		must(t, tx.Spend("nk-1", t0, 10))
		must(t, tx.Spend("nk-1", t0.Add(24*time.Hour), 5))
		must(t, tx.Spend("nk-1", t0, -3))
		for i, n := range []protocol.NodeID{"a", "b", "a"} {
			must(t, tx.EndNodeOwner(n, t0.Add(time.Hour)))
			must(t, tx.AddNodeOwner(store.NodeOwner{Node: n, Owner: "c-1", Binding: []byte{byte(i)}, At: t0}))
		}
		return tx.PutPairing(pairing)
	})
	s = reopen(t, s, open)
	update(t, s, func(tx store.LedgerTx) error {
		got, err := tx.Key("nk-1")
		must(t, err)
		if d := cmp.Diff(k, got); d != "" {
			t.Error(d)
		}
		if today, total, err := tx.Spent("nk-1", t0); err != nil || today != 7 || total != 12 {
			t.Errorf("%d, %d, %v", today, total, err)
		}
		k.Revoked, k.Budget = t0, 9
		must(t, tx.SetKey(k))
		if all, err := tx.Keys("c-1", 10); err != nil || len(all) != 1 || all[0] != k {
			t.Errorf("%+v, %v", all, err)
		}
		if _, err := tx.Key("nk-2"); !isCode(err, protocol.CodeNotFound) {
			t.Errorf("unknown key: %v", err)
		}
		if o, err := tx.OwnerOf("a"); err != nil || o.Binding[0] != 2 || !o.Ended.IsZero() {
			t.Errorf("%+v, %v", o, err)
		}
		if all, err := tx.OwnerHistory("a"); err != nil || len(all) != 2 || all[0].Binding[0] != 2 || all[1].Ended.IsZero() {
			t.Errorf("%+v, %v", all, err)
		}
		if all, err := tx.NodesOf("c-1"); err != nil || len(all) != 2 {
			t.Errorf("%+v, %v", all, err)
		}
		if _, err := tx.OwnerOf("z"); !isCode(err, protocol.CodeNotFound) {
			t.Errorf("unknown node: %v", err)
		}
		pairing.Node, pairing.Offer, pairing.Done = "a", []byte("{}"), true
		must(t, tx.PutPairing(pairing))
		p, err := tx.Pairing(pairing.Hash)
		must(t, err)
		if d := cmp.Diff(pairing, p); d != "" {
			t.Error(d)
		}
		if n, err := tx.Pairings("c-1"); err != nil || n != 1 {
			t.Errorf("%d, %v", n, err)
		}
		must(t, tx.ForgetPairings(t0.Add(time.Second)))
		if _, err := tx.Pairing(pairing.Hash); !isCode(err, protocol.CodeNotFound) {
			t.Errorf("a forgotten code: %v", err)
		}
		p1 := store.Prices{Version: 1, From: t0, DecodeMiB: 1, PrefillPPM: 2, SeedMiB: 3, FeePPM: 4}
		must(t, tx.AddPrices(p1))
		if err := tx.AddPrices(p1); !isCode(err, protocol.CodeConflict) {
			t.Errorf("prices twice: %v", err)
		}
		if all, err := tx.Prices(); err != nil || len(all) != 1 || all[0] != p1 {
			t.Errorf("%+v, %v", all, err)
		}
		return nil
	})
	must(t, s.Close())
}

// twoLedgers appends through two owners of one database at the same time: the
// numbers have no gap and the balances are the sum.
func twoLedgers(t *testing.T, open Opener) {
	const each = 20
	a, b := open(t), open(t)
	update(t, a, func(tx store.LedgerTx) error { return tx.AddAccount(account(1)) })
	var wg sync.WaitGroup
	for owner, s := range []store.Store{a, b} {
		wg.Go(func() {
			for i := range each {
				if err := s.UpdateLedger(context.Background(), func(tx store.LedgerTx) error {
					return tx.Append(grant(fmt.Sprintf("%d-%d", owner, i), "c-1", 1))
				}); err != nil {
					t.Errorf("owner %d: %v", owner, err)
				}
			}
		})
	}
	wg.Wait()
	for _, s := range []store.Store{a, b} {
		view(t, s, func(tx store.LedgerView) error {
			seq, _, _, err := tx.Head()
			must(t, err)
			b, err := tx.Balances("c-1")
			if err != nil || seq != 2*each || b[store.Available] != 2*each {
				t.Errorf("%d transactions, %v, %v", seq, b, err)
			}
			return nil
		})
		must(t, s.Close())
	}
}
