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
	anyPolicy   bool // ignore who may take part
	anyContext  bool // ignore the longest context of a shard
}

// anyRoom asks only whether the layers are there.
var anyRoom = rules{anyKV: true, anySessions: true, anyPolicy: true, anyContext: true}

// way is the best way to enter a shard: prev is the shard before, used up to
// from, or nil for the gateway.
type way struct {
	prev  *entry
	from  int32
	hops  int32
	total int64 // including link
	link  int64
}

// label is a partial route that ends behind shard at its boundary.
type label struct {
	shard *entry
	total int64
	next  int32 // the next label of the same node at this boundary, plus 1
	hops  int32
}

// scratch is the memory of a search, kept for the next one.
type scratch struct {
	ending [][]label // per boundary
	open   []bool    // boundaries where some shard starts
	first  []int32   // per site: its first label at this boundary, plus 1
	order  []int32   // a heap of the labels at this boundary, best first
	sorted []int32   // what was taken from it
}

// query is one search.
type query struct {
	*Request
	x       *Index
	rules   rules
	cells   int
	without []*entry
}

// usable holds the filters that do not depend on the exit.
func (q *query) usable(e *entry) bool {
	return !e.dead && q.refuses(&e.Shard) == "" && !slices.Contains(q.without, e)
}

// Why a shard is left out, in the order in which filters apply.
const (
	outPolicy   = "policy"
	outState    = "state"
	outContext  = "context"
	outSessions = "sessions"
	outKV       = "kv"
)

// refuses says which filter leaves s out, or "".
func (q *query) refuses(s *Shard) string {
	switch {
	case !q.rules.anyPolicy && (q.Only == nil && s.Barred != "" || q.Only != nil && !q.Only[s.Node]):
		return outPolicy
	case s.Blocked != "" || !s.Until.IsZero() && q.Now.After(s.Until):
		return outState
	case !q.rules.anyContext && s.MaxContext < q.Context:
		return outContext
	case !q.rules.anySessions && s.Sessions >= s.MaxSessions:
		return outSessions
	case !q.rules.anyKV && kvBytes(s, q.cells) > s.spare(q.rules.headroom):
		return outKV
	}
	return ""
}

// spare is the KV memory that a session may have.
func (s *Shard) spare(headroom bool) int64 {
	if headroom {
		return s.FreeKV - s.FreeKV/5
	}
	return s.FreeKV
}

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

// maxSplits bounds the searches that keep a route from visiting a node twice.
// Only networks with several shards per node can need one.
const maxSplits = 64

