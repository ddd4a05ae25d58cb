package registry

import (
	"cmp"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// NodeView is a node as the status page and GET /v1/nodes show it.
type NodeView struct {
	Node  protocol.NodeID `json:"node"`
	Role  protocol.Role   `json:"role"`
	State State           `json:"state"`
	Why   string          `json:"why,omitempty"`
	// Barred says why public routes leave it out, or is "".
	Barred   string         `json:"barred,omitempty"`
	Epoch    uint64         `json:"epoch"`
	Addr     string         `json:"addr,omitempty"`
	Host     string         `json:"host,omitempty"`
	Engine   string         `json:"engine,omitempty"`
	Build    protocol.Build `json:"build"`
	Joined   time.Time      `json:"joined"`
	Reported *time.Time     `json:"reported,omitempty"`
	Failures int            `json:"failures"` // times a neighbour blamed it
	Pressure float64        `json:"memory_pressure"`
	FreeDisk int64          `json:"free_disk"`
	Shards   []ShardView    `json:"shards"`
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
	// CachedPrefixes counts the prompt prefixes whose state it keeps.
	CachedPrefixes int             `json:"cached_prefixes,omitempty"`
	Error          *protocol.Error `json:"error,omitempty"`
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
		if n.Role == protocol.RoleNode {
			v.Barred = r.barredOf(n.ID)
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
					Sessions: s.Sessions, MaxSessions: s.MaxSessions, Queue: s.Queue, CachedPrefixes: len(s.Prefixes), Error: s.Error,
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
