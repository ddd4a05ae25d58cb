package routing

import (
	"cmp"
	"slices"

	"neuron/engine/protocol"
)

// rules says which filters a search applies.
type rules struct {
	headroom    bool // keep a fifth of each node's free KV bytes
	anyKV       bool // ignore KV memory
	anySessions bool // ignore session limits
}

// label is a partial route that ends behind shard at layer end. Labels form a
// tree; they never change once they are made.
type label struct {
	shard *Shard
	end   int
	total int64
	cost  Cost
	hops  int
	prev  *label
	// used marks the nodes with several shards that the route contains: only
	// such a node could appear twice.
	used uint64
}

// maxLabels bounds the alternatives that are kept per shard when nodes hold
// several shards of one model. Below the bound the search is exact.
const maxLabels = 32

// search runs one search per build and returns the best route of all.
func search(n *Network, r Request, ru rules) *Route {
	groups := make(map[protocol.Build][]*Shard)
	cells := nextPow2(r.Context)
	for i := range n.Shards {
		s := &n.Shards[i]
		if s.usable(n, r, ru) {
			groups[s.Build] = append(groups[s.Build], s)
		}
	}
	var best *label
	for _, shards := range groups {
		if l := searchBuild(n, r, ru, shards, cells); l != nil && (best == nil || compare(l, best) < 0) {
			best = l
		}
	}
	if best == nil {
		return nil
	}
	return best.route(n, r, ru, cells)
}

// usable holds the filters that do not depend on the exit.
func (s *Shard) usable(n *Network, r Request, ru rules) bool {
	return s.Blocked == "" && s.Loaded.Valid(n.Layers) && s.MaxContext >= r.Context &&
		(ru.anySessions || s.Sessions < s.MaxSessions) &&
		(s.Loaded.First > 0 || s.Head)
}

// fits checks KV memory for a session of so many cells.
func (s *Shard) fits(cells int, ru rules) bool {
	if ru.anyKV {
		return true
	}
	free := s.FreeKV
	if ru.headroom {
		free -= free / 5
	}
	return kvBytes(s, cells) <= free
}

// searchBuild goes through the boundaries from layer 0 up. Every edge leads
// upwards, so each boundary's labels are complete when it is reached.
func searchBuild(n *Network, r Request, ru rules, shards []*Shard, cells int) *label {
	// One order for all inputs, so that bounded alternatives do not depend on
	// the caller's order.
	slices.SortFunc(shards, func(a, b *Shard) int {
		return cmp.Or(cmp.Compare(a.Loaded.First, b.Loaded.First), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Loaded.Last, b.Loaded.Last))
	})
	boundary := make([]bool, n.Layers+1)
	for _, s := range shards {
		boundary[s.Loaded.First] = true
	}
	boundary[n.Layers] = true
	bits := severalShards(shards)

	ending := make([][]*label, n.Layers+1)
	for _, s := range shards {
		entries := enter(n, r, s, ending[s.Loaded.First], bits)
		if len(entries) == 0 {
			continue
		}
		for _, e := range s.ends(n.Layers, boundary) {
			used := e - s.Loaded.First
			if !s.fits(cells, ru) {
				continue
			}
			c := stageCost(s, used, r)
			for _, in := range entries {
				l := &label{shard: s, end: e, cost: c, hops: in.hops, prev: in.prev, used: in.used | bits[s.Node]}
				l.cost.Link = in.link
				l.total = in.total + l.cost.Sum()
				ending[e] = append(ending[e], l)
			}
		}
	}
	var best *label
	for _, l := range ending[n.Layers] {
		l.total += n.gatewayLink(r, l.shard.Node)
		if best == nil || compare(l, best) < 0 {
			best = l
		}
	}
	return best
}

// ends lists, ascending, the boundaries at which s may stop and another shard
// may go on (or the model ends).
func (s *Shard) ends(layers int, boundary []bool) []int {
	if s.WholeOnly {
		if s.Tail && s.Loaded.First == 0 && s.Loaded.Last == layers {
			return []int{layers}
		}
		return nil
	}
	var out []int
	add := func(e int) {
		if e > s.Loaded.First && e <= s.Loaded.Last && boundary[e] && (e < layers || s.Tail) {
			out = append(out, e)
		}
	}
	for _, e := range s.Exits {
		if e < s.Loaded.Last {
			add(e)
		}
	}
	add(s.Loaded.Last)
	slices.Sort(out)
	return slices.Compact(out)
}

