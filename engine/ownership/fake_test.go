package ownership

import (
	"context"
	"crypto/ed25519"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/accounts"
	"neuron/engine/protocol"
	"neuron/engine/wallet"
	"neuron/internal/identity"
	"neuron/internal/owner"
)

// fakeTracker has the tracker's rules for owners, in memory. The end-to-end
// tests in engine/program run the real one.
type fakeTracker struct {
	mu sync.Mutex
	// Protected by mu.
	bound   map[protocol.NodeID]*owner.Binding
	ended   map[protocol.NodeID]int64 // by a release
	codes   map[string]*fakeCode
	binds   int
	asked   int
	down    error            // answers everything with it
	lose    map[string]bool  // calls that are done, and whose answer is lost
	refuse  map[string]error // calls that are refused
	expires func() time.Time // of codes
	calls   []string         // in order
}

type fakeCode struct {
	by      ed25519.PublicKey
	binding *owner.Binding
	done    bool
	until   time.Time
}

func newTracker() *fakeTracker {
	return &fakeTracker{
		bound: map[protocol.NodeID]*owner.Binding{}, ended: map[protocol.NodeID]int64{}, codes: map[string]*fakeCode{}, lose: map[string]bool{}, refuse: map[string]error{},
		expires: func() time.Time { return time.Now().Add(10 * time.Minute) },
	}
}

var errLost = protocol.Errorf(protocol.CodeUnavailable, "the connection broke")

// call runs f as a call of the tracker.
func (t *fakeTracker) call(name string, f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, name)
	if t.down != nil {
		return t.down
	}
	if err := t.refuse[name]; err != nil {
		return err
	}
	err := f()
	if t.lose[name] {
		delete(t.lose, name)
		return errLost
	}
	return err
}

func (t *fakeTracker) set(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

// count reads a figure while the tracker may be asked.
func (t *fakeTracker) count(n *int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *n
}

func (t *fakeTracker) ownerOf(n protocol.NodeID) owner.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ownerLocked(n)
}

func (t *fakeTracker) ownerLocked(n protocol.NodeID) owner.ID {
	if b := t.bound[n]; b != nil {
		return b.Owner()
	}
	return ""
}

func (t *fakeTracker) bindLocked(b *owner.Binding) error {
	if err := b.Check(); err != nil {
		return err
	}
	if have := t.bound[b.Node()]; have != nil && b.At <= have.At {
		if have.At == b.At && have.Owner() == b.Owner() {
			return nil
		}
		return protocol.Errorf(protocol.CodeConflict, "a newer binding of this node is known")
	}
	if b.At <= t.ended[b.Node()] {
		return protocol.Errorf(protocol.CodeConflict, "a newer release of this node is known")
	}
	t.binds++
	t.bound[b.Node()] = b
	return nil
}

func (t *fakeTracker) Bind(_ context.Context, _ ed25519.PrivateKey, b *owner.Binding) error {
	return t.call("bind", func() error { return t.bindLocked(b) })
}

func (t *fakeTracker) Release(_ context.Context, _ ed25519.PrivateKey, r *owner.Release) error {
	return t.call("release", func() error {
		if err := r.Check(); err != nil {
			return err
		}
		n := protocol.NodeIDOf(r.NodeKey)
		if t.ownerLocked(n) != owner.IDOf(r.OwnerKey) {
			return protocol.Errorf(protocol.CodeNotFound, "not this owner's")
		}
		if r.At < t.bound[n].At {
			return protocol.Errorf(protocol.CodeConflict, "older than the binding")
		}
		t.ended[n] = r.At
		delete(t.bound, n)
		return nil
	})
}

func (t *fakeTracker) OwnerOf(_ context.Context, node ed25519.PrivateKey) (id owner.ID, err error) {
	err = t.call("owner", func() error {
		t.asked++
		id = t.ownerLocked(protocol.NodeIDOf(public(node)))
		return nil
	})
	return id, err
}

func (t *fakeTracker) codeLocked(code string, open bool) (*fakeCode, error) {
	c := t.codes[strings.ToUpper(code)]
	if c == nil || time.Now().After(c.until) || open && c.binding != nil {
		return nil, protocol.Errorf(protocol.CodeNotFound, "the pairing code is wrong, used or too old")
	}
	return c, nil
}

