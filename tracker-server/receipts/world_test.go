package receipts

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/receipts/receiptstest"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

var t0 = time.Unix(1_800_000_000, 0).UTC()

const mib = 1 << 20

// Per row of a hop of 100 MiB at the default prices.
const (
	decodeRow  = 100_000
	prefillRow = 15_000
)

// worth is what an owner gets for the spans of one hop.
func worth(spans int) store.Credit { return store.Credit(64*prefillRow + (spans-1)*32*decodeRow) }

// flaky is a real store that fails when a test wants it to, before or after it
// has done what it was asked for.
type flaky struct {
	*sqlite.Store
	mu     sync.Mutex
	before func(what string, rs []store.Receipt) error
	after  func(what string) error
}

var errDisk = errors.New("disk on fire")

func (f *flaky) set(before func(string, []store.Receipt) error, after func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *flaky) around(what string, rs []store.Receipt, do func() error) error {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(what, rs); err != nil {
			return err
		}
	}
	err := do()
	if err == nil && after != nil {
		err = after(what)
	}
	return err
}

func (f *flaky) UpdateLedger(ctx context.Context, fs ...func(store.LedgerTx) error) error {
	list := make([]func(store.LedgerTx) error, len(fs))
	for i, do := range fs {
		list[i] = func(tx store.LedgerTx) error { return do(flakyTx{tx, f}) }
	}
	return f.around("ledger", nil, func() error { return f.Store.UpdateLedger(ctx, list...) })
}

type flakyTx struct {
	store.LedgerTx
	f *flaky
}

func (t flakyTx) AddReceipts(rs []store.Receipt, ps []store.Proof) error {
	return t.f.around("store", rs, func() error { return t.LedgerTx.AddReceipts(rs, ps) })
}

func (f *flaky) Session(ctx context.Context, id protocol.SessionID) (x store.Session, err error) {
	err = f.around("session", nil, func() (err error) {
		x, err = f.Store.Session(ctx, id)
		return err
	})
	return x, err
}

// world is an intake over a real database with a clock of its own.
type world struct {
	*Intake
	t      testing.TB
	db     *flaky
	ledger *ledger.Ledger
	client store.AccountID

	mu   sync.Mutex
	now  time.Time
	bars map[protocol.NodeID]string
	seen map[string]int // by hook
	sum  store.Credit   // posted, by hook
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, c protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: c}) {
		t.Errorf("got %v, want code %s", err, c)
	}
}

func newWorld(t testing.TB) *world {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"))
	must(t, err)
	t.Cleanup(func() { db.Close() })
	w := &world{t: t, db: &flaky{Store: db}, now: t0}
	w.ledger, err = ledger.Open(t.Context(), w.db, ledger.Config{Now: w.clock})
	must(t, err)
	must(t, w.ledger.AddPrices(t.Context(), ledger.DefaultPrices(t0)))
	a, err := w.ledger.AddClient(t.Context(), "client")
	must(t, err)
	must(t, w.ledger.Grant(t.Context(), a.ID, "first", 1e13, ""))
	w.client = a.ID
	w.restart()
	return w
}

// restart is a tracker that begins anew: all but the database is lost.
func (w *world) restart() {
	w.t.Helper()
	w.mu.Lock()
	w.bars, w.seen, w.sum = map[protocol.NodeID]string{}, map[string]int{}, 0
	w.mu.Unlock()
	count := func(what string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen[what]++
	}
	in, err := Open(w.t.Context(), Config{
		Store: w.db, Ledger: w.ledger, Now: w.clock,
		Bar: func(id protocol.NodeID, why string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.bars[id] = why; why == "" {
				delete(w.bars, id)
			}
		},
		Hooks: Hooks{
			Judged: func(s protocol.ReceiptStatus, c protocol.Code) { count(string(s) + string(c)) },
			Proven: func(k faultKind) { count(string(k)) },
			Posted: func(s ledger.Status, amount store.Credit) {
				count(string(s))
				w.mu.Lock()
				defer w.mu.Unlock()
				if s == ledger.StatusPosted {
					w.sum += amount
				}
			},
		},
	})
	must(w.t, err)
	w.Intake = in
}

