package keys

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

var t0 = time.Unix(1_800_000_000, 0).UTC().Truncate(24 * time.Hour)

type world struct {
	*Keys
	t       *testing.T
	l       *ledger.Ledger
	now     time.Time
	account store.AccountID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: t0}
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	clock := func() time.Time { return w.now }
	if w.l, err = ledger.Open(t.Context(), db, ledger.Config{Now: clock}); err != nil {
		t.Fatal(err)
	}
	w.Keys = New(w.l, clock)
	w.account = w.client("client")
	return w
}

func (w *world) client(name string) store.AccountID {
	w.t.Helper()
	a, err := w.l.AddClient(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.l.Grant(w.t.Context(), a.ID, "first", 1e12, ""); err != nil {
		w.t.Fatal(err)
	}
	return a.ID
}

func (w *world) create(limits Limits) (Secret, store.APIKey) {
	w.t.Helper()
	s, k, err := w.Create(w.t.Context(), w.account, "laptop", limits)
	if err != nil {
		w.t.Fatal(err)
	}
	return s, k
}

func (w *world) code(err error, c protocol.Code) {
	w.t.Helper()
	if !errors.Is(err, &protocol.Error{Code: c}) {
		w.t.Errorf("got %v, want code %s", err, c)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	s, k := w.create(Limits{})
	if len(s) != keyLen || !strings.HasPrefix(string(s), k.ID+"-") || len(k.ID) != idLen {
		t.Fatalf("key %d characters, id %s", len(s), k.ID)
	}
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s", s, s, s, s), fmt.Sprintf("%#v", k)} {
		if strings.Contains(text, s.Reveal()[idLen+1:]) {
			t.Error("the secret prints")
		}
	}
	got, err := w.Authenticate(ctx, s)
	if err != nil || got != k {
		t.Errorf("%+v, %v", got, err)
	}
	other, _ := w.create(Limits{})
	for name, bad := range map[string]Secret{
		"empty": "", "id": Secret(k.ID), "short": s[:len(s)-1], "long": s + "a", "other secret": s[:idLen] + other[idLen:],
		"other id": other[:idLen] + s[idLen:], "unknown": "nk-aaaaaaaa" + s[idLen:], "upper": Secret(strings.ToUpper(string(s))),
	} {
		if _, err := w.Authenticate(ctx, bad); !errors.Is(err, &protocol.Error{Code: protocol.CodeUnauthorized}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, err := w.List(ctx, w.account)
	if err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	stranger := w.client("stranger")
	w.code(w.Revoke(ctx, stranger, k.ID), protocol.CodeNotFound)
	for range 2 {
		if err := w.Revoke(ctx, w.account, k.ID); err != nil {
			t.Error(err)
		}
	}
	_, err = w.Authenticate(ctx, s)
	w.code(err, protocol.CodeUnauthorized)
	if err := w.l.CloseAccount(ctx, w.account); err != nil {
		t.Fatal(err)
	}
	_, err = w.Authenticate(ctx, other)
	w.code(err, protocol.CodeForbidden)
	_, _, err = w.Create(ctx, w.account, "x", Limits{})
	w.code(err, protocol.CodeForbidden)
	_, _, err = w.Create(ctx, store.House, "x", Limits{})
	w.code(err, protocol.CodeForbidden)
	_, _, err = w.Create(ctx, "c-none", "x", Limits{})
	w.code(err, protocol.CodeNotFound)
	_, _, err = w.Create(ctx, stranger, " ", Limits{})
	w.code(err, protocol.CodeInvalidRequest)
	_, _, err = w.Create(ctx, stranger, "x", Limits{Budget: -1})
	w.code(err, protocol.CodeInvalidRequest)
}

func TestRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	s, k := w.create(Limits{PerMinute: 3})
	free, _ := w.create(Limits{})
	ask := func(want int) {
		t.Helper()
		got := 0
		for range 10 {
			if _, err := w.Authenticate(ctx, s); err == nil {
				got++
			} else {
				w.code(err, protocol.CodeRateLimited)
				if e := protocol.AsError(err); e.Detail["retry_after"] == "" || e.Detail["retry_after"] == "0" {
					t.Errorf("no time to wait: %v", e.Detail)
				}
			}
		}
		if got != want {
			t.Errorf("%d requests passed, want %d", got, want)
		}
	}
	ask(3)
	w.now = w.now.Add(20 * time.Second)
	ask(1)
	w.now = w.now.Add(10 * time.Minute)
	ask(3)
	if err := w.SetLimits(ctx, w.account, k.ID, Limits{PerMinute: 6}); err != nil {
		t.Error(err)
	}
	w.now = w.now.Add(time.Minute)
	ask(6)
	for range 100 {
		if _, err := w.Authenticate(ctx, free); err != nil {
			t.Fatal(err)
		}
	}
	r := rates{now: func() time.Time { return w.now }}
	for i := range 3 * maxBuckets {
		w.now = w.now.Add(20 * time.Millisecond)
		if err := r.take(fmt.Sprint(i), 60); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.buckets) > maxBuckets {
		t.Errorf("%d buckets are kept", len(r.buckets))
	}
}

// TestBudget: what is reserved counts against a key's budgets, and what comes
// back counts no more.
func TestBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	prices := ledger.DefaultPrices(t0)
	if err := w.l.AddPrices(ctx, prices); err != nil {
		t.Fatal(err)
	}
	pub := make([]byte, 32)
	err := w.l.Update(ctx, func(tx store.LedgerTx, now time.Time) error {
		o, err := ledger.EnsureOwner(tx, pub, 0, now)
		if err != nil {
			return err
		}
		return tx.AddNodeOwner(store.NodeOwner{Node: "node", Owner: o, Binding: []byte("{}"), At: now})
	})
	if err != nil {
		t.Fatal(err)
	}
	const each = 10 * 1000 // rows x price of 1 MiB
	_, k := w.create(Limits{Budget: 5 * each, BudgetDay: 2 * each})
	reserve := func(i int) error {
		_, err := w.l.Reserve(ctx, ledger.Reserve{
			Session: protocol.SessionID(fmt.Sprint("s-", i)), Account: w.account, Key: k.ID, Model: "m", Decode: 10, Expires: w.now.Add(time.Hour),
			Hops: []ledger.ReserveHop{{Node: "node", Use: protocol.Range{First: 0, Last: 1}, Bytes: 1 << 20}},
		})
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(reserve(1))
	must(reserve(2))
	w.code(reserve(3), protocol.CodeBudget) // the day's
	must(w.l.Finish(ctx, ledger.End{Session: "s-2", Failed: true}))
	must(reserve(3))
	w.code(reserve(4), protocol.CodeBudget)
	w.now = w.now.Add(24 * time.Hour)
	must(reserve(4))
	must(reserve(5))
	w.now = w.now.Add(24 * time.Hour)
	must(reserve(6))
	w.code(reserve(7), protocol.CodeBudget) // all
	if today, total, err := w.Spent(ctx, k.ID); err != nil || today != each || total != 5*each {
		t.Errorf("spent %d and %d, %v", today, total, err)
	}
	must(w.SetLimits(ctx, w.account, k.ID, Limits{}))
	must(reserve(7))
	must(w.Revoke(ctx, w.account, k.ID))
	w.code(reserve(8), protocol.CodeForbidden)
	must(w.l.Check(ctx))
}
