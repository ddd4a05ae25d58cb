package registry

import (
	"cmp"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// NodeView is a node as the status page and GET /v1/nodes show it.
type NodeView struct {
	Node     protocol.NodeID `json:"node"`
	Role     protocol.Role   `json:"role"`
	State    State           `json:"state"`
	Why      string          `json:"why,omitempty"`
	Epoch    uint64          `json:"epoch"`
	Addr     string          `json:"addr,omitempty"`
	Host     string          `json:"host,omitempty"`
	Engine   string          `json:"engine,omitempty"`
	Build    protocol.Build  `json:"build"`
	Joined   time.Time       `json:"joined"`
	Reported *time.Time      `json:"reported,omitempty"`
	Failures int             `json:"failures"` // times a neighbour blamed it
	Pressure float64         `json:"memory_pressure"`
	FreeDisk int64           `json:"free_disk"`
	Shards   []ShardView     `json:"shards"`
	// PromisedKV is KV memory in leases that the node's reports do not show yet.
	PromisedKV int64 `json:"promised_kv_bytes"`
}

// ShardView is one shard of a node.
type ShardView struct {
	Model       protocol.ModelID    `json:"model"`
	Name        string              `json:"name"`
	Layers      int                 `json:"layers"`
	Loaded      protocol.Range      `json:"loaded"`
	State       protocol.ShardState `json:"state"`
	StepMicros  int64               `json:"step_us"`
	ChunkMicros int64               `json:"chunk_us"`
	FreeKVBytes int64               `json:"free_kv_bytes"`
	Sessions    int                 `json:"sessions"`
	MaxSessions int                 `json:"max_sessions"`
	Queue       int                 `json:"queue"`
	Error       *protocol.Error     `json:"error,omitempty"`
}

// Nodes lists all members, nodes before gateways, by id.
func (r *Registry) Nodes(now time.Time) []NodeView {
	out := make([]NodeView, 0, len(r.members))
	for _, n := range r.members {
		st, why := r.stateOf(now, n)
		v := NodeView{
			Node: n.ID, Role: n.Role, State: st, Why: why, Epoch: n.Epoch, Addr: n.Addr, Host: n.Host,
			Engine: n.Engine, Build: n.Build, Joined: n.joined, Failures: n.failures, Shards: []ShardView{},
		}
		for _, p := range r.promised[n.ID] {
			if n.Role == protocol.RoleNode {
				v.PromisedKV += p.bytes
			}
		}
		if n.report != nil {
			at := n.reported
			v.Reported, v.Pressure, v.FreeDisk = &at, n.report.MemoryPressure, n.report.FreeDisk
			for i := range n.report.Shards {
				s := &n.report.Shards[i]
				v.Shards = append(v.Shards, ShardView{
					Model: s.Capability.Model, Name: s.Capability.Name, Layers: s.Capability.Layers, Loaded: s.Capability.Loaded,
					State: s.State, StepMicros: s.StepMicros, ChunkMicros: s.ChunkMicros, FreeKVBytes: s.FreeKVBytes,
					Sessions: s.Sessions, MaxSessions: s.MaxSessions, Queue: s.Queue, Error: s.Error,
				})
			}
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b NodeView) int {
		return cmp.Or(cmp.Compare(b.Role, a.Role), cmp.Compare(a.Node, b.Node))
	})
	return out
}

// Counts is the number of members per state; every state has an entry.
func (r *Registry) Counts(now time.Time) map[State]int {
	out := make(map[State]int, len(States()))
	for _, s := range States() {
		out[s] = 0
	}
	for _, n := range r.members {
		s, _ := r.stateOf(now, n)
		out[s]++
	}
	return out
}

// Peers lists the nodes whose round trip m should measure, at most limit, by
// id: heads and tails of all models, since m may drive sessions, and nodes
// whose range can follow or precede one of m's.
func (r *Registry) Peers(now time.Time, m Member, limit int) []protocol.Peer {
	var own []protocol.ShardReport
	if n := r.members[memberKey{m.ID, protocol.RoleNode}]; n != nil && n.report != nil {
		own = n.report.Shards
	}
	out := []protocol.Peer{}
	for _, n := range r.members {
		if n.ID == m.ID || n.report == nil {
			continue
		}
		if st, _ := r.stateOf(now, n); st == StateReady && slices.ContainsFunc(n.report.Shards, func(s protocol.ShardReport) bool {
			c := &s.Capability
			return c.Loaded.First == 0 || c.Loaded.Last == c.Layers || slices.ContainsFunc(own, func(o protocol.ShardReport) bool {
				return o.Capability.Model == c.Model && (touches(o.Capability.Loaded, c.Loaded) || touches(c.Loaded, o.Capability.Loaded))
			})
		}) {
			out = append(out, protocol.Peer{Node: n.ID, Addr: n.Addr})
		}
	}
	slices.SortFunc(out, func(a, b protocol.Peer) int { return cmp.Compare(a.Node, b.Node) })
	if len(out) > limit {
		// Start at the node's own place in the order, so that not everybody
		// measures the same few.
		at, _ := slices.BinarySearchFunc(out, m.ID, func(p protocol.Peer, id protocol.NodeID) int { return cmp.Compare(p.Node, id) })
		out = append(out[at:len(out):len(out)], out[:at]...)[:limit]
	}
	return out
}

// touches reports whether b may follow a.
func touches(a, b protocol.Range) bool { return b.First > a.First && b.First <= a.Last }
