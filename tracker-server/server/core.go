package server

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"neuron/engine/protocol"
	"neuron/tracker-server/announce"
	"neuron/tracker-server/audit/numeric/desk"
	"neuron/tracker-server/billing"
	"neuron/tracker-server/catalog"
	"neuron/tracker-server/channel"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/ledger/owners"
	"neuron/tracker-server/placement/places"
	"neuron/tracker-server/receipts"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/routing"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/sessions/stored"
	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
	"neuron/tracker-server/telemetry"
	"neuron/tracker-server/telemetry/feed"
)

// peer is what the core needs of a connection. Its methods never block, so
// they may be called under the lock.
type peer interface {
	Node() protocol.NodeID
	Hello() *protocol.Hello
	Epoch() uint64
	Remote() netip.Addr
	Send(*protocol.Envelope) bool
	SendError(id uint64, err *protocol.Error)
	Refuse(err *protocol.Error, retryAfter int)
}

// peerKey: one engine may be connected once as node and once as gateway.
type peerKey struct {
	id   protocol.NodeID
	role protocol.Role
}

// core holds the tracker's state. Nothing waits for disk or network under mu.
type core struct {
	o       Options
	key     ed25519.PrivateKey
	store   store.Store
	metrics *metrics
	tokens  announce.Tokens
	kick    chan struct{} // wakes the persister; capacity 1
	explain *rate.Limiter

	ledger *ledger.Ledger // the money; these three have their own locks
	owners *owners.Owners
	keys   *keys.Keys

	billing   *billing.Desk // has its own lock
	receipts  *receipts.Intake
	announced *announce.Table // has its own lock
	recorder  *telemetry.Recorder
	feed      *feed.Hub
	ownerOf   sync.Map         // NodeID to owner (string), of nodes that connected and have one
	catalog   *catalog.Catalog // has its own lock
	operating sync.Mutex       // orders the operator's changes of standings
	swarm     atomic.Pointer[swarmPeers]

	routing  chan struct{}  // one for each route request under way
	requests sync.WaitGroup // their goroutines

	mu    sync.Mutex
	reg   *registry.Registry
	table *sessions.Table
	peers map[peerKey]peer
	dirty map[protocol.SessionID]store.Session // to be written
	// routes says why live sessions run where they do.
	routes map[protocol.SessionID]*routing.Route
	// places is what nodes should hold.
	places *places.Places
	// book is what the operator said of nodes and owners.
	book     *standing.Book
	bannedAt time.Time // of the newest look at banned owners
	// audits is nil until openAudits.
	audits *desk.Desk
	// What the newest round of peer lists was made from, and when.
	peersVersion uint64
	peersAt      time.Time
	peersDue     []peer // that the round has not reached yet
	// The same of swarm.
	swarmVersion uint64
	swarmAt      time.Time
}

func newCore(o Options, key ed25519.PrivateKey, st store.Store) *core {
	c := &core{
		routing: make(chan struct{}, routesAtOnce),
		o:       o, key: key, store: st, tokens: announce.NewTokens(key), kick: make(chan struct{}, 1), explain: rate.NewLimiter(explainRate, explainBurst),
		reg: registry.New(o.registryConfig()), table: sessions.New(o.sessionsConfig()),
		peers: make(map[peerKey]peer), dirty: make(map[protocol.SessionID]store.Session),
		routes: make(map[protocol.SessionID]*routing.Route),
	}
	c.announced = announce.New(announce.Config{Now: o.Now, Loopback: o.onLoopback()})
	c.places, c.book = places.New(), standing.NewBook(o.Admission, nil)
	c.catalog = catalog.New(catalog.Options{Store: st, Changed: c.catalogChanged, Sweep: c.announced.Sweep, Logger: o.Logger})
	c.swarm.Store(new(swarmPeers))
	c.metrics = newMetrics(c)
	return c
}

// restore takes back the sessions that lived when the tracker stopped.
func (c *core) restore(ctx context.Context) error {
	live, err := c.store.LiveSessions(ctx)
	if err != nil {
		return err
	}
	now := c.o.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rec := range live {
		s, err := stored.From(rec)
		if err != nil {
			c.o.Logger.Warn("a stored session cannot be read", "session", rec.ID, "err", err)
			continue
		}
		c.table.Restore(now, s)
		for i, h := range s.Lease.Hops {
			c.reg.Promise(h.Node, s.Lease.Session, s.Lease.Model, h.Use.First, s.KVBytes[i])
			if s.Phase == protocol.PhasePrefill || s.Phase == protocol.PhaseDecode {
				c.reg.Confirm(h.Node, s.Lease.Session, time.Time{})
			}
		}
	}
	if len(live) > 0 {
		c.o.Logger.Info("took back running sessions", "count", len(live))
	}
	return nil
}

