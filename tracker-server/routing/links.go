package routing

import (
	"cmp"
	"slices"

	"neuron/engine/protocol"
)

// Links holds the measured round trips between nodes. When both ends measured
// one, the longer claim counts: a node cannot make itself attractive by a
// small one. It also lends its scratch memory to the searches of all indexes
// that use it, so one goroutine at a time may use any of them.
type Links struct {
	index  map[protocol.NodeID]int32
	sites  []site
	free   []int32
	claims map[protocol.NodeID]map[protocol.NodeID]int64
	work   scratch
}

// site is a node's place in the arrays of a search.
type site struct {
	holds int // indexes that name it
	// links are symmetric and ascending by to; near are the same by half.
	links, near []link
}

// link says that one way to a site takes half microseconds.
type link struct{ to, half int32 }

// NewLinks makes an empty table.
func NewLinks() *Links {
	return &Links{index: make(map[protocol.NodeID]int32), claims: make(map[protocol.NodeID]map[protocol.NodeID]int64)}
}

// Set replaces what a node claims, in microseconds; nil forgets it. The map
// must not change afterwards.
func (l *Links) Set(from protocol.NodeID, rtts map[protocol.NodeID]int64) {
	old := l.claims[from]
	if len(rtts) == 0 {
		delete(l.claims, from)
	} else {
		l.claims[from] = rtts
	}
	for to, us := range rtts {
		if was, ok := old[to]; (!ok || was != us) && to != from {
			l.update(from, to)
		}
	}
	for to := range old {
		if _, ok := rtts[to]; !ok && to != from {
			l.update(from, to)
		}
	}
}

// RTT is the round trip between two nodes; ok is false when nobody measured it.
func (l *Links) RTT(a, b protocol.NodeID) (us int64, ok bool) {
	x, okX := l.claims[a][b]
	y, okY := l.claims[b][a]
	return max(x, y), okX || okY
}

func (l *Links) update(a, b protocol.NodeID) {
	us, ok := l.RTT(a, b)
	if !ok {
		i, okA := l.index[a]
		k, okB := l.index[b]
		if okA && okB {
			l.unlink(i, k)
			l.unlink(k, i)
			l.drop(a, i)
			l.drop(b, k)
		}
		return
	}
	i, k := l.site(a), l.site(b)
	half := int32(min(ceilDiv(us, 2), 1<<31-1))
	l.link(i, k, half)
	l.link(k, i, half)
}

func (l *Links) site(id protocol.NodeID) int32 {
	if i, ok := l.index[id]; ok {
		return i
	}
	var i int32
	if n := len(l.free); n > 0 {
		i, l.free = l.free[n-1], l.free[:n-1]
	} else {
		i = int32(len(l.sites))
		l.sites = append(l.sites, site{})
	}
	l.index[id] = i
	return i
}

// hold keeps a node's site until release.
func (l *Links) hold(id protocol.NodeID) int32 {
	i := l.site(id)
	l.sites[i].holds++
	return i
}

func (l *Links) release(id protocol.NodeID) {
	i := l.index[id]
	l.sites[i].holds--
	l.drop(id, i)
}

func (l *Links) drop(id protocol.NodeID, i int32) {
	if s := &l.sites[i]; s.holds == 0 && len(s.links) == 0 {
		s.links, s.near = nil, nil
		delete(l.index, id)
		l.free = append(l.free, i)
	}
}

func (l *Links) find(from, to int32) (int, bool) {
	return slices.BinarySearchFunc(l.sites[from].links, to, func(k link, to int32) int { return int(k.to) - int(to) })
}

func (l *Links) link(from, to, half int32) {
	at, ok := l.find(from, to)
	s := &l.sites[from]
	if ok {
		s.far(s.links[at])
		s.links[at].half = half
	} else {
		s.links = slices.Insert(s.links, at, link{to, half})
	}
	k := link{to, half}
	at, _ = slices.BinarySearchFunc(s.near, k, nearer)
	s.near = slices.Insert(s.near, at, k)
}

// far takes a link out of near.
func (s *site) far(k link) {
	at, _ := slices.BinarySearchFunc(s.near, k, nearer)
	s.near = slices.Delete(s.near, at, at+1)
}

func nearer(a, b link) int {
	if a.half != b.half {
		return cmp.Compare(a.half, b.half)
	}
	return cmp.Compare(a.to, b.to)
}

func (l *Links) unlink(from, to int32) {
	if at, ok := l.find(from, to); ok {
		s := &l.sites[from]
		s.far(s.links[at])
		s.links = slices.Delete(s.links, at, at+1)
	}
}

// half is the measured one-way time between two sites.
func (l *Links) half(from, to int32) (int64, bool) {
	if at, ok := l.find(from, to); ok {
		return int64(l.sites[from].links[at].half), true
	}
	return 0, false
}

// part copies what concerns the given nodes, with the same sites. Nothing can
// be set in the copy.
func (l *Links) part(ids []protocol.NodeID) *Links {
	out := &Links{index: make(map[protocol.NodeID]int32, len(ids)), sites: make([]site, len(l.sites))}
	n := 0
	for _, id := range ids {
		if i, ok := l.index[id]; ok {
			out.index[id] = i
			n += len(l.sites[i].links) + len(l.sites[i].near)
		}
	}
	all := make([]link, 0, n) // one piece of memory: the registry waits for this
	add := func(list []link) []link {
		all = append(all, list...)
		return all[len(all)-len(list) : len(all) : len(all)]
	}
	for _, i := range out.index {
		out.sites[i] = site{links: add(l.sites[i].links), near: add(l.sites[i].near)}
	}
	return out
}
