package routing

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// Index holds the shards of one model, prepared for searches. It is not safe
// for concurrent use.
type Index struct {
	Model  protocol.ModelID
	Name   string
	Layers int
	// Trained is the context that the model was made for, for as long as no
	// shard says what it can do.
	Trained int

	links *Links
	pools map[kin]*pool
	nodes map[protocol.NodeID][]*entry
}

// kin is what shards that share a route agree in.
type kin struct {
	build protocol.Build
	seam  string
}

func (s *Shard) kin() kin { return kin{s.Build, s.Seam} }

// pool are the shards of one build, and of one form of rows between them: only
// they can share a route.
type pool struct {
	build  protocol.Build
	firsts []int // ascending
	starts map[int][]*entry
}

// entry is a shard with what does not depend on the request.
type entry struct {
	Shard
	site int32
	// dead: no route of this model may use it.
	dead bool
	ends []end
	// What the search that runs now found, see search.go.
	in way
}

// end is a boundary at which a shard may stop.
type end struct {
	at int32
	// base is the cost of getting there without link and prefill, chunk the
	// time of a prefill chunk.
	base, chunk int64
}

// NewIndex makes an empty index that takes round trips from links.
func NewIndex(model protocol.ModelID, name string, layers int, links *Links) *Index {
	return &Index{
		Model: model, Name: name, Layers: layers, links: links,
		pools: make(map[kin]*pool), nodes: make(map[protocol.NodeID][]*entry),
	}
}

// Put replaces the shards of a node; none removes it.
func (x *Index) Put(node protocol.NodeID, shards []Shard) {
	old := x.nodes[node]
	if len(old) == len(shards) && len(old) > 0 {
		same := true
		for i := range shards {
			same = same && old[i].kin() == shards[i].kin() && old[i].Loaded.First == shards[i].Loaded.First
		}
		if same {
			for i := range shards {
				old[i].prepare(shards[i], x.Layers)
			}
			return
		}
	}
	var list []*entry
	for i := range shards {
		e := &entry{site: x.links.hold(node)}
		e.prepare(shards[i], x.Layers)
		x.insert(e)
		list = append(list, e)
	}
	for _, e := range old {
		x.remove(e)
		x.links.release(node)
	}
	if len(list) == 0 {
		delete(x.nodes, node)
		return
	}
	x.nodes[node] = list
}

// Close gives the sites back.
func (x *Index) Close() {
	for _, id := range slices.Collect(maps.Keys(x.nodes)) {
		x.Put(id, nil)
	}
}

func (x *Index) insert(e *entry) {
	p := x.pools[e.kin()]
	if p == nil {
		p = &pool{build: e.Build, starts: make(map[int][]*entry)}
		x.pools[e.kin()] = p
	}
	first := e.Loaded.First
	if at, ok := slices.BinarySearch(p.firsts, first); !ok {
		p.firsts = slices.Insert(p.firsts, at, first)
	}
	p.starts[first] = append(p.starts[first], e)
}

func (x *Index) remove(e *entry) {
	p, first := x.pools[e.kin()], e.Loaded.First
	list := p.starts[first]
	at := slices.Index(list, e)
	list[at] = list[len(list)-1]
	list[len(list)-1] = nil
	p.starts[first] = list[:len(list)-1]
	if len(list) > 1 {
		return
	}
	delete(p.starts, first)
	k, _ := slices.BinarySearch(p.firsts, first)
	p.firsts = slices.Delete(p.firsts, k, k+1)
	if len(p.firsts) == 0 {
		delete(x.pools, e.kin())
	}
}

// prepare takes the shard's figures.
func (e *entry) prepare(s Shard, layers int) {
	e.Shard, e.ends = s, e.ends[:0]
	e.dead = !s.Loaded.Valid(layers) || s.Loaded.First == 0 && !s.Head
	if e.dead {
		return
	}
	add := func(at int) {
		if at < layers || s.Tail {
			used := at - s.Loaded.First
			e.ends = append(e.ends, end{int32(at), stageCost(&e.Shard, used).Sum(), chunkCost(&e.Shard, used)})
		}
	}
	if s.WholeOnly {
		if s.Loaded.First == 0 && s.Loaded.Last == layers {
			add(layers)
		}
		return
	}
	for _, at := range s.Exits {
		if at > s.Loaded.First && at < s.Loaded.Last {
			add(at)
		}
	}
	add(s.Loaded.Last)
	slices.SortFunc(e.ends, func(a, b end) int { return int(a.at - b.at) })
	e.ends = slices.CompactFunc(e.ends, func(a, b end) bool { return a.at == b.at })
}

