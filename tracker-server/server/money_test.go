package server

import (
	"context"
	"crypto/ed25519"
	"testing"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/owner"
	"neuron/tracker-server/billing"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/store"
)

// own binds a node to an owner's key.
func (tr *tracker) own(node, by ed25519.PrivateKey) store.AccountID {
	tr.t.Helper()
	b := owner.NewBinding(node.Public().(ed25519.PublicKey), by.Public().(ed25519.PublicKey), tr.clock.Now())
	b.SignNode(node)
	b.SignOwner(by)
	id, err := tr.core.owners.Bind(tr.t.Context(), b)
	if err != nil {
		tr.t.Fatal(err)
	}
	return id
}

func (tr *tracker) balance(id store.AccountID, b store.Book) store.Credit {
	tr.t.Helper()
	all, err := tr.core.ledger.Balances(tr.t.Context(), id)
	if err != nil {
		tr.t.Fatal(err)
	}
	return all[b]
}

// paidNetwork is a tracker with the guide model on one owned node, and an owned
// gateway.
func paidNetwork(t *testing.T, c *clock, o Options) (tr *tracker, m *manifest.Manifest, node, gateway *fake, worker, client store.AccountID) {
	t.Helper()
	tr = startWith(t, c, o)
	m = tr.publishGuide(false)
	node, gateway = tr.join(newKey(), protocol.RoleNode), tr.join(newKey(), protocol.RoleGateway)
	node.shard(m, protocol.ShardReady, 0, m.Layers, nil)
	eventually(t, "a route", func() bool { l := tr.core.Models(); return len(l) == 1 && l[0].Routable })
	return tr, m, node, gateway, tr.own(node.key, newKey()), tr.own(gateway.key, newKey())
}

func (f *fake) ask(change func(*protocol.RouteRequest)) protocol.SessionID {
	f.t.Helper()
	r := protocol.RouteRequest{Session: protocol.NewSessionID(), Model: "guide", Context: 100, Prompt: 60, Policy: protocol.PolicyPublic}
	if change != nil {
		change(&r)
	}
	f.send(protocol.MsgRoute, r)
	return r.Session
}

