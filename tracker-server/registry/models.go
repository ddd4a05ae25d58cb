package registry

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/routing"
)

// shape is what all shards of one model must agree on. Nodes may lie or be
// broken; the shape that most nodes report is the model's.
type shape struct {
	Name         string
	Architecture string
	Layers       int
	Width        int
}

// model collects the shards that agree on one shape.
type model struct {
	id    protocol.ModelID
	shape shape
	// ready counts the nodes with a ready shard: those are measured on a real
	// stage, the others only promised.
	ready, nodes int
	shards       []held
}

type held struct {
	m *member
	s *protocol.ShardReport
}

// models groups all shards by model, each with the shape of its manifest where
// the catalog has one, else with its majority shape. Ties go to the smaller
// shape, so that the answer does not depend on map order.
func (r *Registry) models() map[protocol.ModelID]*model {
	type key struct {
		id protocol.ModelID
		sh shape
	}
	groups := make(map[key]*model)
	for _, n := range r.members {
		if n.report == nil || n.Role != protocol.RoleNode {
			continue
		}
		counted, ready := make(map[key]bool, len(n.report.Shards)), make(map[key]bool)
		for i := range n.report.Shards {
			s := &n.report.Shards[i]
			c := &s.Capability
			k := key{c.Model, shape{c.Name, c.Architecture, c.Layers, c.Width}}
			if published := r.catalog[c.Model]; published != nil {
				if !published.fits(s) {
					continue
				}
				k.sh = published.shape()
			}
			g := groups[k]
			if g == nil {
				g = &model{id: k.id, shape: k.sh}
				groups[k] = g
			}
			g.shards = append(g.shards, held{n, s})
			if !counted[k] {
				counted[k] = true
				g.nodes++
			}
			if s.State == protocol.ShardReady && !ready[k] {
				ready[k] = true
				g.ready++
			}
		}
	}
	out := make(map[protocol.ModelID]*model)
	for k, g := range groups {
		if have := out[k.id]; have == nil || betterShape(g, have) {
			out[k.id] = g
		}
	}
	return out
}

func betterShape(a, b *model) bool {
	return cmp.Or(
		cmp.Compare(b.ready, a.ready), cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.shape.Layers, b.shape.Layers), cmp.Compare(a.shape.Width, b.shape.Width),
		cmp.Compare(a.shape.Name, b.shape.Name), cmp.Compare(a.shape.Architecture, b.shape.Architecture)) < 0
}

// find resolves a model id or a display name. Several models may carry one
// name: a published one wins, then the one on most nodes, then the smaller id.
func (r *Registry) find(name string) *model {
	all := r.models()
	for id, p := range r.catalog {
		if all[id] == nil {
			all[id] = &model{id: id, shape: p.shape()} // nobody holds it
		}
	}
	if m := all[protocol.ModelID(name)]; m != nil {
		return m
	}
	published := func(m *model) int {
		if r.catalog[m.id] != nil {
			return 1
		}
		return 0
	}
	var best *model
	for _, m := range all {
		if m.shape.Name == name && (best == nil || cmp.Or(
			cmp.Compare(published(best), published(m)), cmp.Compare(best.nodes, m.nodes), cmp.Compare(m.id, best.id)) < 0) {
			best = m
		}
	}
	return best
}

// Network gives the routing view of a model, found by id or display name.
// Error: model_not_found.
func (r *Registry) Network(now time.Time, name string) (*routing.Network, error) {
	m := r.find(name)
	if m == nil {
		return nil, protocol.Errorf(protocol.CodeModelUnknown, "no node reports the model %.80q, and the catalog does not have it", name)
	}
	return r.network(now, m), nil
}

func (r *Registry) network(now time.Time, m *model) *routing.Network {
	n := &routing.Network{Model: m.id, Name: m.shape.Name, Layers: m.shape.Layers, RTT: r.rtt}
	for _, h := range m.shards {
		s := r.shard(now, h)
		n.MaxContext = max(n.MaxContext, s.MaxContext)
		n.Shards = append(n.Shards, s)
	}
	if p := r.catalog[m.id]; n.MaxContext == 0 && p != nil {
		n.MaxContext = p.Context // no stage has said what it can do
	}
	slices.SortFunc(n.Shards, func(a, b routing.Shard) int {
		return cmp.Or(cmp.Compare(a.Loaded.First, b.Loaded.First), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Loaded.Last, b.Loaded.Last))
	})
	return n
}

