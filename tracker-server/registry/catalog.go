package registry

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"neuron/engine/protocol"
)

// Published is what the signed manifest of a model in the catalog says of it.
// Nodes that contradict it hold something else.
type Published struct {
	Model        protocol.ModelID
	Name         string
	Architecture string
	Layers       int
	Context      int // tokens it was trained for
	Width        int // elements of a hidden row
}

func (p *Published) shape() shape { return shape{p.Name, p.Architecture, p.Layers, p.Width} }

// fits reports whether a shard can be one of this model. What is still being
// fetched has not been measured, so its width may be missing.
func (p *Published) fits(s *protocol.ShardReport) bool {
	c := &s.Capability
	return c.Layers == p.Layers && (c.Width == p.Width || c.Width == 0 && s.State != protocol.ShardReady)
}

// SetCatalog replaces the published models.
func (r *Registry) SetCatalog(list []Published) {
	r.catalog = make(map[protocol.ModelID]*Published, len(list))
	for i := range list {
		r.catalog[list[i].Model] = &list[i]
	}
	for _, n := range r.members {
		r.refresh(n)
	}
	for _, m := range r.models {
		m.ix.Trained = 0
		if p := r.catalog[m.id]; p != nil {
			m.ix.Trained = p.Context
		}
	}
	r.version++
}

// Coverage is how far the network serves a published model.
type Coverage struct {
	// Replicas counts, per layer, the ready nodes that hold it.
	Replicas []int
	Routable bool
	// Fetching counts the nodes that download, verify or load a part of it.
	Fetching int
}

// Coverage says for every published model who serves it, whether anybody does
// or not.
func (r *Registry) Coverage(now time.Time) map[protocol.ModelID]Coverage {
	out := make(map[protocol.ModelID]Coverage, len(r.catalog))
	for id, p := range r.catalog {
		m := r.shapeOf(id)
		if m == nil {
			out[id] = Coverage{Replicas: make([]int, p.Layers)}
			continue
		}
		c := Coverage{Replicas: m.ix.Replicas(now), Routable: m.ix.Connected(now)}
		busy := make(map[protocol.NodeID]bool)
		for n, h := range m.holders {
			for _, s := range h.shards {
				switch s.State {
				case protocol.ShardDownloading, protocol.ShardVerifying, protocol.ShardLoading:
					if st, _ := r.stateOf(now, n); st == StateReady || st == StateOff {
						busy[n.ID] = true
					}
				case protocol.ShardReady, protocol.ShardDraining, protocol.ShardFailed:
				}
			}
		}
		c.Fetching = len(busy)
		out[id] = c
	}
	return out
}

// Member reports whether a node id has a connection, in whatever role.
func (r *Registry) Member(id protocol.NodeID) bool {
	for _, role := range []protocol.Role{protocol.RoleNode, protocol.RoleGateway} {
		if n := r.members[memberKey{id, role}]; n != nil && n.connected {
			return true
		}
	}
	return false
}

// SwarmNode is a node that shares a model's files.
type SwarmNode struct {
	Addr  netip.AddrPort
	Whole bool // it has a ready shard of all layers
}

// Swarm lists, for each model, the connected nodes that report a BitTorrent
// address and a shard of it. Nodes whose sharing is off are left out.
func (r *Registry) Swarm() map[protocol.ModelID][]SwarmNode {
	out := make(map[protocol.ModelID][]SwarmNode)
	for _, n := range r.members {
		if !n.connected || !n.fresh || !n.swarm.IsValid() || n.report.SharingOff != "" {
			continue
		}
		models := make(map[protocol.ModelID]bool)
		for i := range n.report.Shards {
			s := &n.report.Shards[i]
			if s.State != protocol.ShardFailed {
				c := &s.Capability
				models[c.Model] = models[c.Model] || s.State == protocol.ShardReady && c.Loaded.Len() == c.Layers
			}
		}
		for id, whole := range models {
			out[id] = append(out[id], SwarmNode{n.swarm, whole})
		}
	}
	for _, id := range slices.Collect(maps.Keys(out)) {
		slices.SortFunc(out[id], func(a, b SwarmNode) int { return a.Addr.Compare(b.Addr) })
	}
	return out
}

// swarmAddr is where others can dial a node for BitTorrent: only ever the
// computer that the report came from, so that no node can send the others to a
// stranger. It is not valid when the report names another one.
func swarmAddr(remote netip.Addr, reported string) netip.AddrPort {
	host, port, err := net.SplitHostPort(reported)
	p, perr := strconv.ParseUint(port, 10, 16)
	remote = remote.Unmap().WithZone("")
	if err != nil || perr != nil || p == 0 || !remote.IsValid() {
		return netip.AddrPort{}
	}
	if host == "" {
		return netip.AddrPortFrom(remote, uint16(p))
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}
	}
	switch ip = ip.Unmap(); {
	case ip.IsUnspecified():
		ip = remote
	case ip == remote, ip.IsLoopback() && remote.IsLoopback():
	default:
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip, uint16(p))
}