func (w *world) barred() map[protocol.NodeID]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.bars)
}

func (w *world) hook(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[what]
}

func nodeKey(i int) ed25519.PrivateKey { return receiptstest.Key(fmt.Sprint("node", i)) }
func nodeID(i int) protocol.NodeID     { return receiptstest.ID(nodeKey(i)) }

var driverKey = receiptstest.Key("driver")

// own gives node i an owner of its own.
func (w *world) own(i int) (id store.AccountID) {
	w.t.Helper()
	pub := receiptstest.Key(fmt.Sprint("owner", i)).Public().(ed25519.PublicKey)
	must(w.t, w.ledger.Update(w.t.Context(), func(tx store.LedgerTx, now time.Time) (err error) {
		if id, err = ledger.EnsureOwner(tx, pub, 0, now); err != nil {
			return err
		}
		return tx.AddNodeOwner(store.NodeOwner{Node: nodeID(i), Owner: id, Binding: []byte("{}"), At: now})
	}))
	return id
}

// session stores a session over nodes 0 to hops-1, and reserves credit for so
// many spans; 0 reserves none.
func (w *world) session(hops, spans int) *receiptstest.Route {
	w.t.Helper()
	var keys []ed25519.PrivateKey
	for i := range hops {
		keys = append(keys, nodeKey(i))
	}
	r := receiptstest.Sign(w.t, receiptstest.Key("tracker"), protocol.NewSessionID(), w.clock(), driverKey, keys...)
	w.addSession(r, spans)
	return r
}

func (w *world) addSession(r *receiptstest.Route, spans int) {
	w.t.Helper()
	raw, err := json.Marshal(r.Signed)
	must(w.t, err)
	l := r.Lease
	must(w.t, w.db.AddSession(w.t.Context(), store.Session{ID: l.Session, Driver: l.Driver, Model: l.Model, Lease: raw, Issued: l.Issued}))
	if spans == 0 {
		return
	}
	res := ledger.Reserve{Session: l.Session, Account: w.client, Model: l.Model, Prefill: 64, Decode: int64(spans-1) * 32, Expires: l.Expires}
	for _, h := range l.Hops {
		res.Hops = append(res.Hops, ledger.ReserveHop{Node: h.Node, Use: h.Use, Bytes: 100 * mib})
	}
	_, err = w.ledger.Reserve(w.t.Context(), res)
	must(w.t, err)
}

func (w *world) finish(r *receiptstest.Route, failed bool) {
	w.t.Helper()
	must(w.t, w.ledger.Finish(w.t.Context(), ledger.End{Session: r.Lease.Session, Failed: failed, Prefill: -1, Decode: -1}))
}

// send submits as the node of the first receipt's hop and wants one answer for
// all: a status, or the code of a refusal.
func (w *world) send(want string, from protocol.NodeID, raws ...[]byte) {
	w.t.Helper()
	for i, v := range w.Submit(w.t.Context(), from, raws) {
		got := string(v.Status)
		if v.Status == protocol.ReceiptRefused {
			got = string(v.Error.Code)
		}
		if got != want {
			w.t.Errorf("receipt %d: %s %v, want %s", i, v.Status, v.Error, want)
		}
	}
}

func (w *world) want(id store.AccountID, b store.Book, v store.Credit) {
	w.t.Helper()
	all, err := w.ledger.Balances(w.t.Context(), id)
	must(w.t, err)
	if all[b] != v {
		w.t.Errorf("%s has %s in %s, want %s", id, all[b], b, v)
	}
}

// check verifies the books, all of them.
func (w *world) check() {
	w.t.Helper()
	must(w.t, w.ledger.Check(context.Background()))
}
