package ledger

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

var t0 = time.Unix(1_800_000_000, 0).UTC().Truncate(time.Hour)

// world is a ledger on a real database with a clock of its own.
type world struct {
	*Ledger
	t      testing.TB
	db     *sqlite.Store
	path   string
	mu     sync.Mutex
	now    time.Time
	client store.AccountID
	owners []store.AccountID
}

const mib = 1 << 20

func nodeKey(i int) ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i + 1)}, 32)).Public().(ed25519.PublicKey)
}

func ownerKey(i int) ed25519.PublicKey { return nodeKey(100 + i) }

func nodeID(i int) protocol.NodeID { return protocol.NodeIDOf(nodeKey(i)) }

// newWorld has owners 0 to n-1, each with the node of the same number, and a
// client with a credit of a million.
func newWorld(t testing.TB, n int, cfg Config) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "t.db"), now: t0}
	cfg.Now = w.clock
	w.open(cfg)
	t.Cleanup(func() { w.db.Close() })
	prices := DefaultPrices(t0)
	prices.FeePPM = 50_000
	w.must(w.AddPrices(t.Context(), prices))
	w.client = w.addClient("client", 1e12)
	for i := range n {
		w.owners = append(w.owners, w.own(i, i))
	}
	return w
}

func (w *world) open(cfg Config) {
	w.t.Helper()
	db, err := sqlite.Open(w.t.Context(), w.path)
	w.must(err)
	w.db = db
	l, err := Open(w.t.Context(), db, cfg)
	w.must(err)
	w.Ledger = l
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) code(err error, c protocol.Code) {
	w.t.Helper()
	if !errors.Is(err, &protocol.Error{Code: c}) {
		w.t.Errorf("got %v, want code %s", err, c)
	}
}

func (w *world) addClient(name string, credit store.Credit) store.AccountID {
	w.t.Helper()
	a, err := w.AddClient(w.t.Context(), name)
	w.must(err)
	if credit > 0 {
		w.must(w.Grant(w.t.Context(), a.ID, "first", credit, ""))
	}
	return a.ID
}

// own gives a node to an owner, as package owners does.
func (w *world) own(node, owner int) (id store.AccountID) {
	w.t.Helper()
	w.must(w.Update(w.t.Context(), func(tx store.LedgerTx, now time.Time) (err error) {
		if id, err = EnsureOwner(tx, ownerKey(owner), w.StartingCredit(), now); err != nil {
			return err
		}
		if err := tx.EndNodeOwner(nodeID(node), now); err != nil {
			return err
		}
		return tx.AddNodeOwner(store.NodeOwner{Node: nodeID(node), Owner: id, Binding: []byte("{}"), At: now})
	}))
	return id
}

func sid(i int) protocol.SessionID { return protocol.SessionID(fmt.Sprintf("s-%d", i)) }

// reservation is for hops nodes of 100 MiB each.
func (w *world) reservation(i, hops int) Reserve {
	r := Reserve{Session: sid(i), Account: w.client, Model: "model", Prefill: 100, Decode: 200, Expires: t0.Add(2 * time.Hour)}
	for h := range hops {
		r.Hops = append(r.Hops, ReserveHop{Node: nodeID(h), Use: protocol.Range{First: 4 * h, Last: 4*h + 4}, Bytes: 100 * mib})
	}
	return r
}

func (w *world) reserve(i, hops int) store.Reservation {
	w.t.Helper()
	r, err := w.Reserve(w.t.Context(), w.reservation(i, hops))
	w.must(err)
	return r
}

func work(session, hop int, first, last, prefill int64) Work {
	return Work{
		Session: sid(session), Hop: hop, Node: nodeID(hop), Bytes: 100 * mib, First: first, Last: last,
		Prefill: prefill, Decode: last - first - prefill, BothSigned: true,
	}
}

func (w *world) submit(work ...Work) []Result {
	w.t.Helper()
	out, err := w.Submit(w.t.Context(), work)
	w.must(err)
	return out
}

func (w *world) balance(id store.AccountID, b store.Book) store.Credit {
	w.t.Helper()
	all, err := w.Balances(w.t.Context(), id)
	w.must(err)
	return all[b]
}

func (w *world) want(id store.AccountID, b store.Book, v store.Credit) {
	w.t.Helper()
	if got := w.balance(id, b); got != v {
		w.t.Errorf("%s has %d in %s, want %d", id, got, b, v)
	}
}

