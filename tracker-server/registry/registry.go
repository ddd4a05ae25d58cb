// Package registry is the tracker's picture of the network now: which nodes
// are connected, what they hold, and what they can still take.
//
// It is a pure state machine: time comes in as an argument, nothing is read or
// written, and no goroutine runs. It is not safe for concurrent use; the
// server guards it. Only the server imports it. It knows no websocket, no
// store and no lease, only the KV bytes that were promised.
package registry

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/routing"
)

// Config holds the registry's times.
type Config struct {
	// ReportEvery is how often nodes report. After two missed reports, and half
	// an interval of grace, a node gets no new sessions.
	ReportEvery time.Duration
	// ExpireAfter removes a node that has not reported for so long.
	ExpireAfter time.Duration
}

func (c Config) drainAfter() time.Duration { return 2*c.ReportEvery + c.ReportEvery/2 }

// settle is how long after a session's opening a report may still be older
// than the opening.
const settle = 2 * time.Second

// State is what the network can expect of a node.
type State string

// The node states.
const (
	StateJoining  State = "joining"  // connected, no report yet
	StateReady    State = "ready"    // takes sessions
	StateDraining State = "draining" // runs its sessions, gets no new ones
	StateOff      State = "off"      // its owner or its policy takes no sessions
	StateGateway  State = "gateway"  // only asks for routes
)

// States lists all node states, in the order in which tables show them.
func States() []State {
	return []State{StateReady, StateJoining, StateDraining, StateOff, StateGateway}
}

// Member is what a connection said about itself.
type Member struct {
	ID     protocol.NodeID
	Role   protocol.Role
	Epoch  uint64
	Addr   string
	Host   string
	Engine string
	Build  protocol.Build
	// Remote is where the connection comes from.
	Remote netip.Addr
}

// memberKey tells a node's connection from the same engine's gateway one.
type memberKey struct {
	id   protocol.NodeID
	role protocol.Role
}

type member struct {
	Member
	joined    time.Time
	connected bool
	// fresh says that the report came over the newest connection.
	fresh    bool
	reported time.Time // arrival of the newest report, zero before it
	report   *protocol.Report
	swarm    netip.AddrPort // of the report, as far as it can be believed
	suspect  bool           // a neighbour blamed it; the next report clears it
	drained  string         // why the operator wants no new sessions on it
	failures int
	models   []*model // that it holds shards of
	gone     bool     // no longer in the registry
}

// Registry holds all members and all promises.
type Registry struct {
	cfg     Config
	members map[memberKey]*member
	// promised outlives members: leases survive a node's reconnect and the
	// tracker's restart.
	promised map[protocol.NodeID]map[protocol.SessionID]*promise
	catalog  map[protocol.ModelID]*Published
	version  uint64

	// What routes are made of, see refresh.
	models map[modelKey]*model
	byID   map[protocol.ModelID][]*model
	byName map[string][]*model
	links  *routing.Links
	recent map[protocol.NodeID]recent
	barred map[protocol.NodeID]string
	limits map[protocol.NodeID]Limit
	rings  rings
	now    time.Time // the newest that any event brought
}

// promise is KV memory that a lease gave away and that no report shows yet.
type promise struct {
	model     protocol.ModelID
	first     int
	bytes     int64
	confirmed bool
	since     time.Time // when it was confirmed
}

// New makes an empty registry.
func New(cfg Config) *Registry {
	return &Registry{
		cfg:      cfg,
		members:  make(map[memberKey]*member),
		promised: make(map[protocol.NodeID]map[protocol.SessionID]*promise),
		models:   make(map[modelKey]*model),
		byID:     make(map[protocol.ModelID][]*model),
		byName:   make(map[string][]*model),
		links:    routing.NewLinks(),
		recent:   make(map[protocol.NodeID]recent),
		barred:   make(map[protocol.NodeID]string),
		limits:   make(map[protocol.NodeID]Limit),
	}
}

// tick moves the registry's time on.
func (r *Registry) tick(now time.Time) {
	if now.After(r.now) {
		r.now = now
	}
}

// Version grows with each change of who is connected and of who holds what;
// figures in reports do not change it.
func (r *Registry) Version() uint64 { return r.version }

// Join records a connection. A node that comes back replaces its old entry;
// what it held counts again when it reports. It returns false when a
// connection with a higher epoch is known already.
func (r *Registry) Join(now time.Time, m Member) bool {
	k := memberKey{m.ID, m.Role}
	old := r.members[k]
	if old != nil && old.Epoch > m.Epoch {
		return false
	}
	r.version++
	n := &member{Member: m, joined: now, connected: true, drained: r.limits[m.ID].Drained}
	if old != nil {
		n.failures = old.failures
		if old.Build == m.Build {
			n.report, n.reported = old.report, old.reported // swarm waits for a report: the address may be another
		}
	}
	r.members[k] = n
	r.tick(now)
	if old != nil {
		old.gone = true
		r.refresh(old)
		if n.report == nil {
			r.links.Set(m.ID, nil)
		}
	}
	r.refresh(n)
	return true
}

// remove forgets a member and what it said.
func (r *Registry) remove(n *member) {
	delete(r.members, memberKey{n.ID, n.Role})
	n.gone = true
	r.refresh(n)
	if n.Role == protocol.RoleNode {
		r.links.Set(n.ID, nil)
		delete(r.limits, n.ID) // told again when it comes back
	}
}

