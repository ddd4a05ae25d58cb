// Package routing picks the cheapest route through the shards of one model.
//
// It is pure and deterministic: the same network and request give the same
// route, whatever the order of the shards. The registry and the server import
// it; it knows no clock, no connection and no session.
package routing

import (
	"neuron/engine/protocol"
)

// Network is what the registry knows of one model now. Find does not change it.
type Network struct {
	Model  protocol.ModelID
	Name   string
	Layers int
	// MaxContext is the longest context of any shard, in tokens.
	MaxContext int
	Shards     []Shard
	// RTT is a measured round trip between two nodes in microseconds; ok is
	// false when nobody measured it. It must be symmetric. Nil: none known.
	RTT func(a, b protocol.NodeID) (us int64, ok bool)
}

// Shard is one loaded range on one node.
type Shard struct {
	Node   protocol.NodeID
	Addr   string
	Loaded protocol.Range
	// Exits are the boundaries at which the range may stop, besides its end.
	Exits      []int
	Head, Tail bool
	// WholeOnly forbids every use but the whole model on this node.
	WholeOnly bool
	Build     protocol.Build
	// StepMicros and ChunkMicros are measured for the whole loaded range; 0:
	// not measured. ChunkRows is the number of rows of a prefill chunk.
	StepMicros, ChunkMicros int64
	ChunkRows               int
	// FreeKV is what new sessions may still reserve, in bytes, less what this
	// tracker has promised since the node's report. KVPerCell is the cost of a
	// position in all loaded layers.
	FreeKV, KVPerCell int64
	MaxContext        int
	// Sessions counts promised ones too.
	Sessions, MaxSessions int
	Queue                 int // rows waiting
	// Pressure is the node's memory pressure in thousandths, 0 to 1000.
	Pressure int64
	// Blocked says why the shard takes no new session, or is "".
	Blocked string
}

// Request is what a gateway asks for.
type Request struct {
	Gateway protocol.NodeID
	Context int // KV cells, 1 to protocol.MaxContext
	Prompt  int // prompt tokens, for the cost of prefill; may be 0
	// RTT holds the gateway's own round trips in microseconds.
	RTT map[protocol.NodeID]int64
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
	Cost     Cost            `json:"cost"`
}

// Cost holds the parts of a hop's cost, in microseconds per decoded token.
type Cost struct {
	Stage    int64 `json:"stage_us"`    // measured step time, scaled to the used layers
	Link     int64 `json:"link_us"`     // half the round trip from the previous hop
	Overhead int64 `json:"overhead_us"` // fixed price of a hop
	Load     int64 `json:"load_us"`     // sessions and rows that wait
	Memory   int64 `json:"memory_us"`   // memory pressure
	Prefill  int64 `json:"prefill_us"`  // prefill spread over the answer
}

// Sum adds the parts.
func (c Cost) Sum() int64 {
	return c.Stage + c.Link + c.Overhead + c.Load + c.Memory + c.Prefill
}

// Find returns the cheapest route. Errors: context_length_exceeded, kv_budget
// (with "fits", the longest context that would fit, and "asked"), no_route
// (with the missing layers in the message).
func Find(n *Network, r Request) (*Route, error) {
	if r.Context < 1 {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "a context of %d tokens", r.Context)
	}
	limit := min(n.MaxContext, protocol.MaxContext)
	if r.Context > limit {
		return nil, protocol.Errorf(protocol.CodeContextExceeded,
			"a context of %d tokens is longer than this model's %d", r.Context, limit).
			With("asked", itoa(r.Context)).With("fits", itoa(limit))
	}
	if route := search(n, r, rules{headroom: true}); route != nil {
		return route, nil
	}
	if route := search(n, r, rules{}); route != nil {
		return route, nil
	}
	return nil, explain(n, r)
}

// Connected reports whether any chain of usable shards covers the model,
// leaving KV memory and session limits aside.
func Connected(n *Network) bool {
	return search(n, Request{Context: 1}, rules{anyKV: true, anySessions: true}) != nil
}

// nextPow2 is the smallest power of two that is at least n; stages reserve KV
// in such steps.
func nextPow2(n int) int {
	p := 1
	for p < n {
		p <<= 1
	}
	return p
}
