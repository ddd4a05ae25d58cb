// Package routing picks the cheapest route through the shards of one model.
//
// It is pure and deterministic: the same shards and request give the same
// route, whatever the order in which they came. Only the registry and the
// server import it; it knows no clock, no connection and no session.
//
// An Index is kept up to date shard by shard, so that a search prepares
// nothing. docs/decisions/0012-routing.md says how the search works and why it
// is exact, docs/protocol/routing.md what the factors are.
package routing

import (
	"time"

	"neuron/engine/protocol"
)

// Shard is one loaded range on one node.
type Shard struct {
	Node   protocol.NodeID
	Addr   string
	Loaded protocol.Range
	// Exits are the boundaries at which the range may stop, besides its end.
	Exits      []int
	Head, Tail bool
	// Halves: rows may come and go as binary16.
	Halves bool
	// WholeOnly forbids every use but the whole model on this node.
	WholeOnly bool
	Build     protocol.Build
	// Seam is what rows between hops look like: neighbours must have the same.
	Seam string
	// StepMicros and ChunkMicros are measured for the whole loaded range; 0:
	// not measured. ChunkRows is the number of rows of a prefill chunk.
	StepMicros, ChunkMicros int64
	ChunkRows               int
	// FreeKV is what new sessions may still reserve, in bytes, less what this
	// tracker has promised since the node's report. KVPerCell is the cost of a
	// position in all loaded layers, Memory what a session costs where that is
	// known by kind.
	FreeKV, KVPerCell int64
	Memory            protocol.Memory
	MaxContext        int
	// Sessions counts promised ones too.
	Sessions, MaxSessions int
	Queue                 int // rows waiting
	// Pressure is the node's memory pressure in thousandths, 0 to 1000, and
	// DiskPressure the same of its disk.
	Pressure, DiskPressure int64
	// Relayed: the node cannot be dialled, a relay carries its frames.
	Relayed bool
	// Recent counts the sessions that the node was given lately.
	Recent int
	// Cached names the prompt prefixes whose state the node keeps.
	Cached []string
	// Blocked says why the shard takes no new session, or is "".
	Blocked string
	// Until is when the shard stops taking sessions by itself, because its node
	// has missed its reports then. Zero: never.
	Until time.Time
	// Barred says why public routes leave the node out, or is "". Its owner's
	// private routes may use it.
	Barred string
}

// Request is what a gateway asks for.
type Request struct {
	Now     time.Time
	Gateway protocol.NodeID
	Context int // KV cells, 1 to protocol.MaxContext
	Prompt  int // prompt tokens, for the cost of prefill; may be 0
	// RTT holds the gateway's own round trips in microseconds.
	RTT map[protocol.NodeID]int64
	// Only are the nodes of a private route; nil: a public one. An empty map
	// allows none.
	Only map[protocol.NodeID]bool
	// Prefixes are the prompt's prefixes whose cached state would help.
	Prefixes []protocol.Prefix
}

// Route is the answer. It explains itself: the parts of all hops and Return
// add up to Total.
type Route struct {
	Model  protocol.ModelID `json:"model"`
	Name   string           `json:"name"`
	Layers int              `json:"layers"`
	Build  protocol.Build   `json:"build"`
	Hops   []Hop            `json:"hops"`
	// ReturnMicros is the way of the token from the tail to the gateway.
	ReturnMicros int64 `json:"return_us"`
	// StepMicros is the expected time per decoded token, without the share of
	// prefill that Total contains.
	StepMicros  int64 `json:"step_us"`
	TotalMicros int64 `json:"total_us"`
	// Cells is the KV length that was checked: the next power of two.
	Cells int `json:"cells"`
	// Headroom is false when only a route that uses the nodes' last fifth of
	// KV memory was left.
	Headroom bool `json:"headroom"`
}

// Hop is one part of a route.
type Hop struct {
	Node     protocol.NodeID `json:"node"`
	Addr     string          `json:"addr"`
	Use      protocol.Range  `json:"use"`
	Loaded   protocol.Range  `json:"loaded"`
	KVBytes  int64           `json:"kv_bytes"`
	Measured bool            `json:"measured"` // the stage time is measured
	Halves   bool            `json:"-"`        // as in Shard
	Cost     Cost            `json:"cost"`
}

// Cost holds the parts of a hop's cost, in microseconds per decoded token.
type Cost struct {
	Stage    int64 `json:"stage_us"`    // measured step time, scaled to the used layers
	Link     int64 `json:"link_us"`     // half the round trip from the previous hop
	Overhead int64 `json:"overhead_us"` // fixed price of a hop
	Load     int64 `json:"load_us"`     // sessions on the same stage
	Queue    int64 `json:"queue_us"`    // rows that wait
	Memory   int64 `json:"memory_us"`   // memory pressure
	Disk     int64 `json:"disk_us"`     // a disk that is nearly full
	Prefill  int64 `json:"prefill_us"`  // prefill spread over the answer
	Cache    int64 `json:"cache_us"`    // what a cached prefix saves of it; never positive
	Relay    int64 `json:"relay_us"`    // frames that go through a relay
	Fair     int64 `json:"fair_us"`     // sessions that the node was given lately
}

// Sum adds the parts.
func (c Cost) Sum() int64 {
	return c.Stage + c.Link + c.Overhead + c.Load + c.Queue + c.Memory + c.Disk + c.Prefill + c.Cache + c.Relay + c.Fair
}

// Find returns the cheapest route, or nil when there is none; Refusal says why.
func (x *Index) Find(r *Request) *Route {
	if r.Context < 1 || r.Context > x.limit() {
		return nil
	}
	if route := x.route(r, rules{headroom: true}, nil); route != nil {
		return route
	}
	return x.route(r, rules{}, nil)
}

// Connected reports whether any chain of shards that a public route may use
// covers the model, leaving KV memory, contexts and session limits aside.
func (x *Index) Connected(now time.Time) bool {
	return x.routable(&Request{Now: now, Context: 1}, roomy)
}

// limit is the longest context that the model or any of its shards can have.
func (x *Index) limit() int { return min(x.MaxContext(), protocol.MaxContext) }

// nextPow2 is the smallest power of two that is at least n; stages reserve KV
// in such steps.
func nextPow2(n int) int {
	p := 1
	for p < n {
		p <<= 1
	}
	return p
}
