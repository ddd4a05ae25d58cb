// Package placement decides which layers of which model a node should hold,
// and says how well each model is covered: routes of distinct nodes, speed,
// what is missing.
//
// It is a pure state machine: time comes in as an argument, nothing is read or
// written, no goroutine runs, and the same history of calls gives the same
// answers. It is not safe for concurrent use; the server guards it. Only the
// server and the simulator import it; of our packages it imports
// engine/protocol only. docs/decisions/0010-placement.md has the reasons.
package placement

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// Config holds the rules' figures; zero values take the defaults in brackets.
type Config struct {
	// ReserveCells is the KV memory that a range must leave room for, in
	// positions: four conversations of 4,096 tokens, as engine/planner asks for
	// [16384].
	ReserveCells int
	// MaxStep bounds the time of one decode step on one node: a slow node gets
	// fewer layers than fit [500 ms].
	MaxStep time.Duration
	// RefSpeed is the speed of a node that counts as one, in bytes of weights
	// per second [20 GB/s].
	RefSpeed int64
	// MinStay is how long a node keeps a range at least [30 min], and
	// MoveFactor how many times more another one must be worth [4].
	MinStay    time.Duration
	MoveFactor float64
	// Patience is the time of fetching that halves what a range is worth: nodes
	// stay for hours, and what they have on disk serves at once [30 min].
	Patience time.Duration
}

func (c Config) withDefaults() Config {
	return Config{
		ReserveCells: cmp.Or(max(0, c.ReserveCells), 16384),
		MaxStep:      cmp.Or(max(0, c.MaxStep), 500*time.Millisecond),
		RefSpeed:     cmp.Or(max(0, c.RefSpeed), 20_000_000_000),
		MinStay:      cmp.Or(max(0, c.MinStay), 30*time.Minute),
		MoveFactor:   cmp.Or(max(0, c.MoveFactor), 4),
		Patience:     cmp.Or(max(0, c.Patience), 30*time.Minute),
	}
}

// Model is a model of the catalog. All sizes are bytes.
type Model struct {
	ID     protocol.ModelID
	Name   string
	Layers int
	// LayerBytes are the weights of each layer, KVLayerBytes the KV memory of
	// one position in it.
	LayerBytes, KVLayerBytes []int64
	// HeaderBytes lie on every node's disk; AllBytes are weights that every
	// stage holds, HeadBytes those of the stage with layer 0, TailBytes those
	// of the one with the last layer, EndsBytes those of either.
	HeaderBytes, AllBytes, HeadBytes, TailBytes, EndsBytes int64
	// ComputeBytes is what a stage takes besides weights and KV state.
	ComputeBytes int64
	// Ends[a] are the legal ends of ranges that begin with layer a; empty: any
	// range is legal. The whole model always is, and with WholeOnly nothing
	// else.
	Ends      [][]Span
	WholeOnly bool
}

// Span is the boundaries From to To, both included.
type Span struct{ From, To int }

// Shard is a range that a node holds or fetches.
type Shard struct {
	Model protocol.ModelID
	Range protocol.Range
	State protocol.ShardState
	// Since is when the node got the range.
	Since time.Time
}

// Node is what the registry knows of a node. Several shards of one model count
// as the longest of them: a route visits a node once.
type Node struct {
	ID    protocol.NodeID
	Build protocol.Build
	// Speed is how many bytes of weights per second a decode step reads; 0: not
	// measured.
	Speed int64
	// Memory is what the node offered, in bytes.
	Memory int64
	Shards []Shard
}

// Limits of models; registry.MaxLayers is larger, for ranges that nodes claim.
const (
	maxLayers = 512
	maxBytes  = 1 << 46 // of all parts of a model, and of any figure of an offer
	maxKV     = 1 << 30
)

// check refuses figures that cannot be summed.
func (m *Model) check() error {
	if m.Layers < 1 || m.Layers > maxLayers || len(m.LayerBytes) != m.Layers || len(m.KVLayerBytes) != m.Layers {
		return protocol.Errorf(protocol.CodeModelInvalid, "%d layers with %d sizes and %d KV sizes", m.Layers, len(m.LayerBytes), len(m.KVLayerBytes))
	}
	if len(m.Ends) != 0 && len(m.Ends) != m.Layers {
		return protocol.Errorf(protocol.CodeModelInvalid, "%d layers with legal ends for %d", m.Layers, len(m.Ends))
	}
	sum := int64(0)
	for _, n := range append([]int64{m.HeaderBytes, m.AllBytes, m.HeadBytes, m.TailBytes, m.EndsBytes, m.ComputeBytes}, m.LayerBytes...) {
		if sum += n; n < 0 || n > maxBytes || sum > maxBytes {
			return protocol.Errorf(protocol.CodeModelInvalid, "a size is negative, or all are above %d bytes", int64(maxBytes))
		}
	}
	if slices.ContainsFunc(m.KVLayerBytes, func(n int64) bool { return n < 0 || n > maxKV }) {
		return protocol.Errorf(protocol.CodeModelInvalid, "a KV size is negative or above %d bytes", maxKV)
	}
	return nil
}