func (r *Registry) shard(now time.Time, h held) routing.Shard {
	c := &h.s.Capability
	out := routing.Shard{
		Node: h.m.ID, Addr: h.m.Addr, Loaded: c.Loaded, Exits: c.Exits, Head: c.Head, Tail: c.Tail,
		WholeOnly: c.WholeOnly != "", Build: h.m.Build,
		StepMicros: h.s.StepMicros, ChunkMicros: h.s.ChunkMicros, ChunkRows: c.ChunkRows,
		FreeKV: h.s.FreeKVBytes, KVPerCell: c.KVBytesPerCell, MaxContext: c.MaxContext,
		Sessions: h.s.Sessions, MaxSessions: h.s.MaxSessions, Queue: h.s.Queue,
		Pressure: int64(h.m.report.MemoryPressure * 1000), Blocked: r.blocked(now, h),
	}
	for _, p := range r.promised[h.m.ID] {
		if p.model == c.Model && p.first == c.Loaded.First {
			out.FreeKV -= p.bytes
			out.Sessions++
		}
	}
	return out
}

// blocked says why a shard takes no new session, or is "".
func (r *Registry) blocked(now time.Time, h held) string {
	c := &h.s.Capability
	switch st, _ := r.stateOf(now, h.m); {
	case st == StateOff:
		return "sharing off"
	case st != StateReady:
		return string(st)
	case h.s.State != protocol.ShardReady:
		return string(h.s.State)
	case c.Build != (protocol.Build{}) && c.Build != h.m.Build:
		return "shard and engine differ in build"
	case len(c.DTypes) > 0 && !slices.Contains(c.DTypes, protocol.DTypeF32.String()):
		return "no f32 seam"
	default:
		return ""
	}
}

// rtt is the round trip between two nodes. When both measured it, the longer
// one counts: a node cannot make itself attractive by a small claim.
func (r *Registry) rtt(a, b protocol.NodeID) (int64, bool) {
	x, okX := r.claimed(a, b)
	y, okY := r.claimed(b, a)
	return max(x, y), okX || okY
}

func (r *Registry) claimed(from, to protocol.NodeID) (int64, bool) {
	n := r.members[memberKey{from, protocol.RoleNode}]
	if n == nil || n.report == nil {
		return 0, false
	}
	us, ok := n.report.RTTMicros[to]
	return us, ok
}

// Models lists the models that any node reports, by name and id, with
// coverage: Replicas counts each ready node once per layer.
func (r *Registry) Models(now time.Time) []protocol.ModelInfo {
	all := r.models()
	out := make([]protocol.ModelInfo, 0, len(all))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		m := all[id]
		net := r.network(now, m)
		info := protocol.ModelInfo{
			Model: id, Name: m.shape.Name, Architecture: m.shape.Architecture, Layers: m.shape.Layers,
			Context: min(net.MaxContext, protocol.MaxContext), Replicas: replicas(net), Routable: routing.Connected(net),
		}
		for _, h := range m.shards {
			if h.m.reported.After(info.Seen) {
				info.Seen = h.m.reported
			}
		}
		out = append(out, info)
	}
	slices.SortStableFunc(out, func(a, b protocol.ModelInfo) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func replicas(net *routing.Network) []int {
	out := make([]int, net.Layers)
	counted := make(map[protocol.NodeID][]bool)
	for i := range net.Shards {
		s := &net.Shards[i]
		if s.Blocked != "" {
			continue
		}
		seen := counted[s.Node]
		if seen == nil {
			seen = make([]bool, net.Layers)
			counted[s.Node] = seen
		}
		for l := s.Loaded.First; l < s.Loaded.Last; l++ {
			if !seen[l] {
				seen[l] = true
				out[l]++
			}
		}
	}
	return out
}
