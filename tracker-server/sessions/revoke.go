package sessions

import (
	"cmp"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// Revoke ends every live session that a node drives or is a hop of, since it
// may take part no longer, and returns them. Whose hop it was gets hop_lost,
// for a retry finds another route; whose gateway it was gets forbidden, and its
// work counts as that of a client that left.
func (t *Table) Revoke(now time.Time, node protocol.NodeID, why string) []Session {
	var out []Session
	for _, e := range t.live {
		var err *protocol.Error
		switch hop, ok := e.Lease.HopOf(node); {
		case e.Lease.Driver == node:
			err = protocol.Errorf(protocol.CodeForbidden, "the session's gateway may take part no longer: %s", why).With(ByDriver, "true")
		case ok:
			err = protocol.Errorf(protocol.CodeHopLost, "a node of the route may take part no longer: %s", why).AtHop(hop)
		default:
			continue
		}
		out = append(out, t.end(now, e, protocol.FinishError, err.InPhase(e.Phase)))
	}
	slices.SortFunc(out, func(a, b Session) int { return cmp.Compare(a.Lease.Session, b.Lease.Session) })
	return out
}