// Left records that a connection is gone. A node that said goodbye is removed
// at once; one that only lost its connection is drained until it returns or
// expires. Older epochs are ignored.
func (r *Registry) Left(m Member, bye bool) {
	k := memberKey{m.ID, m.Role}
	n := r.members[k]
	if n == nil || n.Epoch != m.Epoch {
		return
	}
	r.version++
	if bye || m.Role == protocol.RoleGateway || n.report == nil {
		r.remove(n)
		return
	}
	n.connected = false
	n.fresh = false
	r.refresh(n)
}

// Report replaces the node's state. The report must have passed CheckReport.
// Errors: forbidden for gateways, superseded for old epochs.
func (r *Registry) Report(now time.Time, m Member, rep *protocol.Report) error {
	n := r.members[memberKey{m.ID, m.Role}]
	if m.Role != protocol.RoleNode {
		return protocol.Errorf(protocol.CodeForbidden, "only nodes report shards")
	}
	if n == nil || n.Epoch != m.Epoch {
		return protocol.Errorf(protocol.CodeSuperseded, "this connection is not the node's newest one")
	}
	if !n.fresh || n.suspect || n.report == nil || !sameShards(n.report, rep) {
		r.version++
	}
	n.report, n.reported, n.fresh, n.suspect = rep, now, true, false
	n.swarm = swarmAddr(n.Remote, rep.Swarm)
	for s, p := range r.promised[m.ID] {
		if p.confirmed && !now.Before(p.since.Add(settle)) {
			r.release(m.ID, s)
		}
	}
	r.tick(now)
	r.links.Set(m.ID, rep.RTTMicros)
	r.refresh(n)
	return nil
}

// sameShards compares what makes the coverage map, not the figures.
func sameShards(a, b *protocol.Report) bool {
	return a.SharingOff == b.SharingOff && a.Swarm == b.Swarm && slices.EqualFunc(a.Shards, b.Shards, func(x, y protocol.ShardReport) bool {
		return x.State == y.State && x.Capability.Model == y.Capability.Model && x.Capability.Loaded == y.Capability.Loaded
	})
}

// Suspect drains a node until its next report: a neighbour could not reach it.
func (r *Registry) Suspect(id protocol.NodeID) {
	if n := r.members[memberKey{id, protocol.RoleNode}]; n != nil {
		n.suspect = true
		n.failures++
		r.version++
		r.refresh(n)
	}
}

// Expire removes nodes that have been silent for too long and returns those
// that still have a connection, which the caller closes.
func (r *Registry) Expire(now time.Time) []Member {
	var ghosts []Member
	for _, n := range r.members {
		if n.Role != protocol.RoleNode {
			continue
		}
		last := n.reported
		if n.connected && n.joined.After(last) {
			last = n.joined
		}
		if now.Sub(last) < r.cfg.ExpireAfter {
			continue
		}
		if n.connected {
			ghosts = append(ghosts, n.Member)
		}
		r.remove(n)
		r.version++
	}
	r.tick(now)
	for id, u := range r.recent {
		if u.now(now) < 0.1 {
			delete(r.recent, id)
		}
	}
	slices.SortFunc(ghosts, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return ghosts
}

// Promise keeps KV memory of a node for a session until a report shows it.
func (r *Registry) Promise(node protocol.NodeID, s protocol.SessionID, model protocol.ModelID, first int, bytes int64) {
	of := r.promised[node]
	if of == nil {
		of = make(map[protocol.SessionID]*promise)
		r.promised[node] = of
	}
	of[s] = &promise{model: model, first: first, bytes: bytes}
	r.changed(node)
}

// Confirm says that the session is open on the node since then: the next
// report that cannot be older shows its memory, and the promise ends with it.
func (r *Registry) Confirm(node protocol.NodeID, s protocol.SessionID, since time.Time) {
	if p := r.promised[node][s]; p != nil && !p.confirmed {
		p.confirmed, p.since = true, since
	}
}

// Release ends a promise.
func (r *Registry) Release(node protocol.NodeID, s protocol.SessionID) {
	r.release(node, s)
	r.changed(node)
}

func (r *Registry) release(node protocol.NodeID, s protocol.SessionID) {
	of := r.promised[node]
	delete(of, s)
	if len(of) == 0 {
		delete(r.promised, node)
	}
}

// stateOf derives a member's state; why says more where it helps.
func (r *Registry) stateOf(now time.Time, n *member) (s State, why string) {
	s, why = n.state()
	if (s == StateReady || s == StateOff) && now.Sub(n.reported) > r.cfg.drainAfter() {
		return StateDraining, "missed its reports"
	}
	return s, why
}

// state is the part of a member's state that does not come with time alone.
func (n *member) state() (s State, why string) {
	switch {
	case n.Role == protocol.RoleGateway:
		return StateGateway, ""
	case !n.connected:
		return StateDraining, "connection lost"
	case n.report == nil || !n.fresh:
		return StateJoining, ""
	case n.suspect:
		return StateDraining, "a neighbour could not reach it"
	case n.drained != "":
		return StateDraining, n.drained
	case n.report.SharingOff != "":
		return StateOff, n.report.SharingOff
	default:
		return StateReady, ""
	}
}