func (w *world) check() {
	w.t.Helper()
	if err := w.Check(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	err := w.View(w.t.Context(), func(tx store.LedgerView) error {
		spent, err := tx.SpentFold()
		if err != nil {
			return err
		}
		for id, sum := range spent {
			if _, total, err := tx.Spent(id, t0); err != nil || total != sum {
				w.t.Errorf("the key %s spent %d, its sessions %d, %v", id, total, sum, err)
			}
		}
		return nil
	})
	w.must(err)
}

// Per row of a 100 MiB hop at default prices with a fee of 5 %.
const (
	decodeRow   = 100_000
	prefillRow  = 15_000
	decodeShare = 95_000
	prefShare   = 14_250
)

func TestSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Config{})
	r := w.reserve(1, 2)
	most := store.Credit(2 * (100*prefillRow + 200*decodeRow))
	if r.Amount != most || r.Prices != 1 || r.Hops[0].Owner != w.owners[0] {
		t.Fatalf("reserved %+v", r)
	}
	w.want(w.client, store.Reserved, most)
	w.want(w.client, store.Available, 1e12-most)
	if again, err := w.Reserve(t.Context(), w.reservation(1, 2)); err != nil || again.Num != r.Num || again.Amount != r.Amount {
		t.Errorf("repeated: %+v, %v", again, err)
	}
	other := w.reservation(1, 2)
	other.Decode++
	_, err := w.Reserve(t.Context(), other)
	w.code(err, protocol.CodeConflict)

	got := w.submit(work(1, 0, 0, 64, 64), work(1, 1, 0, 64, 64), work(1, 0, 64, 96, 0), work(1, 0, 64, 96, 0))
	for i, want := range []Result{
		{Status: StatusPosted, Amount: 64 * prefShare}, {Status: StatusPosted, Amount: 64 * prefShare},
		{Status: StatusPosted, Amount: 32 * decodeShare}, {Status: StatusRepeated, Amount: 32 * decodeShare},
	} {
		if got[i].Status != want.Status || got[i].Amount != want.Amount {
			t.Errorf("receipt %d: %+v, want %+v", i, got[i], want)
		}
	}
	w.want(w.owners[0], store.Held, 64*prefShare+32*decodeShare)
	w.want(w.owners[0], store.Pending, 0)
	w.check()
	end := End{Session: sid(1), Prefill: 64, Decode: 32}
	w.must(w.Finish(t.Context(), end))
	w.must(w.Finish(t.Context(), end))
	w.code(w.Finish(t.Context(), End{Session: sid(1), Failed: true}), protocol.CodeConflict)
	w.code(w.Finish(t.Context(), End{Session: sid(1), Prefill: 64, Decode: 33}), protocol.CodeConflict)
	w.want(w.owners[0], store.Held, 0)
	w.want(w.owners[0], store.Pending, 64*prefShare+32*decodeShare)
	w.want(w.owners[1], store.Pending, 64*prefShare)
	w.pass(time.Hour)
	if n, err := w.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("swept %d before the second hop's receipt: %v", n, err)
	}
	w.submit(work(1, 1, 64, 96, 0)) // late, and now all hops agree with the end
	w.want(w.owners[1], store.Pending, 64*prefShare+32*decodeShare)
	if n, err := w.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d: %v", n, err)
	}
	w.want(w.client, store.Reserved, 0)
	w.want(w.client, store.Available, 1e12-2*(64*prefillRow+32*decodeRow))
	w.want(store.House, store.Available, 2*(64*(prefillRow-prefShare)+32*(decodeRow-decodeShare)))
	if got := w.submit(work(1, 1, 96, 128, 0)); got[0].Status != StatusRefused || got[0].Error.Code != protocol.CodeLeaseExpired {
		t.Errorf("after the rest went back: %+v", got[0])
	}
	if got := w.submit(work(1, 1, 64, 96, 0)); got[0].Status != StatusRepeated {
		t.Errorf("repeated at the end: %+v", got[0])
	}
	w.must(w.Finish(t.Context(), end))
	w.check()
}

func TestFailedSessionPaysNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Config{})
	w.reserve(1, 2)
	w.submit(work(1, 0, 0, 64, 64), work(1, 1, 0, 64, 64))
	w.must(w.Finish(t.Context(), End{Session: sid(1), Failed: true}))
	w.must(w.Finish(t.Context(), End{Session: sid(1), Failed: true}))
	w.code(w.Finish(t.Context(), End{Session: sid(1)}), protocol.CodeConflict)
	for _, r := range w.submit(work(1, 0, 0, 64, 64), work(1, 0, 64, 96, 0)) {
		if r.Status != StatusUnpaid {
			t.Errorf("%+v", r)
		}
	}
	// A session that nobody ends.
	w.reserve(2, 2)
	w.submit(work(2, 0, 0, 64, 64))
	w.pass(2*time.Hour + 6*time.Hour)
	if n, err := w.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	for _, id := range append(w.owners, store.House) {
		for _, b := range []store.Book{store.Held, store.Pending, store.Available} {
			w.want(id, b, 0)
		}
	}
	w.want(w.client, store.Available, 1e12)
	w.want(w.client, store.Reserved, 0)
	w.check()
}

func TestRefusedReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Config{})
	w.reserve(1, 2)
	w.submit(work(1, 0, 0, 64, 64))
	for name, c := range map[string]struct {
		change func(*Work)
		code   protocol.Code
	}{
		"one-sided":       {func(x *Work) { x.BothSigned = false }, protocol.CodeForbidden},
		"no session":      {func(x *Work) { x.Session = sid(9) }, protocol.CodeSessionUnknown},
		"other node":      {func(x *Work) { x.Node = nodeID(1) }, protocol.CodeForbidden},
		"other owner":     {func(x *Work) { x.Owner = w.owners[1] }, protocol.CodeForbidden},
		"more weights":    {func(x *Work) { x.Bytes *= 2 }, protocol.CodeForbidden},
		"no such hop":     {func(x *Work) { x.Hop = 2 }, protocol.CodeInvalidRequest},
		"negative hop":    {func(x *Work) { x.Hop = -1 }, protocol.CodeInvalidRequest},
		"more rows":       {func(x *Work) { x.Decode++ }, protocol.CodeInvalidRequest},
		"no rows":         {func(x *Work) { x.Decode = 0 }, protocol.CodeInvalidRequest},
		"negative rows":   {func(x *Work) { x.Prefill = -1 }, protocol.CodeInvalidRequest},
		"overflow":        {func(x *Work) { x.Prefill, x.Decode = 1<<62, 1<<62 }, protocol.CodeInvalidRequest},
		"rows of none":    {func(x *Work) { x.Last = x.First }, protocol.CodeInvalidRequest},
		"huge span":       {func(x *Work) { x.Last = x.First + MaxSpan + 1 }, protocol.CodeInvalidRequest},
		"backwards":       {func(x *Work) { x.First, x.Last = x.Last, x.First }, protocol.CodeInvalidRequest},
		"overlap, front":  {func(x *Work) { x.First = 63 }, protocol.CodeConflict},
		"overlap, inside": {func(x *Work) { x.First, x.Last, x.Decode = 10, 20, 10 }, protocol.CodeConflict},
		"overlap, around": {func(x *Work) { x.First = 0 }, protocol.CodeConflict},
		"other rows":      {func(x *Work) { x.First, x.Last, x.Decode = 0, 64, 64 }, protocol.CodeConflict},
	} {
		x := work(1, 0, 64, 96, 0)
		c.change(&x)
		if got := w.submit(x)[0]; got.Status != StatusRefused || got.Error.Code != c.code {
			t.Errorf("%s: %+v, want %s", name, got, c.code)
		}
	}
	if got := w.submit(work(1, 0, 64, 64, 0))[0]; got.Status != StatusUnpaid { // all rows were rolled back
		t.Errorf("an empty span: %+v", got)
	}
	again := work(1, 0, 0, 64, 64)
	again.Epoch = 1 // after a rewind the same positions are new work
	if got := w.submit(again)[0]; got.Status != StatusPosted || got.Amount != 36*prefShare {
		t.Errorf("work beyond the lease: %+v", got) // 100 rows are reserved, 64 were paid
	}
	w.check()
}

func TestReserveRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Config{})
	w.code(w.CloseAccount(t.Context(), store.House), protocol.CodeForbidden)
	poor, closed := w.addClient("poor", 1), w.addClient("closed", 1e12)
	w.must(w.CloseAccount(t.Context(), closed))
	for name, c := range map[string]struct {
		change func(*Reserve)
		code   protocol.Code
	}{
		"poor":        {func(r *Reserve) { r.Account = poor }, protocol.CodeBudget},
		"closed":      {func(r *Reserve) { r.Account = closed }, protocol.CodeForbidden},
		"house":       {func(r *Reserve) { r.Account = store.House }, protocol.CodeForbidden},
		"unknown":     {func(r *Reserve) { r.Account = "c-nobody" }, protocol.CodeNotFound},
		"unknown key": {func(r *Reserve) { r.Key = "nk-none" }, protocol.CodeNotFound},
		"no hops":     {func(r *Reserve) { r.Hops = nil }, protocol.CodeInvalidRequest},
		"no rows":     {func(r *Reserve) { r.Prefill, r.Decode = 0, 0 }, protocol.CodeInvalidRequest},
		"rows":        {func(r *Reserve) { r.Decode = 1 << 62 }, protocol.CodeInvalidRequest},
		"bytes":       {func(r *Reserve) { r.Hops[0].Bytes = 1 << 62 }, protocol.CodeInvalidRequest},
		"range":       {func(r *Reserve) { r.Hops[0].Use = protocol.Range{} }, protocol.CodeInvalidRequest},
		"cost":        {func(r *Reserve) { r.Hops[0].Bytes, r.Decode = maxBytes, maxRows }, protocol.CodeInvalidRequest},
	} {
		r := w.reservation(1, 2)
		c.change(&r)
		_, err := w.Reserve(t.Context(), r)
		if !errors.Is(err, &protocol.Error{Code: c.code}) {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	w.reserve(1, 2)
	w.check()
}

// TestNodeWithoutOwner: its work costs nothing, and its receipts are answered.
func TestNodeWithoutOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, Config{})
	r := w.reserve(1, 2)
	if r.Hops[1].Owner != "" || r.Amount != 100*prefillRow+200*decodeRow {
		t.Errorf("%+v", r)
	}
	if got := w.submit(work(1, 1, 0, 64, 64)); got[0].Status != StatusPosted || got[0].Amount != 0 {
		t.Errorf("%+v", got)
	}
	w.own(1, 0) // later owners are not paid for it
	w.submit(work(1, 1, 64, 70, 0))
	w.must(w.Finish(t.Context(), End{Session: sid(1), Prefill: -1, Decode: -1}))
	w.want(w.owners[0], store.Pending, 0)
	w.check()
}

func TestSettle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Config{})
	earn := func(i int) {
		w.reserve(i, 1)
		w.submit(work(i, 0, 0, 10, 0))
		w.must(w.Finish(t.Context(), End{Session: sid(i), Decode: 10}))
	}
	const each = 10 * decodeShare
	settle := func(want int, available store.Credit) {
		t.Helper()
		for i := range 2 {
			if n, err := w.Settle(t.Context()); err != nil || n != want*(1-i) {
				t.Errorf("settled %d owners, %v", n, err)
			}
		}
		w.want(w.owners[0], store.Available, available)
	}
	w.pass(30 * time.Minute)
	earn(1) // 00:30
	settle(0, 0)
	w.pass(time.Hour)
	earn(2) // 01:30
	settle(0, 0)
	w.pass(45 * time.Minute) // 02:15
	settle(1, each)
	earn(3)
	w.pass(time.Hour) // 03:15
	settle(1, 2*each)
	w.pass(time.Hour)
	settle(1, 3*each)
	w.want(w.owners[0], store.Pending, 0)
	// What was earned can be spent.
	r := w.reservation(9, 2)
	r.Account, r.Prefill, r.Decode = w.owners[0], 0, 10
	if _, err := w.Reserve(t.Context(), r); err != nil {
		t.Error(err)
	}
	w.check()
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Config{})
	ctx, o := t.Context(), w.owners[0]
	const each = 10 * decodeShare
	earn := func(i int) {
		w.reserve(i, 1)
		w.submit(work(i, 0, 0, 10, 0))
		w.must(w.Finish(ctx, End{Session: sid(i), Prefill: -1, Decode: -1}))
	}
	earn(1)
	w.reserve(2, 1)
	w.submit(work(2, 0, 0, 10, 0)) // held when the fault is proven
	for range 2 {
		w.must(w.Freeze(ctx, o, "p1", "two signatures for one span"))
	}
	w.must(w.Freeze(ctx, o, "p2", ""))
	w.want(o, store.Frozen, each)
	w.must(w.Finish(ctx, End{Session: sid(2), Prefill: -1, Decode: -1}))
	w.want(o, store.Frozen, 2*each)
	w.submit(work(2, 0, 10, 20, 0)) // late
	w.want(o, store.Frozen, 3*each)
	w.pass(3 * time.Hour)
	if n, err := w.Settle(ctx); n != 0 || err != nil {
		t.Errorf("settled %d, %v", n, err)
	}
	w.must(w.Thaw(ctx, o, "p1", ""))
	w.want(o, store.Frozen, 3*each) // the other proof still holds it
	w.code(w.Forfeit(ctx, o, "p1", ""), protocol.CodeConflict)
	w.code(w.Thaw(ctx, o, "p3", ""), protocol.CodeNotFound)
	w.code(w.Freeze(ctx, w.client, "p1", ""), protocol.CodeInvalidRequest)
	w.code(w.Freeze(ctx, o, "", ""), protocol.CodeInvalidRequest)
	for range 2 {
		w.must(w.Thaw(ctx, o, "p2", ""))
	}
	w.want(o, store.Pending, 3*each)
	w.must(w.Freeze(ctx, o, "p4", ""))
	w.must(w.Forfeit(ctx, o, "p4", ""))
	house := w.balance(store.House, store.Available)
	w.want(o, store.Frozen, 0)
	// A wrong forfeit is taken back.
	for range 2 {
		w.must(w.Correct(ctx, "forfeit:"+string(o)+":p4", "the proof was wrong"))
	}
	w.want(o, store.Available, 3*each)
	w.want(store.House, store.Available, house-3*each)
	earn(5)
	w.want(o, store.Pending, each) // nothing is frozen any more
	w.must(w.Freeze(ctx, o, "p:5", "a colon"))
	w.must(w.View(ctx, func(v store.LedgerView) error {
		list, err := Freezes(v, o)
		w.must(err)
		got := ""
		for _, f := range list {
			got += fmt.Sprintf("%s %q %s;", f.Proof, f.Note, f.Ended)
		}
		if want := `p1 "two signatures for one span" thaw;p2 "" thaw;p4 "" forfeit;p:5 "a colon" ;`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if list, err := Freezes(v, w.owners[1]); len(list) != 0 || err != nil {
			t.Errorf("another owner's freezes: %v, %v", list, err)
		}
		return nil
	}))
	w.check()
}