// best finds the cheapest route that visits no node twice. The search itself
// ignores that rule, so what it finds is a lower bound, and the answer when it
// obeys the rule. Otherwise a legal route lacks one of the two visits: both
// cases are searched, cheapest first.
func (x *Index) best(r *Request, ru rules, without []*entry) *found {
	q := &query{Request: r, x: x, rules: ru, cells: nextPow2(r.Context), without: without}
	type attempt struct {
		*found
		without []*entry
	}
	var open []attempt
	try := func(without []*entry) {
		q.without = without
		if f := q.search(); f != nil {
			open = append(open, attempt{f, without})
		}
	}
	try(without)
	for n := 0; len(open) > 0; n++ {
		at := 0
		for i := range open {
			if open[i].compare(open[at].found) < 0 {
				at = i
			}
		}
		a := open[at]
		i, k, ok := a.twice()
		if !ok {
			return a.found
		}
		open = slices.Delete(open, at, at+1)
		if n < maxSplits {
			try(append(slices.Clone(a.without), a.hops[i].shard))
			try(append(slices.Clone(a.without), a.hops[k].shard))
			continue
		}
		// Out of patience: the node keeps its longest range only, as placement
		// counts it.
		keep := i
		if a.hops[k].shard.Loaded.Len() > a.hops[i].shard.Loaded.Len() {
			keep = k
		}
		less := slices.Clone(a.without)
		for _, e := range x.nodes[a.hops[i].shard.Node] {
			if e != a.hops[keep].shard && !slices.Contains(less, e) {
				less = append(less, e)
			}
		}
		open = open[:0]
		try(less)
	}
	return nil
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

// search goes through all builds and returns the best route of all.
func (q *query) search() *found {
	var best *found
	for _, p := range q.x.pools {
		if f := q.searchPool(p); f != nil && (best == nil || f.compare(best) < 0) {
			best = f
		}
	}
	return best
}

// searchPool goes through the boundaries from layer 0 up. Every edge leads
// upwards, so each boundary's labels are complete when it is reached.
func (q *query) searchPool(p *pool) *found {
	if p.firsts[0] != 0 {
		return nil
	}
	w := &q.x.links.work
	w.reset(q.x.Layers, len(q.x.links.sites))
	for _, f := range p.firsts {
		w.open[f] = true
	}
	w.open[q.x.Layers] = true
	for _, first := range p.firsts {
		labels := w.ending[first]
		if first > 0 && len(labels) == 0 {
			continue
		}
		w.enter(labels)
		for _, e := range p.starts[first] {
			if !q.usable(e) {
				continue
			}
			if first == 0 {
				link := q.x.gatewayLink(q.Request, e.Node, e.site)
				e.in = way{hops: 1, total: link, link: link}
			} else if !q.reach(e, w, labels, int32(first)) {
				continue
			}
			q.leave(e, w)
		}
		w.clear(labels)
	}
	return q.arrive(p, w.ending[q.x.Layers])
}

// leave adds the labels of all boundaries at which e may stop and another
// shard may go on (or the model ends).
func (q *query) leave(e *entry, w *scratch) {
	for i := range e.ends {
		d := &e.ends[i]
		if !w.open[d.at] {
			continue
		}
		total := e.in.total + d.base
		if q.Prompt > 0 {
			all, saved := q.prefill(&e.Shard, d.chunk)
			total += all - saved
		}
		w.ending[d.at] = append(w.ending[d.at], label{shard: e, total: total, hops: e.in.hops})
	}
}

// reach finds the best way into e from the labels at its first layer. Of nodes
// whose round trip to e is known all count; of the others, whose link costs the
// same, only the first in order does.
func (q *query) reach(e *entry, w *scratch, labels []label, at int32) bool {
	var best way
	var from *label
	consider := func(l *label, link int64) {
		if l.hops >= protocol.MaxHops {
			return
		}
		total := l.total + link
		if from != nil && (total > best.total || total == best.total &&
			(l.hops > from.hops || l.hops == from.hops && compareWays(l.shard, at, from.shard, at) >= 0)) {
			return
		}
		best = way{prev: l.shard, from: at, hops: l.hops + 1, total: total, link: link}
		from = l
	}
	links := q.x.links.sites[e.site].links
	for _, k := range links {
		for i := w.first[k.to]; i != 0; i = labels[i-1].next {
			consider(&labels[i-1], int64(k.half))
		}
	}
	for n := 0; ; n++ {
		l := w.nth(n, labels, at)
		if l == nil || from != nil && l.total+DefaultRTT/2 > best.total {
			break
		}
		if l.shard.site == e.site {
			continue
		}
		if _, known := q.x.links.half(e.site, l.shard.site); !known {
			consider(l, DefaultRTT/2)
			if l.hops < protocol.MaxHops {
				break
			}
		}
	}
	e.in = best
	return from != nil
}

// arrive picks the best whole route.
func (q *query) arrive(p *pool, labels []label) *found {
	var best *label
	for i := range labels {
		l := &labels[i]
		l.total += q.x.gatewayLink(q.Request, l.shard.Node, l.shard.site)
		if best == nil || l.compare(best, int32(q.x.Layers)) < 0 {
			best = l
		}
	}
	if best == nil {
		return nil
	}
	f := &found{build: p.build, total: best.total}
	for e, at := best.shard, q.x.Layers; e != nil; {
		f.hops = append(f.hops, hop{e, at, e.in.link})
		e, at = e.in.prev, int(e.in.from)
	}
	slices.Reverse(f.hops)
	return f
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
		cmp.Compare(a.StepMicros, b.StepMicros), cmp.Compare(a.KVPerCell, b.KVPerCell))
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
			Node: s.Node, Addr: s.Addr, Use: use, Loaded: s.Loaded, KVBytes: kvBytes(s, cells), Measured: s.StepMicros > 0, Cost: c,
		})
		out.StepMicros -= all - saved
	}
	return out
}
