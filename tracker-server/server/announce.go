package server

import (
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/announce"
)

// swarmEvery bounds how often the nodes' addresses are put together for the
// announce.
const swarmEvery = time.Second

// swarmPeers are the nodes that share each model, as the announce tells them.
type swarmPeers map[protocol.ModelID][]announce.Peer

// refreshSwarmLocked follows the registry.
func (c *core) refreshSwarmLocked(now time.Time) {
	v := c.reg.Version()
	if v == c.swarmVersion || now.Sub(c.swarmAt) < swarmEvery {
		return
	}
	c.swarmVersion, c.swarmAt = v, now
	next := make(swarmPeers)
	for id, nodes := range c.reg.Swarm() {
		for _, n := range nodes {
			next[id] = append(next[id], announce.Peer{Addr: n.Addr, Seed: n.Whole})
		}
	}
	c.swarm.Store(&next)
}

// findTorrent lets a client with this token see a torrent of the catalog, and
// returns the nodes that share it.
func (c *core) findTorrent(hash announce.Hash, token string) ([]announce.Peer, error) {
	p := c.catalog.ByHash(hash)
	if p == nil {
		return nil, errNoTorrent
	}
	if err := c.allowed(p, token); err != nil {
		return nil, err
	}
	return (*c.swarm.Load())[p.Model], nil
}

var errNoTorrent = protocol.Errorf(protocol.CodeModelUnknown, "this tracker does not have the torrent in its catalog")