func TestCorrect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Config{})
	ctx, o := t.Context(), w.owners[0]
	w.reserve(1, 1)
	w.submit(work(1, 0, 0, 10, 0), work(1, 0, 10, 20, 0))
	w.code(w.Correct(ctx, "post:s-1:0:0:0-10", "why"), protocol.CodeConflict) // still held
	w.must(w.Finish(ctx, End{Session: sid(1), Decode: 20}))
	w.pass(3 * time.Hour)
	if _, err := w.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.must(w.Correct(ctx, "post:s-1:0:0:0-10", "audit"))
	}
	w.want(o, store.Available, 10*decodeShare)
	w.want(w.client, store.Available, 1e12-10*decodeRow)
	w.want(store.House, store.Available, 10*(decodeRow-decodeShare))
	w.code(w.Correct(ctx, "void:s-1", "why"), protocol.CodeInvalidRequest)
	w.code(w.Correct(ctx, "post:s-1:0:0:77-78", "why"), protocol.CodeNotFound)
	w.code(w.Correct(ctx, "post:s-1:0:0:10-20", ""), protocol.CodeInvalidRequest)
	// A grant that was spent leaves a debt, and a debtor cannot reserve.
	poor := w.addClient("poor", 1e8)
	r := w.reservation(2, 1)
	r.Account, r.Prefill, r.Decode = poor, 0, 1000
	if _, err := w.Reserve(ctx, r); err != nil {
		t.Fatal(err)
	}
	w.must(w.Correct(ctx, "grant:"+string(poor)+":first", "typed wrongly"))
	w.want(poor, store.Available, -1e8)
	r.Session = sid(3)
	_, err := w.Reserve(ctx, r)
	w.code(err, protocol.CodeBudget)
	w.code(w.Correct(ctx, "correct:grant:"+string(poor)+":first", "x"), protocol.CodeInvalidRequest)
	w.check()
	got, err := w.Earnings(ctx, store.LineQuery{Account: o}, 100)
	if err != nil || len(got) != 1 || got[0].Amount != 10*decodeShare || got[0].Decode != 10 {
		t.Errorf("earnings: %+v, %v", got, err)
	}
}

func TestGrantAndSeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Config{StartingCredit: 5_000_000})
	ctx := t.Context()
	w.want(w.owners[0], store.Available, 5_000_000)
	w.own(7, 0) // a second node of the same owner
	w.want(w.owners[0], store.Available, 5_000_000)
	w.must(w.Grant(ctx, w.client, "r", 10, "n"))
	w.must(w.Grant(ctx, w.client, "r", 10, "n"))
	w.code(w.Grant(ctx, w.client, "r", 11, "n"), protocol.CodeConflict)
	w.code(w.Grant(ctx, w.client, "r2", -1, "n"), protocol.CodeInvalidRequest)
	w.code(w.Grant(ctx, "c-x", "r2", 1, "n"), protocol.CodeNotFound)
	w.want(w.client, store.Available, 1e12+10)
	w.want(store.House, store.Mint, -1e12-10-2*5_000_000)
	s := Seed{Grant: "g1", Node: nodeID(0), To: nodeID(1), Model: "model", Bytes: 100 * mib, BothSigned: true}
	for range 2 {
		if v, err := w.Seed(ctx, s); err != nil || v != 1000 {
			t.Errorf("seeded %d, %v", v, err)
		}
	}
	s.Bytes++
	_, err := w.Seed(ctx, s)
	w.code(err, protocol.CodeConflict)
	s.Grant, s.BothSigned = "g2", false
	_, err = w.Seed(ctx, s)
	w.code(err, protocol.CodeForbidden)
	s.BothSigned, s.To = true, nodeID(7)
	if v, err := w.Seed(ctx, s); err != nil || v != 0 {
		t.Errorf("to oneself: %d, %v", v, err)
	}
	s.Node = nodeID(50)
	s.Grant = "g3"
	_, err = w.Seed(ctx, s)
	w.code(err, protocol.CodeNotFound)
	w.want(w.owners[0], store.Pending, 1000)
	w.check()
}

func TestPrices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, Config{})
	ctx := t.Context()
	p := DefaultPrices(t0.Add(time.Hour))
	p.Version, p.DecodeMiB, p.FeePPM = 2, 2000, 0
	w.must(w.AddPrices(ctx, p))
	w.must(w.AddPrices(ctx, p))
	for name, f := range map[string]func(*store.Prices){
		"other content": func(p *store.Prices) { p.FeePPM = 1 },
		"gap":           func(p *store.Prices) { p.Version = 4 },
		"past":          func(p *store.Prices) { p.Version, p.From = 3, t0.Add(-time.Second) },
		"before":        func(p *store.Prices) { p.Version, p.From = 3, t0.Add(time.Minute) },
		"fee":           func(p *store.Prices) { p.Version, p.FeePPM = 3, million+1 },
		"price":         func(p *store.Prices) { p.Version, p.DecodeMiB = 3, -1 },
	} {
		q := p
		f(&q)
		if err := w.AddPrices(ctx, q); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	before := w.reserve(1, 1)
	w.pass(time.Hour)
	after := w.reserve(2, 1)
	if before.Prices != 1 || after.Prices != 2 || after.Hops[0].DecodeRow != 2*before.Hops[0].DecodeRow || after.Hops[0].DecodeFee != 0 {
		t.Errorf("%+v, %+v", before, after)
	}
	// A session keeps the prices that it was reserved under.
	if got := w.submit(work(1, 0, 0, 1, 0), work(2, 0, 0, 1, 0)); got[0].Amount != decodeShare || got[1].Amount != 2*decodeRow {
		t.Errorf("%+v", got)
	}
	if all, err := w.Prices(ctx); err != nil || len(all) != 2 || all[1] != p {
		t.Errorf("%+v, %v", all, err)
	}
	w.check()
}

func TestRowPrice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes int64
		price store.Credit
		want  store.Credit
		ok    bool
	}{
		{0, 1000, 0, true}, {1048, 1000, 0, true}, {1049, 1000, 1, true}, {mib, 1000, 1000, true}, {mib - 1, 1000, 999, true},
		{maxBytes, maxPrice, 1 << 30 * 1e9, true}, {maxBytes + 1, 1, 0, false}, {-1, 1, 0, false}, {1, -1, 0, false}, {1, maxPrice + 1, 0, false},
	} {
		if got, ok := RowPrice(c.bytes, c.price); got != c.want || ok != c.ok {
			t.Errorf("%d bytes at %d: %d, %t", c.bytes, c.price, got, ok)
		}
	}
	for price := store.Credit(0); price < 1000; price++ {
		for _, ppm := range []int64{0, 1, 50_000, 333_333, 999_999, million} {
			f := fee(price, ppm)
			// The owner's part is rounded down, and nothing is created.
			if exact := price * store.Credit(ppm); f*million < exact || (f-1)*million >= exact && f > 0 || f < 0 || f > price {
				t.Fatalf("a fee of %d ppm of %d is %d", ppm, price, f)
			}
		}
	}
	if s := store.Credit(-1_500_000).String(); s != "-1.500000" {
		t.Error(s)
	}
}