// legal reports whether a stage of [a, b) may exist.
func (m *Model) legal(a, b int) bool {
	switch {
	case a < 0 || a >= b || b > m.Layers:
		return false
	case a == 0 && b == m.Layers:
		return true
	case m.WholeOnly:
		return false
	}
	return len(m.Ends) == 0 || slices.ContainsFunc(m.Ends[a], func(s Span) bool { return s.From <= b && b <= s.To })
}

// endUpTo is the last legal end of a range from a on, at most b; 0 for none.
func (m *Model) endUpTo(a, b int) int {
	switch {
	case a == 0 && b >= m.Layers:
		return m.Layers
	case m.WholeOnly || a >= b:
		return 0
	case len(m.Ends) == 0:
		return b
	}
	best := 0
	for _, s := range m.Ends[a] {
		if e := min(s.To, b); e >= s.From && e > a {
			best = max(best, e)
		}
	}
	return best
}

// Map holds the catalog and what nodes hold of it.
type Map struct {
	cfg    Config
	models []*entry // by id
	byID   map[protocol.ModelID]*entry
	nodes  map[protocol.NodeID]*Node
	memory int64 // of all nodes
	// scratch is Decide's.
	scratch []wanted
}

// New makes an empty map.
func New(cfg Config) *Map {
	return &Map{cfg: cfg.withDefaults(), byID: make(map[protocol.ModelID]*entry), nodes: make(map[protocol.NodeID]*Node)}
}

// SetModel adds a model to the catalog, or replaces it. Errors: model_invalid.
func (m *Map) SetModel(model Model) error {
	if err := model.check(); err != nil {
		return err
	}
	e := newEntry(model)
	if old := m.byID[model.ID]; old != nil {
		// The catalog is read again as a whole when anything in it changes.
		if reflect.DeepEqual(old.Model, model) {
			return nil
		}
		e.demand = old.demand
	}
	m.DropModel(model.ID)
	i, _ := slices.BinarySearchFunc(m.models, model.ID, func(e *entry, id protocol.ModelID) int { return cmp.Compare(e.ID, id) })
	m.models = slices.Insert(m.models, i, e)
	m.byID[model.ID] = e
	for _, n := range m.nodes {
		if s, ok := n.shard(model.ID); ok {
			e.add(m.cfg, n, s, 1)
		}
	}
	return nil
}

// DropModel takes a model out of the catalog.
func (m *Map) DropModel(id protocol.ModelID) {
	if m.byID[id] == nil {
		return
	}
	delete(m.byID, id)
	m.models = slices.DeleteFunc(m.models, func(e *entry) bool { return e.ID == id })
}

// SetDemand weighs a model against the others: what clients ask of it, in any
// unit that is the same for all models. 0: nobody asks.
func (m *Map) SetDemand(id protocol.ModelID, demand float64) {
	if e := m.byID[id]; e != nil {
		e.demand = min(max(0, demand), 1e12)
	}
}

// Put sets what a node holds; it replaces what was said of it before. Shards
// of models that the catalog does not know, and ranges that do not exist, are
// ignored. Shards that drain or have failed cover nothing.
func (m *Map) Put(n Node) {
	m.Drop(n.ID)
	n.Shards = slices.Clone(n.Shards)
	n.Memory = min(max(0, n.Memory), maxBytes)
	m.nodes[n.ID] = &n
	m.memory += n.Memory
	m.count(&n, 1)
}

// Drop forgets a node: it left, or it expired.
func (m *Map) Drop(id protocol.NodeID) {
	if n := m.nodes[id]; n != nil {
		m.count(n, -1)
		m.memory -= n.Memory
		delete(m.nodes, id)
	}
}

// count adds a node's shards to the coverage, or takes them away.
func (m *Map) count(n *Node, sign int) {
	for i := range n.Shards {
		s, ok := n.shard(n.Shards[i].Model)
		if !ok || s != &n.Shards[i] {
			continue
		}
		if e := m.byID[s.Model]; e != nil {
			e.add(m.cfg, n, s, sign)
		}
	}
}

// shard is the node's shard of a model that counts.
func (n *Node) shard(id protocol.ModelID) (best *Shard, ok bool) {
	for i := range n.Shards {
		s := &n.Shards[i]
		if s.Model != id || !covers(s.State) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(best.Range.Len(), s.Range.Len()), cmp.Compare(s.Range.First, best.Range.First)) < 0 {
			best = s
		}
	}
	return best, best != nil
}

// covers reports whether a shard in this state is ready or on its way.
func covers(s protocol.ShardState) bool {
	switch s {
	case protocol.ShardReady, protocol.ShardDownloading, protocol.ShardVerifying, protocol.ShardLoading:
		return true
	}
	return false
}

// Nodes lists the ids of all nodes, sorted.
func (m *Map) Nodes() []protocol.NodeID { return slices.Sorted(maps.Keys(m.nodes)) }

// Held gives a copy of what a node was last said to hold.
func (m *Map) Held(id protocol.NodeID) []Shard {
	if n := m.nodes[id]; n != nil {
		return slices.Clone(n.Shards)
	}
	return nil
}