// severalShards gives a bit to each node that has shards with different first
// layers: a route could otherwise visit it twice. Nodes beyond the 64th get no
// bit; for them distinctness is still checked, only alternatives may be lost.
func severalShards(shards []*Shard) map[protocol.NodeID]uint64 {
	first := make(map[protocol.NodeID]int, len(shards))
	bits := make(map[protocol.NodeID]uint64)
	next := uint64(1)
	for _, s := range shards {
		if f, ok := first[s.Node]; !ok {
			first[s.Node] = s.Loaded.First
		} else if f != s.Loaded.First && bits[s.Node] == 0 && next != 0 {
			bits[s.Node] = next
			next <<= 1
		}
	}
	return bits
}

// entry is a way to reach a shard.
type entry struct {
	prev  *label
	total int64
	link  int64
	hops  int
	used  uint64
}

// enter lists the ways to reach s that may still be the best: the cheapest
// one, and dearer ones that visit fewer of the nodes with several shards.
func enter(n *Network, r Request, s *Shard, before []*label, bits map[protocol.NodeID]uint64) []entry {
	if s.Loaded.First == 0 {
		return []entry{{link: n.gatewayLink(r, s.Node), hops: 1}}
	}
	var all []entry
	var best *entry
	for _, l := range before {
		if l.hops >= protocol.MaxHops || l.used&bits[s.Node] != 0 || l.visits(s.Node) {
			continue
		}
		e := entry{prev: l, total: l.total, link: n.between(l.shard.Node, s.Node), hops: l.hops + 1, used: l.used}
		if len(bits) > 0 {
			all = append(all, e)
		} else if best == nil || compareEntries(e, *best) < 0 {
			best = &e
		}
	}
	if best != nil {
		return []entry{*best}
	}
	slices.SortFunc(all, compareEntries)
	var kept []entry
	for _, e := range all {
		dominated := slices.ContainsFunc(kept, func(k entry) bool { return k.used&^e.used == 0 })
		if !dominated {
			kept = append(kept, e)
		}
		if len(kept) == maxLabels {
			break
		}
	}
	return kept
}

// visits reports whether the route contains node.
func (l *label) visits(node protocol.NodeID) bool {
	for ; l != nil; l = l.prev {
		if l.shard.Node == node {
			return true
		}
	}
	return false
}

func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(a.total+a.link, b.total+b.link), cmp.Compare(a.hops, b.hops), compareWays(a.prev, b.prev))
}

// compare orders routes: cost, then fewer hops, then node ids from the head
// on, then longer first parts.
func compare(a, b *label) int {
	return cmp.Or(cmp.Compare(a.total, b.total), cmp.Compare(a.hops, b.hops), compareWays(a, b))
}

// compareWays compares two ways of equal length from the head on.
func compareWays(a, b *label) int {
	if a == b || a == nil || b == nil {
		return 0
	}
	return cmp.Or(compareWays(a.prev, b.prev), cmp.Compare(a.shard.Node, b.shard.Node), cmp.Compare(b.end, a.end),
		cmp.Compare(a.shard.Loaded.Last, b.shard.Loaded.Last),
		cmp.Compare(a.shard.Build.Protocol, b.shard.Build.Protocol), cmp.Compare(a.shard.Build.Llama, b.shard.Build.Llama),
		cmp.Compare(a.cost.Stage, b.cost.Stage), cmp.Compare(a.shard.KVPerCell, b.shard.KVPerCell))
}

func (l *label) route(n *Network, r Request, ru rules, cells int) *Route {
	out := &Route{
		Model: n.Model, Name: n.Name, Layers: n.Layers, Build: l.shard.Build,
		ReturnMicros: n.gatewayLink(r, l.shard.Node), TotalMicros: l.total,
		Cells: cells, Headroom: ru.headroom, StepMicros: l.total,
	}
	for ; l != nil; l = l.prev {
		s := l.shard
		use := protocol.Range{First: s.Loaded.First, Last: l.end}
		out.Hops = append(out.Hops, Hop{
			Node: s.Node, Addr: s.Addr, Use: use, Loaded: s.Loaded,
			KVBytes: kvBytes(s, cells), Measured: s.StepMicros > 0, Cost: l.cost,
		})
		out.StepMicros -= l.cost.Prefill
	}
	slices.Reverse(out.Hops)
	return out
}