func TestStatement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, Config{})
	ctx, o := t.Context(), w.owners[1]
	day := 24 * time.Hour
	for i := range 4 {
		r := w.reservation(i, 3)
		r.Expires = w.clock().Add(time.Hour)
		if i%2 == 1 {
			r.Model = "other"
		}
		_, err := w.Reserve(ctx, r)
		w.must(err)
		w.submit(work(i, 1, 0, 10, 4), work(i, 1, 10, 20, 0), work(i, 2, 0, 10, 0))
		w.must(w.Finish(ctx, End{Session: sid(i), Prefill: -1, Decode: -1, Failed: i == 3}))
		if i == 1 {
			w.pass(day)
		}
	}
	w.submit(work(2, 1, 20, 30, 0)) // late
	var all, paged []store.LineItem
	p, err := w.Statement(ctx, store.LineQuery{Account: o}, "", 1000)
	w.must(err)
	all = p.Items
	if len(all) != 8+2*3+1+1 || p.Next != "" || all[0].ID != "post:s-2:1:0:20-30" || all[0].Model != "model" || all[0].Range != (protocol.Range{First: 4, Last: 8}) || all[0].Node != nodeID(1) {
		t.Fatalf("%d lines, %+v", len(all), all[0])
	}
	for cursor, n := "", 0; n < 100; n++ {
		p, err := w.Statement(ctx, store.LineQuery{Account: o}, cursor, 3)
		w.must(err)
		paged = append(paged, p.Items...)
		if n == 1 { // new lines do not move the pages
			w.submit(work(2, 1, 30, 40, 0))
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if fmt.Sprint(paged) != fmt.Sprint(all) {
		t.Errorf("pages: %v\nwhole: %v", paged, all)
	}
	count := func(q store.LineQuery, want int) {
		t.Helper()
		q.Account = o
		p, err := w.Statement(ctx, q, "", 1000)
		if err != nil || len(p.Items) != want {
			t.Errorf("%+v: %d lines, want %d, %v", q, len(p.Items), want, err)
		}
	}
	count(store.LineQuery{Model: "other"}, 4+2+1)
	count(store.LineQuery{Range: protocol.Range{First: 4, Last: 8}}, 17)
	count(store.LineQuery{Range: protocol.Range{First: 4, Last: 9}}, 0)
	count(store.LineQuery{Books: []store.Book{store.Pending}}, 5)
	count(store.LineQuery{Until: t0.Add(time.Hour)}, 8)
	count(store.LineQuery{Since: t0.Add(time.Hour)}, 9)
	count(store.LineQuery{Since: t0.Add(day), Until: t0.Add(day + time.Microsecond)}, 9)
	count(store.LineQuery{Since: t0.Add(day + time.Microsecond)}, 0)
	earnings, err := w.Earnings(ctx, store.LineQuery{Account: o}, 100)
	w.must(err)
	one := store.Credit(4*prefShare + 16*decodeShare)
	want := []store.Earning{
		{Day: t0.Add(day).Truncate(day), Model: "model", Range: protocol.Range{First: 4, Last: 8}, Amount: one + 20*decodeShare, Prefill: 4, Decode: 36},
		{Day: t0.Truncate(day), Model: "model", Range: protocol.Range{First: 4, Last: 8}, Amount: one, Prefill: 4, Decode: 16},
		{Day: t0.Truncate(day), Model: "other", Range: protocol.Range{First: 4, Last: 8}, Amount: one, Prefill: 4, Decode: 16},
	}
	if fmt.Sprint(earnings) != fmt.Sprint(want) {
		t.Errorf("earnings %v\nwant %v", earnings, want)
	}
	for _, c := range []string{"x", "0-1", "1", "1-2-3", "1--2", " 1-2", "01-2", "99999999999999999999-1"} {
		if _, err := w.Statement(ctx, store.LineQuery{Account: o}, c, 3); err == nil {
			t.Errorf("the cursor %q passed", c)
		}
	}
	if _, err := w.Statement(ctx, store.LineQuery{Account: "o-nobody"}, "", 3); err == nil {
		t.Error("a statement of nobody")
	}
}

// TestRebuild damages the cached balances, then the entries.
func TestRebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, Config{})
	w.reserve(1, 1)
	sabotage := func(q string) {
		t.Helper()
		w.must(w.db.Close())
		raw, err := sql.Open("sqlite", w.path)
		w.must(err)
		_, err = raw.Exec(q)
		w.must(errors.Join(err, raw.Close()))
		db, err := sqlite.Open(t.Context(), w.path)
		w.must(err)
		w.db = db
	}
	before := w.balance(w.client, store.Available)
	sabotage(`UPDATE ledger_balances SET amount = amount + 7`)
	l, err := Open(t.Context(), w.db, Config{Now: w.clock})
	w.must(err)
	w.Ledger = l
	w.want(w.client, store.Available, before)
	w.check()
	sabotage(`UPDATE ledger_tx SET note = 'x' WHERE seq = 2`)
	w.Ledger = &Ledger{cfg: w.cfg, store: w.db}
	w.code(w.Check(t.Context()), protocol.CodeDataFolder)
	sabotage(`UPDATE ledger_lines SET amount = amount + 1 WHERE seq = 1 AND n = 0`)
	_, err = Open(t.Context(), w.db, Config{})
	w.code(err, protocol.CodeDataFolder)
}