// admit gives a new connection its epoch.
func (c *core) admit(ctx context.Context, h *protocol.Hello, id protocol.NodeID) (*protocol.Welcome, error) {
	if err := registry.CheckHello(h); err != nil {
		return nil, err
	}
	if why := c.refusalOf(id, ""); why != nil { // it costs no write
		return nil, why
	}
	epoch, err := c.store.NodeConnected(ctx, store.Node{
		ID: id, Role: h.Role, Addr: h.Addr, Host: h.Host, Engine: h.Engine, Llama: h.Build.Llama, LastSeen: c.o.Now(),
	})
	if err != nil {
		c.o.Logger.Error("record a connection", "node", id.Short(), "err", err)
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the tracker cannot write its database now")
	}
	bound, err := c.owners.Owner(ctx, id)
	if err != nil && !isCode(err, protocol.CodeNotFound) {
		c.o.Logger.Error("look up the owner of a node", "node", id.Short(), "err", err)
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the tracker cannot read its database now")
	}
	c.noteOwner(id, string(bound.Owner))
	if why := c.refusalOf(id, string(bound.Owner)); why != nil {
		return nil, why
	}
	return &protocol.Welcome{
		Node: id, Epoch: epoch, Tracker: c.key.Public().(ed25519.PublicKey), ReportSeconds: int(c.o.ReportEvery / time.Second),
		AnnounceToken: c.tokens.Of(id), Owner: string(bound.Owner), Network: c.o.Name,
	}, nil
}

func keyOf(p peer) peerKey { return peerKey{p.Node(), p.Hello().Role} }

func memberOf(p peer) registry.Member {
	h := p.Hello()
	return registry.Member{ID: p.Node(), Role: h.Role, Epoch: p.Epoch(), Addr: h.Addr, Host: h.Host, Engine: h.Engine, Build: h.Build, Remote: p.Remote()}
}

var errSuperseded = protocol.Errorf(protocol.CodeSuperseded, "a newer connection with the same identity took over")

// joined makes p the node's current connection, or refuses it when a newer one
// was faster.
func (c *core) joined(p peer) {
	now := c.o.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	k := keyOf(p)
	if why := c.book.Refusal(k.id, c.OwnerOf(k.id)); why != nil { // banned since it was admitted
		p.Refuse(why, 0)
		return
	}
	if k.role == protocol.RoleNode {
		c.limitLocked(k.id)
	}
	if !c.reg.Join(now, memberOf(p)) {
		p.Refuse(errSuperseded, 0)
		return
	}
	if old := c.peers[k]; old != nil {
		old.Refuse(errSuperseded, 0)
	}
	c.peers[k] = p
	c.table.DriverConnected(p.Node())
	c.o.Logger.Info("connected", "node", p.Node().Short(), "role", k.role, "epoch", p.Epoch())
	c.catchUpLocked(now, p)
	c.sendPeers(p, c.reg.Peers(now, memberOf(p), maxPeers))
}

// catchUpLocked tells a node what ended while it was away.
func (c *core) catchUpLocked(now time.Time, p peer) {
	for _, s := range c.table.List() {
		if s.End == nil || s.End.Error == nil || now.Sub(s.End.At) > c.o.LeaseFor {
			continue
		}
		if _, ok := s.Lease.HopOf(p.Node()); ok || s.Lease.Driver == p.Node() {
			c.sendLocked(p, protocol.MsgEndSession, protocol.EndSession{Session: s.Lease.Session, Error: s.End.Error})
		}
	}
}

func (c *core) left(p peer, bye bool) {
	now := c.o.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	k := keyOf(p)
	if c.peers[k] != p {
		return
	}
	delete(c.peers, k)
	c.reg.Left(memberOf(p), bye)
	if k.role == protocol.RoleNode {
		c.places.Drop(k.id)
	}
	if len(c.peersOfLocked(p.Node())) == 0 {
		c.table.DriverLost(now, p.Node())
	}
	c.o.Logger.Info("disconnected", "node", k.id.Short(), "role", k.role, "epoch", p.Epoch(), "bye", bye)
}

// peersOfLocked lists a node's connections, at most one per role.
func (c *core) peersOfLocked(id protocol.NodeID) []peer {
	var out []peer
	for _, role := range []protocol.Role{protocol.RoleNode, protocol.RoleGateway} {
		if p := c.peers[peerKey{id, role}]; p != nil {
			out = append(out, p)
		}
	}
	return out
}

func (c *core) sendLocked(p peer, k protocol.MessageKind, body any) {
	e, err := protocol.Pack(k, 0, body)
	if err != nil {
		c.o.Logger.Error("encode a message", "kind", k, "err", err)
		return
	}
	p.Send(e)
}

// finishLocked does what follows the end of a session: promises end, the end
// is written, and with tell all its nodes are told.
func (c *core) finishLocked(s sessions.Session, tell bool) {
	code := protocol.Code("")
	if s.End.Error != nil {
		code = s.End.Error.Code
	}
	c.metrics.ended(s.Phase, code)
	c.o.Logger.Info("session ended", "session", s.Lease.Session, "phase", s.Phase, "finish", s.End.Finish, "code", code)
	c.record(&s)
	told := map[protocol.NodeID]bool{}
	tellNode := func(id protocol.NodeID) {
		if told[id] || !tell {
			return
		}
		told[id] = true
		for _, p := range c.peersOfLocked(id) {
			c.sendLocked(p, protocol.MsgEndSession, protocol.EndSession{Session: s.Lease.Session, Error: s.End.Error})
		}
	}
	for _, h := range s.Lease.Hops {
		c.reg.Release(h.Node, s.Lease.Session)
		tellNode(h.Node)
	}
	tellNode(s.Lease.Driver)
	delete(c.routes, s.Lease.Session)
	c.billing.Ended(&s)
	c.audits.SessionEndedLocked(s.Lease.Session, s.Phase == protocol.PhaseFailed)
	c.writeLocked(s)
}