// TestSessionReservesAndGivesBack: credit is set aside before the lease is
// given, a failed session gives all of it back, and a good one what its
// receipts did not take.
func TestSessionReservesAndGivesBack(t *testing.T) {
	t.Parallel()
	tr, m, _, g, worker, client := paidNetwork(t, &clock{}, Options{Data: t.TempDir(), StartingCredit: 1_000_000_000})
	bytes := m.WeightBytes(protocol.Range{First: 0, Last: m.Layers})
	row, _ := ledger.RowPrice(bytes, 1000)
	most := 60*(row*150_000/1_000_000) + 40*row

	g.ask(nil)
	l := g.lease(tr)
	if got := tr.balance(client, store.Reserved); got != most || most == 0 {
		t.Fatalf("%s are reserved, want %s", got, most)
	}
	g.telemetry(l, 1, protocol.PhaseFailed, func(t *protocol.Telemetry) {
		t.Error = protocol.Errorf(protocol.CodeHopLost, "gone").AtHop(0)
	})
	eventually(t, "all credit back", func() bool { return tr.balance(client, store.Reserved) == 0 })

	g.ask(nil)
	l = g.lease(tr)
	res, err := tr.core.ledger.Submit(t.Context(), []ledger.Work{{
		Session: l.Session, Node: l.Hops[0].Node, Bytes: bytes, First: 0, Last: 60, Prefill: 60, BothSigned: true,
	}})
	if err != nil || res[0].Status != ledger.StatusPosted {
		t.Fatalf("%+v, %v", res, err)
	}
	g.telemetry(l, 1, protocol.PhaseDone, func(t *protocol.Telemetry) {
		t.Finish = protocol.FinishStop
		t.Route[0].Counters = protocol.Counters{PrefillRows: 60}
	})
	eventually(t, "earnings", func() bool { return tr.balance(worker, store.Pending) == res[0].Amount })
	tr.clock.Advance(2 * time.Minute)
	eventually(t, "the rest back", func() bool { return tr.balance(client, store.Reserved) == 0 })
	if got := tr.balance(client, store.Available); got != 1_000_000_000-res[0].Amount {
		t.Errorf("the client has %s", got)
	}
	tr.clock.Advance(2 * time.Hour)
	if n, err := tr.core.ledger.Settle(t.Context()); err != nil || n != 1 || tr.balance(worker, store.Available) != 1_000_000_000+res[0].Amount {
		t.Errorf("%d settled, %v, the worker has %s", n, err, tr.balance(worker, store.Available))
	}
	if err := tr.core.ledger.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWhoPays: a key before the owner, nobody where that is allowed, and never
// silently nobody for a key that is wrong.
func TestWhoPays(t *testing.T) {
	t.Parallel()
	tr, _, _, g, _, client := paidNetwork(t, &clock{}, Options{Data: t.TempDir(), Credit: billing.Required, StartingCredit: 1_000_000_000})
	ctx := t.Context()
	other, err := tr.core.ledger.AddClient(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.core.ledger.Grant(ctx, other.ID, "first", 500_000_000, ""); err != nil {
		t.Fatal(err)
	}
	secret, key, err := tr.core.keys.Create(ctx, other.ID, "web", keys.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	g.ask(func(r *protocol.RouteRequest) { r.APIKey = string(secret) })
	g.lease(tr)
	if tr.balance(other.ID, store.Reserved) == 0 || tr.balance(client, store.Reserved) != 0 {
		t.Error("the key's account does not pay")
	}
	g.ask(func(r *protocol.RouteRequest) { r.APIKey = string(secret) + "x" })
	g.expectError(protocol.CodeUnauthorized)
	if err := tr.core.keys.Revoke(ctx, other.ID, key.ID); err != nil {
		t.Fatal(err)
	}
	g.ask(func(r *protocol.RouteRequest) { r.APIKey = string(secret) })
	g.expectError(protocol.CodeUnauthorized)

	stranger := tr.join(newKey(), protocol.RoleGateway)
	stranger.ask(nil)
	stranger.expectError(protocol.CodeUnauthorized)
	tight, _, err := tr.core.keys.Create(ctx, other.ID, "tight", keys.Limits{Budget: 1})
	if err != nil {
		t.Fatal(err)
	}
	before := tr.balance(other.ID, store.Reserved)
	g.ask(func(r *protocol.RouteRequest) { r.APIKey = string(tight) })
	g.expectError(protocol.CodeBudget)
	if got := tr.balance(other.ID, store.Reserved); got != before {
		t.Errorf("a refused session holds %s", got-before)
	}
	// A refused session leaves nothing: its memory is free, its id unused.
	tr.core.mu.Lock()
	live := 0
	for _, n := range tr.core.table.Live() {
		live += n
	}
	tr.core.mu.Unlock()
	if live != 1 {
		t.Errorf("%d sessions live, want the one that was paid for", live)
	}
}

// TestPrivateRouteOfOneOwner: without a list a private route takes the nodes of
// the gateway's owner, and costs nothing.
func TestPrivateRouteOfOneOwner(t *testing.T) {
	t.Parallel()
	tr, m, _, g, _, client := paidNetwork(t, &clock{}, Options{Data: t.TempDir(), Credit: billing.Required, StartingCredit: 1_000_000_000})
	private := func(r *protocol.RouteRequest) { r.Policy = protocol.PolicyPrivate }
	g.ask(private)
	g.expectError(protocol.CodeNoRoute)
	mine := newKey()
	tr.clock.Advance(time.Second)
	tr.own(g.key, mine) // the newest binding counts
	own := tr.join(newKey(), protocol.RoleNode)
	account := tr.own(own.key, mine)
	own.shard(m, protocol.ShardReady, 0, m.Layers, func(r *protocol.Report) { r.Shards[0].StepMicros = 900_000 })
	eventually(t, "the second node", func() bool { return tr.core.Models()[0].Replicas[0] == 2 })
	g.ask(private)
	if l := g.lease(tr); len(l.Hops) != 1 || l.Hops[0].Node != own.id() {
		t.Errorf("the route is %+v", l.Hops)
	}
	if tr.balance(account, store.Reserved) != 0 || tr.balance(client, store.Reserved) != 0 {
		t.Error("a private route cost credit")
	}
	if w := tr.join(g.key, protocol.RoleGateway).welcome; w.Owner != string(account) {
		t.Errorf("the welcome names owner %q", w.Owner)
	}
	stranger := tr.join(newKey(), protocol.RoleGateway)
	stranger.ask(private)
	stranger.expectError(protocol.CodeForbidden)
}

// TestMoneyOfASessionThatEndedBeforeTheStop: the end was written and the ledger
// was not told when the tracker died.
func TestMoneyOfASessionThatEndedBeforeTheStop(t *testing.T) {
	t.Parallel()
	c, dir := &clock{}, t.TempDir()
	tr, _, _, g, _, client := paidNetwork(t, c, Options{Data: dir, StartingCredit: 1_000_000_000})
	g.ask(nil)
	ended := g.lease(tr)
	g.ask(nil)
	lost := g.lease(tr)
	rec, err := tr.store.Session(t.Context(), ended.Session)
	if err != nil {
		t.Fatal(err)
	}
	tr.halt()

	// What a tracker that died in between leaves: an ended session whose
	// reservation is open, and a reservation without a session.
	s, err := New(Options{Listen: "127.0.0.1:0", Data: dir, Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	rec.Phase, rec.Ended, rec.Finish = protocol.PhaseFailed, c.Now(), protocol.FinishError
	rec.Error = protocol.Errorf(protocol.CodeHopLost, "gone")
	if err := s.store.UpdateSessions(t.Context(), []store.Session{rec}); err != nil {
		t.Fatal(err)
	}
	orphan := ledger.Reserve{Session: protocol.NewSessionID(), Account: client, Model: lost.Model, Decode: 10, Expires: lost.Expires,
		Hops: []ledger.ReserveHop{{Node: lost.Hops[0].Node, Use: lost.Hops[0].Use, Bytes: 1 << 20}}}
	if _, err := s.core.ledger.Reserve(t.Context(), orphan); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}

	tr = start(t, dir, c)
	one := tr.balance(client, store.Reserved)
	for _, x := range []struct {
		id   protocol.SessionID
		want store.ReservationState
	}{{ended.Session, store.ReservationFailed}, {orphan.Session, store.ReservationFailed}, {lost.Session, store.ReservationOpen}} {
		if err := tr.core.ledger.View(t.Context(), func(v store.LedgerView) error {
			r, err := v.Reservation(x.id)
			if err == nil && r.State != x.want {
				t.Errorf("the reservation of %s is in state %d, want %d", x.id, r.State, x.want)
			}
			if x.id == lost.Session && r.Amount != one {
				t.Errorf("%s are reserved, want %s", one, r.Amount)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}