// TestBatchWithAFault: an operation that the store refuses does not take those
// with it that came at the same time.
func TestBatchWithAFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, Config{})
	fault := errors.New("disk on fire")
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			id := store.AccountID(fmt.Sprintf("c-%d", i))
			err := w.do(t.Context(), func(t *txn) error {
				if err := t.AddAccount(store.Account{ID: id, Kind: store.KindClient}); err != nil {
					return err
				}
				if i%3 == 1 {
					return fault
				}
				return nil
			})
			if bad := i%3 == 1; errors.Is(err, fault) != bad || !bad && err != nil {
				t.Errorf("%d: %v", i, err)
			}
			if _, err := w.Balances(t.Context(), id); (err == nil) != (i%3 != 1) {
				t.Errorf("%s after a fault: %v", id, err)
			}
		})
	}
	wg.Wait()
	w.check()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Grant(ctx, w.client, "x", 1, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestFinishAll: of many ends each gets its own answer, and one that cannot be
// written does not keep those before it from being written.
func TestFinishAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Config{})
	var ends []End
	for i := range 2*sessionsAtOnce + 3 {
		w.reserve(i, 2)
		w.submit(work(i, 0, 0, 64, 64), work(i, 1, 0, 64, 64))
		ends = append(ends, End{Session: sid(i), Failed: i%5 == 1, Prefill: 64})
	}
	ends = append(ends, End{Session: "s-nobody"}, End{Session: sid(1)})
	answers, err := w.FinishAll(t.Context(), ends)
	w.must(err)
	for i, got := range answers {
		switch want := []protocol.Code{"", protocol.CodeSessionUnknown, protocol.CodeConflict}[max(0, i-len(ends)+3)]; {
		case want != "":
			w.code(got, want)
		case got != nil:
			t.Errorf("end %d: %v", i, got)
		}
	}
	if len(answers) != len(ends) {
		t.Errorf("%d answers to %d ends", len(answers), len(ends))
	}
	if got := w.balance(w.owners[0], store.Held); got != 0 {
		t.Errorf("%d are held", got)
	}
	w.check()

	w = newWorld(t, 1, Config{})
	for i := range 6 {
		w.reserve(i, 1)
	}
	disk := errors.New("disk on fire")
	w.Ledger.store = &breaking{w.Ledger.store, sid(4), disk}
	ends = nil
	for i := range 6 {
		ends = append(ends, End{Session: sid(i)})
	}
	if answers, err = w.FinishAll(t.Context(), ends); !errors.Is(err, disk) || len(answers) != 4 {
		t.Errorf("%d answers, %v", len(answers), err)
	}
	w.check()
}

// breaking is a store that cannot write one session.
type breaking struct {
	store.Ledger
	session protocol.SessionID
	err     error
}

func (b *breaking) UpdateLedger(ctx context.Context, fs ...func(store.LedgerTx) error) error {
	list := make([]func(store.LedgerTx) error, len(fs))
	for i, f := range fs {
		list[i] = func(tx store.LedgerTx) error { return f(breakingTx{tx, b}) }
	}
	return b.Ledger.UpdateLedger(ctx, list...)
}

type breakingTx struct {
	store.LedgerTx
	b *breaking
}

func (t breakingTx) SetReservation(r *store.Reservation) error {
	if r.Session == t.b.session {
		return t.b.err
	}
	return t.LedgerTx.SetReservation(r)
}
