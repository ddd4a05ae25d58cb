package owners

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/owner"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

var t0 = time.Unix(1_800_000_000, 0).UTC()

type world struct {
	*Owners
	t   *testing.T
	l   *ledger.Ledger
	now time.Time
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
	if w.l, err = ledger.Open(t.Context(), db, ledger.Config{Now: clock, StartingCredit: 1000}); err != nil {
		t.Fatal(err)
	}
	w.Owners = New(w.l, clock)
	return w
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

func key(i int) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i)}, 32))
}

func pub(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func binding(node, by int, at time.Time) *owner.Binding {
	b := owner.NewBinding(pub(key(node)), pub(key(by)), at)
	b.SignNode(key(node))
	b.SignOwner(key(by))
	return b
}

func (w *world) available(a store.AccountID) store.Credit {
	w.t.Helper()
	b, err := w.l.Balances(w.t.Context(), a)
	w.must(err)
	return b[store.Available]
}

func TestBind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	first := binding(1, 101, t0)
	var alice store.AccountID
	for range 2 {
		a, err := w.Bind(ctx, first)
		w.must(err)
		alice = a
	}
	_, err := w.Bind(ctx, binding(2, 101, t0))
	w.must(err)
	if v := w.available(alice); v != 1000 {
		t.Errorf("the owner started with %d", v)
	}
	if nodes, err := w.Nodes(ctx, alice); err != nil || len(nodes) != 2 {
		t.Errorf("%+v, %v", nodes, err)
	}
	_, err = w.Bind(ctx, binding(1, 102, t0)) // not newer
	w.code(err, protocol.CodeConflict)
	_, err = w.Bind(ctx, binding(1, 102, t0.Add(3*time.Hour)))
	w.code(err, protocol.CodeInvalidRequest)
	forged := binding(3, 101, t0)
	forged.OwnerSig = forged.NodeSig
	_, err = w.Bind(ctx, forged)
	w.code(err, protocol.CodeForbidden)
	// The node changes hands; its old binding is a replay.
	bob, err := w.Bind(ctx, binding(1, 102, t0.Add(time.Hour)))
	w.must(err)
	if v := w.available(bob); v != 0 {
		t.Errorf("a node that changed hands brought %d", v)
	}
	_, err = w.Bind(ctx, first)
	w.code(err, protocol.CodeConflict)
	if o, err := w.Owner(ctx, first.Node()); err != nil || o.Owner != bob {
		t.Errorf("%+v, %v", o, err)
	}
	w.must(w.l.Check(ctx))
}

func TestRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	for i, by := range []ed25519.PrivateKey{key(1), key(101)} {
		at := t0.Add(time.Duration(3*i) * time.Minute)
		b := binding(1, 101, at)
		_, err := w.Bind(ctx, b)
		w.must(err)
		w.code(w.Release(ctx, owner.SignRelease(pub(key(1)), pub(key(101)), at.Add(-time.Minute), by)), protocol.CodeConflict)
		w.code(w.Release(ctx, owner.SignRelease(pub(key(1)), pub(key(102)), at.Add(time.Minute), key(102))), protocol.CodeNotFound)
		w.code(w.Release(ctx, owner.SignRelease(pub(key(1)), pub(key(101)), at.Add(time.Minute), key(5))), protocol.CodeForbidden)
		w.must(w.Release(ctx, owner.SignRelease(pub(key(1)), pub(key(101)), at.Add(time.Minute), by)))
		_, err = w.Owner(ctx, b.Node())
		w.code(err, protocol.CodeNotFound)
		_, err = w.Bind(ctx, b) // what was released does not come back by a replay
		w.code(err, protocol.CodeConflict)
	}
}

