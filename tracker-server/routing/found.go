package routing

import (
	"cmp"

	"neuron/engine/protocol"
)

// found is a whole route, with its hops in order.
type found struct {
	build protocol.Build
	hops  []hop
	total int64
}

type hop struct {
	shard *entry
	end   int
	link  int64
}

// twice finds two hops on one node.
func (f *found) twice() (i, k int, ok bool) {
	for i := range f.hops {
		for k := range i {
			if f.hops[i].shard.site == f.hops[k].shard.site {
				return k, i, true
			}
		}
	}
	return 0, 0, false
}

// compare orders labels of one boundary, and whole routes: cost, then fewer
// hops, then node ids from the head on, then longer first parts.
func (l *label) compare(o *label, at int32) int {
	// Not cmp.Or: that would compare the ways each time.
	switch {
	case l.total != o.total:
		return cmp.Compare(l.total, o.total)
	case l.hops != o.hops:
		return cmp.Compare(l.hops, o.hops)
	}
	return compareWays(l.shard, at, o.shard, at)
}

// compareWays compares two ways with as many hops from the head on.
func compareWays(a *entry, endA int32, b *entry, endB int32) int {
	if a == nil || b == nil || a == b && endA == endB {
		return 0
	}
	if c := compareWays(a.in.prev, a.in.from, b.in.prev, b.in.from); c != 0 {
		return c
	}
	return compareHops(a, int(endA), b, int(endB))
}

func compareHops(a *entry, endA int, b *entry, endB int) int {
	if a == b {
		return cmp.Compare(endB, endA)
	}
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(endB, endA), cmp.Compare(a.Loaded.Last, b.Loaded.Last),
		cmp.Compare(a.Build.Protocol, b.Build.Protocol), cmp.Compare(a.Build.Llama, b.Build.Llama),
		cmp.Compare(a.StepMicros, b.StepMicros), cmp.Compare(a.KVPerCell, b.KVPerCell), cmp.Compare(a.Seam, b.Seam))
}

func (f *found) compare(o *found) int {
	if c := cmp.Or(cmp.Compare(f.total, o.total), cmp.Compare(len(f.hops), len(o.hops))); c != 0 {
		return c
	}
	for i := range f.hops {
		if c := compareHops(f.hops[i].shard, f.hops[i].end, o.hops[i].shard, o.hops[i].end); c != 0 {
			return c
		}
	}
	return 0
}

// route runs a search and writes down what it found.
func (x *Index) route(r *Request, ru rules, without []*entry) *Route {
	f := x.best(r, ru, without)
	if f == nil {
		return nil
	}
	cells := nextPow2(r.Context)
	tail := f.hops[len(f.hops)-1].shard
	out := &Route{
		Model: x.Model, Name: x.Name, Layers: x.Layers, Build: f.build, TotalMicros: f.total, StepMicros: f.total,
		ReturnMicros: x.gatewayLink(r, tail.Node, tail.site), Cells: cells, Headroom: ru.headroom,
	}
	for _, h := range f.hops {
		s := &h.shard.Shard
		use := protocol.Range{First: s.Loaded.First, Last: h.end}
		c := stageCost(s, use.Len())
		all, saved := r.prefill(s, chunkCost(s, use.Len()))
		c.Link, c.Prefill, c.Cache = h.link, all, -saved
		out.Hops = append(out.Hops, Hop{
			Node: s.Node, Addr: s.Addr, Use: use, Loaded: s.Loaded, KVBytes: kvBytes(s, cells), Measured: s.StepMicros > 0, Halves: s.Halves, Cost: c,
		})
		out.StepMicros -= all - saved
	}
	return out
}