func (t *fakeTracker) Lookup(_ context.Context, _ ed25519.PrivateKey, code string) (key ed25519.PublicKey, err error) {
	err = t.call("lookup", func() error {
		c, err := t.codeLocked(code, true)
		if err == nil {
			key = c.by
		}
		return err
	})
	return key, err
}

func (t *fakeTracker) Offer(_ context.Context, node ed25519.PrivateKey, code string, b *owner.Binding) error {
	return t.call("offer", func() error {
		if err := b.CheckNode(); err != nil {
			return err
		}
		c, err := t.codeLocked(code, true)
		if err != nil {
			return err
		}
		if !c.by.Equal(ed25519.PublicKey(b.OwnerKey)) || b.Node() != protocol.NodeIDOf(public(node)) {
			return protocol.Errorf(protocol.CodeForbidden, "of somebody else")
		}
		c.binding = b
		return nil
	})
}

func (t *fakeTracker) StartPairing(_ context.Context, key ed25519.PrivateKey) (p *accounts.Pairing, err error) {
	err = t.call("pair", func() error {
		code := "CODE" + string(rune('A'+len(t.codes)))
		t.codes[code] = &fakeCode{by: public(key), until: t.expires()}
		p = &accounts.Pairing{Code: code, Expires: t.codes[code].until}
		return nil
	})
	return p, err
}

func (t *fakeTracker) Offered(_ context.Context, key ed25519.PrivateKey, code string) (o *accounts.Offered, err error) {
	err = t.call("offered", func() error {
		c, err := t.codeLocked(code, false)
		if err != nil {
			return err
		}
		if !c.by.Equal(key.Public()) {
			return protocol.Errorf(protocol.CodeNotFound, "of somebody else")
		}
		o = &accounts.Offered{Waiting: c.binding == nil, Yours: c.done}
		if c.binding != nil {
			b := *c.binding
			o.Binding, o.Info = &b, &accounts.NodeInfo{Host: "4 cores"}
		}
		return nil
	})
	return o, err
}

func (t *fakeTracker) Confirm(_ context.Context, _ ed25519.PrivateKey, code string, b *owner.Binding) error {
	return t.call("confirm", func() error {
		c, err := t.codeLocked(code, false)
		if err != nil {
			return err
		}
		if c.binding == nil || c.binding.Node() != b.Node() || c.binding.At != b.At {
			return protocol.Errorf(protocol.CodeForbidden, "not what the node has signed")
		}
		if err := t.bindLocked(b); err != nil {
			return err
		}
		c.done = true
		return nil
	})
}

func (t *fakeTracker) Account(_ context.Context, key ed25519.PrivateKey) (a *accounts.Account, err error) {
	err = t.call("account", func() error {
		a = new(accounts.Account)
		for n, b := range t.bound {
			if b.Owner() == owner.IDOf(public(key)) {
				a.Nodes = append(a.Nodes, accounts.Node{Node: n, NodeKey: b.NodeKey, Since: time.Unix(b.At, 0)})
			}
		}
		return nil
	})
	return a, err
}

// computer is a folder with a node's key and a wallet.
type computer struct {
	t   *testing.T
	dir string
	id  *identity.Identity
	own owner.ID
	tr  *fakeTracker
	now func() time.Time
	*Keeper
}

func newComputer(t *testing.T, tr *fakeTracker) *computer {
	t.Helper()
	c := &computer{t: t, dir: filepath.Join(t.TempDir(), "data"), tr: tr, now: time.Now}
	c.restart()
	return c
}

// restart is what a kill and a new start leave: the files alone.
func (c *computer) restart() {
	c.t.Helper()
	var err error
	if c.id, err = identity.LoadOrCreate(c.dir); err != nil {
		c.t.Fatal(err)
	}
	w, err := wallet.Open(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.own, err = w.Owner(); err != nil {
		c.t.Fatal(err)
	}
	c.Keeper = New(Options{Wallet: w, Notes: wallet.NotesAt(c.dir), Node: c.id, Tracker: c.tr, Now: func() time.Time { return c.now() }})
}

func (c *computer) want(s State, status Status, wanted owner.ID) {
	c.t.Helper()
	if s.Status != status || s.Wanted != wanted || s.Own != c.own {
		c.t.Errorf("state %+v, want %s to %s", s, status, wanted.Short())
	}
}

func (c *computer) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: code}) {
		t.Errorf("error %v, want %s", err, code)
	}
}
