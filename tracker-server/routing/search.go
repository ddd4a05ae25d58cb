package routing

import (
	"slices"

	"neuron/engine/protocol"
)

// rules says which filters a search applies.
type rules struct {
	headroom    bool // keep a fifth of each node's free KV bytes
	anyKV       bool // ignore KV memory
	anySessions bool // ignore session limits
	anyContext  bool // ignore the longest context of a shard
}

// roomy asks only whether the layers are there.
var roomy = rules{anyKV: true, anySessions: true, anyContext: true}

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
	longest bool // only the longest shard of each node
}

// usable holds the filters that do not depend on the exit.
func (q *query) usable(e *entry) bool {
	return !e.dead && q.refuses(&e.Shard) == "" && !slices.Contains(q.without, e) && (!q.longest || e == q.longestOf(e))
}

// longestOf finds the longest usable shard of e's node, the lower one of two.
func (q *query) longestOf(e *entry) *entry {
	best := e
	for _, o := range q.x.nodes[e.Node] {
		if o != e && !o.dead && q.refuses(&o.Shard) == "" && !slices.Contains(q.without, o) &&
			(o.Loaded.Len() > best.Loaded.Len() || o.Loaded.Len() == best.Loaded.Len() && o.Loaded.First < best.Loaded.First) {
			best = o
		}
	}
	return best
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
	case q.Only == nil && s.Barred != "", q.Only != nil && !q.Only[s.Node]:
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

// maxSplits bounds the searches that keep a route from visiting a node twice.
// Only networks with several shards per node can need one; nodes that report
// many shards to make the tracker search must not get far.
const maxSplits = 12

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
		// Out of patience: every node keeps its longest shard only, as placement
		// counts it.
		q.without, q.longest = without, true
		return q.search()
	}
	return nil
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

// routable reports whether there is any route. That costs far less than the
// best one as long as each node has one shard.
func (x *Index) routable(r *Request, ru rules) bool {
	if !x.single() {
		return x.best(r, ru, nil) != nil
	}
	q := &query{Request: r, x: x, rules: ru, cells: nextPow2(r.Context)}
	return q.reachable()
}

// reachable reports whether a chain exists, for an index whose nodes have one
// shard each: then no chain visits a node twice.
func (q *query) reachable() bool {
	reached := make([]bool, q.x.Layers+1)
	for _, p := range q.x.pools {
		clear(reached)
		reached[0] = true
		for _, first := range p.firsts {
			if !reached[first] {
				continue
			}
			for _, e := range p.starts[first] {
				if q.usable(e) {
					for _, d := range e.ends {
						reached[d.at] = true
					}
				}
			}
			if reached[q.x.Layers] {
				return true
			}
		}
	}
	return false
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

// reach finds the best way into e from the labels at its first layer. Of the
// nodes that nobody measured from e, whose links cost the same, only the first
// in order counts; of the others those that are near enough to be better.
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
	least := w.nth(0, labels, at).total
	for n := 0; ; n++ {
		l := w.nth(n, labels, at)
		if l == nil {
			break
		}
		if l.shard.site == e.site || l.hops >= protocol.MaxHops {
			continue
		}
		if _, known := q.x.links.half(e.site, l.shard.site); !known {
			consider(l, DefaultRTT/2)
			break
		}
	}
	for _, k := range q.x.links.sites[e.site].near {
		if from != nil && least+int64(k.half) > best.total {
			break // and so are all that follow
		}
		for i := w.first[k.to]; i != 0; i = labels[i-1].next {
			consider(&labels[i-1], int64(k.half))
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
