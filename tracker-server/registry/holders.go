package registry

import (
	"time"

	"neuron/engine/protocol"
)

// Holder is a node with a ready shard of a model.
type Holder struct {
	Node   protocol.NodeID
	Addr   string
	Engine string
	// Capability is the shard's; it must not be changed.
	Capability *protocol.Capability
	// Idle says that the node would take a session and has none.
	Idle bool
}

// Holders lists the nodes that hold a model, in no order.
func (r *Registry) Holders(now time.Time, id protocol.ModelID) []Holder {
	var out []Holder
	for _, m := range r.byID[id] {
		for n, h := range m.holders {
			state, _ := r.stateOf(now, n)
			for _, s := range h.shards {
				if s.State != protocol.ShardReady {
					continue
				}
				out = append(out, Holder{
					Node: n.ID, Addr: n.Addr, Engine: n.Engine, Capability: &s.Capability,
					Idle: state == StateReady && r.barredOf(n.ID) == "" && s.Sessions == 0 && s.Queue == 0 && len(r.promised[n.ID]) == 0,
				})
			}
		}
	}
	return out
}