func TestPairing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	alice, err := w.Bind(ctx, binding(1, 101, t0))
	w.must(err)
	code, expires, err := w.StartPairing(ctx, alice)
	w.must(err)
	if len(code) != 8 || strings.Trim(code, codeChars) != "" || !expires.Equal(t0.Add(10*time.Minute)) {
		t.Errorf("code %q until %s", code, expires)
	}
	if b, err := w.Offered(ctx, alice, code); b != nil || err != nil {
		t.Errorf("%+v, %v", b, err)
	}
	typed := strings.ToLower(code[:4]) + "-" + code[4:] + " "
	ownerPub, err := w.Look(ctx, "node 2", typed)
	if err != nil || !ownerPub.Equal(pub(key(101))) {
		t.Fatalf("%x, %v", ownerPub, err)
	}
	b := owner.NewBinding(pub(key(2)), ownerPub, w.now)
	w.code(w.Offer(ctx, "node 2", typed, b), protocol.CodeForbidden) // unsigned
	b.SignNode(key(2))
	other := owner.NewBinding(pub(key(2)), pub(key(102)), w.now)
	other.SignNode(key(2))
	w.code(w.Offer(ctx, "node 2", typed, other), protocol.CodeForbidden)
	w.must(w.Offer(ctx, "node 2", typed, b))
	w.must(w.Offer(ctx, "node 2", typed, b)) // the answer got lost
	third := owner.NewBinding(pub(key(3)), ownerPub, w.now)
	third.SignNode(key(3))
	w.code(w.Offer(ctx, "node 3", typed, third), protocol.CodeNotFound) // used
	_, err = w.Look(ctx, "node 3", typed)
	w.code(err, protocol.CodeNotFound)
	_, err = w.Offered(ctx, "o-else", code)
	w.code(err, protocol.CodeNotFound)
	if _, none := w.Offered(ctx, "o-else", "AAAA2222"); err.Error() != none.Error() {
		t.Errorf("another owner's code is told from none: %v, %v", err, none)
	}
	got, err := w.Offered(ctx, alice, code)
	w.must(err)
	if got.Node() != b.Node() || got.CheckNode() != nil {
		t.Errorf("%+v", got)
	}
	_, err = w.Accept(ctx, code, got) // not signed by the owner
	w.code(err, protocol.CodeForbidden)
	got.SignOwner(key(101))
	changed := binding(2, 101, t0.Add(time.Second))
	_, err = w.Accept(ctx, code, changed)
	w.code(err, protocol.CodeForbidden)
	for range 2 {
		if a, err := w.Accept(ctx, code, got); err != nil || a != alice {
			t.Errorf("%s, %v", a, err)
		}
	}
	if nodes, err := w.Nodes(ctx, alice); err != nil || len(nodes) != 2 {
		t.Errorf("%+v, %v", nodes, err)
	}
	if v := w.available(alice); v != 1000 {
		t.Errorf("one balance for both nodes: %d", v)
	}
}

func TestPairingExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	alice, err := w.Bind(ctx, binding(1, 101, t0))
	w.must(err)
	_, _, err = w.StartPairing(ctx, "o-nobody")
	w.code(err, protocol.CodeNotFound)
	var code string
	for range maxOpen {
		code, _, err = w.StartPairing(ctx, alice)
		w.must(err)
	}
	_, _, err = w.StartPairing(ctx, alice)
	w.code(err, protocol.CodeRateLimited)
	w.now = w.now.Add(CodeFor)
	_, err = w.Look(ctx, "n", code)
	w.must(err)
	w.now = w.now.Add(time.Second)
	_, err = w.Look(ctx, "n", code)
	w.code(err, protocol.CodeNotFound)
	_, err = w.Offered(ctx, alice, code)
	w.code(err, protocol.CodeNotFound)
	if _, _, err = w.StartPairing(ctx, alice); err != nil {
		t.Error(err)
	}
}

// TestGuessing: wrong codes are counted per source and in all, also when they
// come at one time, and right ones of others pass meanwhile.
func TestGuessing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	alice, err := w.Bind(ctx, binding(1, 101, t0))
	w.must(err)
	code, _, err := w.StartPairing(ctx, alice)
	w.must(err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				_, _ = w.Look(ctx, "guesser", "AAAA2222")
			}
		})
	}
	wg.Wait()
	_, err = w.Look(ctx, "guesser", code)
	w.code(err, protocol.CodeRateLimited)
	if _, err = w.Look(ctx, "honest", code); err != nil {
		t.Error(err)
	}
	for i := range allSources {
		w.tries.wrong(fmt.Sprint(i))
	}
	_, err = w.Look(ctx, "another", code)
	w.code(err, protocol.CodeRateLimited)
	w.now = w.now.Add(CodeFor)
	if _, err = w.Look(ctx, "guesser", code); err != nil {
		t.Error(err)
	}
}