// writeLocked hands a session to the persister.
func (c *core) writeLocked(s sessions.Session) {
	rec, err := stored.To(s)
	if err != nil {
		c.o.Logger.Error("encode a session", "session", s.Lease.Session, "err", err)
		return
	}
	c.dirty[rec.ID] = rec
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// persist writes what has changed; it is called by one goroutine at a time.
// What cannot be written stays for the next call.
func (c *core) persist(ctx context.Context) error {
	defer c.audits.Write(ctx)
	c.mu.Lock()
	batch := c.dirty
	c.dirty = make(map[protocol.SessionID]store.Session)
	c.mu.Unlock()
	if len(batch) == 0 {
		return c.billing.Finish(ctx)
	}
	list := make([]store.Session, 0, len(batch))
	for _, s := range batch {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b store.Session) int { return cmp.Compare(a.ID, b.ID) })
	err := c.store.UpdateSessions(store.Later(ctx), list)
	if err != nil {
		c.mu.Lock()
		for id, s := range batch {
			if _, newer := c.dirty[id]; !newer {
				c.dirty[id] = s
			}
		}
		c.mu.Unlock()
		return err
	}
	// A session's end is written before its money ends: after a crash in between
	// billing.Restore goes on.
	return c.billing.Finish(ctx)
}

// tick does what time brings: ghosts expire, sessions are given up, peer lists
// go out after changes.
func (c *core) tick() {
	c.tickLocked()
	for n, more := 0, true; more && n < peersPerTick; n += peersAtOnce {
		var lists []duePeers
		lists, more = c.someLists()
		for _, due := range lists {
			c.sendPeers(due.to, due.peers)
		}
	}
}

// duePeers is a peer list on its way.
type duePeers struct {
	to    peer
	peers []protocol.Peer
}

// tickLocked is what tick does under the lock at one time. Peer lists are made
// under it, too; they are encoded and sent without it.
func (c *core) tickLocked() {
	now := c.o.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.reg.Expire(now) {
		k := peerKey{m.ID, m.Role}
		if p := c.peers[k]; p != nil && p.Epoch() == m.Epoch {
			delete(c.peers, k)
			if len(c.peersOfLocked(m.ID)) == 0 {
				c.table.DriverLost(now, m.ID)
			}
			p.Refuse(protocol.Errorf(protocol.CodeTimeout, "no report came for a minute"), 5)
		}
	}
	for _, s := range c.table.Sweep(now) {
		c.finishLocked(s, true)
	}
	c.banOwnersLocked(now)
	c.refreshSwarmLocked(now)
	if v := c.reg.Version(); v != c.peersVersion && now.Sub(c.peersAt) >= peersEvery && len(c.peersDue) == 0 {
		c.peersVersion, c.peersAt = v, now
		c.reg.RefreshPeers(now)
		for _, p := range c.peers {
			c.peersDue = append(c.peersDue, p)
		}
	}
}

// someLists makes the peer lists of some connections, and reports whether more
// are due.
func (c *core) someLists() (lists []duePeers, more bool) {
	now := c.o.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.peersDue), peersAtOnce)
	for _, p := range c.peersDue[:n] {
		if c.peers[keyOf(p)] == p {
			if list := c.reg.Peers(now, memberOf(p), maxPeers); len(list) > 0 {
				lists = append(lists, duePeers{p, list})
			}
		}
	}
	if c.peersDue = c.peersDue[n:]; len(c.peersDue) == 0 {
		c.peersDue = nil
	}
	return lists, c.peersDue != nil
}

const (
	peersEvery = 2 * time.Second // between two rounds of peer lists
	maxPeers   = 64
	// peersAtOnce bounds how many lists are made in one go: route requests wait
	// for the same lock. A tick makes some of those, which takes its time, too.
	peersAtOnce  = 8
	peersPerTick = 128
)

func (c *core) sendPeers(p peer, list []protocol.Peer) {
	if len(list) > 0 {
		c.sendLocked(p, protocol.MsgPeers, protocol.Peers{Peers: list}) // needs no lock
	}
}

// hubHandler adapts the core to the channel package.
type hubHandler struct{ *core }

func (h hubHandler) Admit(ctx context.Context, m *protocol.Hello, id protocol.NodeID) (*protocol.Welcome, error) {
	return h.admit(ctx, m, id)
}
func (h hubHandler) Joined(c *channel.Conn) { h.joined(c) }
func (h hubHandler) Message(ctx context.Context, c *channel.Conn, e *protocol.Envelope) {
	h.message(ctx, c, e)
}
func (h hubHandler) Left(c *channel.Conn, bye bool) { h.left(c, bye) }
