package registry

import (
	"cmp"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// rings are the nodes in the order of their ids, from which each node gets the
// ones that it should measure. Making them anew for each node would cost the
// square of their number, so they serve for a while.
type rings struct {
	version uint64
	at      time.Time
	ends    []*member // with the first or last layers of any model
	models  map[*model][]*member
}

// ringsFor is how long old rings serve although something has changed.
const ringsFor = time.Second

// RefreshPeers makes the next answers of Peers know all that has changed.
func (r *Registry) RefreshPeers(now time.Time) {
	r.rings = rings{version: r.version, at: now, models: make(map[*model][]*member)}
	for _, m := range r.models {
		for n, h := range m.holders {
			if slices.ContainsFunc(h.shards, func(s *protocol.ShardReport) bool {
				return s.Capability.Loaded.First == 0 || s.Capability.Loaded.Last == s.Capability.Layers
			}) {
				r.rings.ends = append(r.rings.ends, n)
			}
		}
	}
	slices.SortFunc(r.rings.ends, byID)
	r.rings.ends = slices.Compact(r.rings.ends)
}

func byID(a, b *member) int { return cmp.Compare(a.ID, b.ID) }

// ring lists the holders of m.
func (r *Registry) ring(m *model) []*member {
	list, ok := r.rings.models[m]
	if !ok {
		for n := range m.holders {
			list = append(list, n)
		}
		slices.SortFunc(list, byID)
		r.rings.models[m] = list
	}
	return list
}

// Peers lists the nodes whose round trip m should measure, at most limit, by
// id: nodes whose range can follow or precede one of m's, and heads and tails
// of all models, since m may drive sessions. When there are too many, three
// quarters are of the first kind, and of each kind those count that come after
// m in the order of ids, so that not everybody measures the same few. What
// changed within the last second may be missing.
func (r *Registry) Peers(now time.Time, m Member, limit int) []protocol.Peer {
	if r.rings.models == nil || r.rings.version != r.version && !now.Before(r.rings.at.Add(ringsFor)) {
		r.RefreshPeers(now)
	}
	ends := r.after(now, m.ID, r.rings.ends, limit, nil)
	var list []*member
	if own := r.members[memberKey{m.ID, protocol.RoleNode}]; own != nil {
		models := slices.SortedFunc(slices.Values(own.models), func(a, b *model) int { return cmp.Compare(a.id, b.id) })
		for _, of := range models {
			mine := of.holders[own].shards
			for _, n := range r.after(now, m.ID, r.ring(of), limit, func(n *member) bool { return anyTouch(mine, of.holders[n].shards) }) {
				if !slices.Contains(list, n) {
					list = append(list, n)
				}
			}
		}
	}
	list = list[:min(len(list), max(limit*3/4, limit-len(ends)))]
	for _, n := range ends {
		if len(list) < limit && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, byID)
	out := make([]protocol.Peer, len(list))
	for i, n := range list {
		out[i] = protocol.Peer{Node: n.ID, Addr: n.Addr}
	}
	return out
}

// anyTouch reports whether a shard of one list may follow one of the other.
func anyTouch(a, b []*protocol.ShardReport) bool {
	return slices.ContainsFunc(a, func(x *protocol.ShardReport) bool {
		return slices.ContainsFunc(b, func(y *protocol.ShardReport) bool {
			return touches(x.Capability.Loaded, y.Capability.Loaded) || touches(y.Capability.Loaded, x.Capability.Loaded)
		})
	})
}

// after takes at most limit ready nodes from a ring, from the place of id on.
func (r *Registry) after(now time.Time, id protocol.NodeID, ring []*member, limit int, want func(*member) bool) (out []*member) {
	at, _ := slices.BinarySearchFunc(ring, id, func(n *member, id protocol.NodeID) int { return cmp.Compare(n.ID, id) })
	for i := range ring {
		n := ring[(at+i)%len(ring)]
		if n.ID == id || n.gone || want != nil && !want(n) {
			continue
		}
		if st, _ := r.stateOf(now, n); st != StateReady {
			continue
		}
		if out = append(out, n); len(out) == limit {
			break
		}
	}
	return out
}

// touches reports whether b may follow a.
func touches(a, b protocol.Range) bool { return b.First > a.First && b.First <= a.Last }