// state says why the shard takes no new session at that time, or is "".
func (s *Shard) state(now time.Time) string {
	if s.Blocked == "" && !s.Until.IsZero() && now.After(s.Until) {
		return "draining"
	}
	return s.Blocked
}

// Shards lists all shards by first layer, node and last layer, each with the
// state that it has at that time in Blocked.
func (x *Index) Shards(now time.Time) []Shard {
	n := 0
	for _, list := range x.nodes {
		n += len(list)
	}
	out := make([]Shard, 0, n)
	for _, list := range x.nodes {
		for _, e := range list {
			s := e.Shard
			s.Blocked = s.state(now)
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Shard) int {
		return cmp.Or(cmp.Compare(a.Loaded.First, b.Loaded.First), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Loaded.Last, b.Loaded.Last))
	})
	return out
}

// single reports whether no node has more than one shard.
func (x *Index) single() bool {
	for _, list := range x.nodes {
		if len(list) > 1 {
			return false
		}
	}
	return true
}

// MaxContext is the longest context of any shard, in tokens.
func (x *Index) MaxContext() int {
	out := 0
	for _, p := range x.pools {
		for _, list := range p.starts {
			for _, e := range list {
				out = max(out, e.MaxContext)
			}
		}
	}
	if out == 0 {
		out = x.Trained // no stage has said what it can do
	}
	return out
}

// Clone copies the index with the round trips between its nodes and to the
// gateway. The copy shares nothing that changes, so slow questions need not
// hold up the registry.
func (x *Index) Clone(gateway protocol.NodeID) *Index {
	ids := make([]protocol.NodeID, 0, len(x.nodes)+1)
	for id := range x.nodes {
		ids = append(ids, id)
	}
	if x.nodes[gateway] == nil {
		ids = append(ids, gateway)
	}
	out := NewIndex(x.Model, x.Name, x.Layers, x.links.part(ids))
	out.Trained = x.Trained
	entries, ends := 0, 0
	for _, list := range x.nodes {
		entries += len(list)
		for _, e := range list {
			ends += len(e.ends)
		}
	}
	// Few pieces of memory: the registry waits for this.
	all, refs, marks := make([]entry, 0, entries), make([]*entry, 0, entries), make([]end, 0, ends)
	out.nodes = make(map[protocol.NodeID][]*entry, len(x.nodes))
	for id, list := range x.nodes {
		for _, e := range list {
			marks = append(marks, e.ends...)
			all = append(all, entry{Shard: e.Shard, site: e.site, dead: e.dead, ends: marks[len(marks)-len(e.ends) : len(marks) : len(marks)]})
			refs = append(refs, &all[len(all)-1])
			out.insert(&all[len(all)-1])
		}
		out.nodes[id] = refs[len(refs)-len(list) : len(refs) : len(refs)]
	}
	return out
}

// Replicas counts, per layer, the nodes that hold it for public routes.
func (x *Index) Replicas(now time.Time) []int {
	// Differences first: a node adds one where a stretch of its layers begins
	// and takes it back where that ends.
	out := make([]int, x.Layers+1)
	var ranges []protocol.Range
	for _, list := range x.nodes {
		ranges = ranges[:0]
		for _, e := range list {
			if e.Loaded.Valid(x.Layers) && e.state(now) == "" && e.Barred == "" {
				ranges = append(ranges, e.Loaded)
			}
		}
		slices.SortFunc(ranges, func(a, b protocol.Range) int { return cmp.Compare(a.First, b.First) })
		end := 0
		for _, r := range ranges {
			if first := max(r.First, end); first < r.Last {
				out[first]++
				out[r.Last]--
				end = r.Last
			}
		}
	}
	for l := 1; l < len(out); l++ {
		out[l] += out[l-1]
	}
	return out[:x.Layers]
}
