package program

import (
	"context"
	"encoding/json"
	"sync"

	"neuron/engine/audit"
	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/session"
	"neuron/internal/version"
)

// newAudits makes the node's part in numeric audits: keeper and auditor.
func (n *Node) newAudits() *audit.Service {
	return audit.New(audit.Options{
		Node: n.id.ID(), TrackerKey: n.trackerKey, Sender: n.client, Engine: version.String(), Logger: n.o.Log("audit"),
		Stage: n.bareStage, Busy: func() bool {
			r, ok := n.shard.Report()
			return !ok || r.State != protocol.ShardReady || n.sharingOff() != ""
		},
		Tell: func(kind protocol.MessageKind, body any) {
			if c := n.control(); c == nil || !c.Tell(kind, body) {
				n.log.Debug("Message for the tracker is lost", "kind", string(kind))
			}
		},
	})
}

// newAudits makes the gateway's part: it keeps what it sends to heads.
func (g *Gateway) newAudits() *audit.Service {
	return audit.New(audit.Options{
		Node: g.id.ID(), TrackerKey: g.trackerKey, Sender: g.client, Engine: version.String(), Logger: g.o.Log("audit"),
		Tell: func(kind protocol.MessageKind, body any) {
			if !g.ctl.Tell(kind, body) {
				g.log.Debug("Message for the tracker is lost", "kind", string(kind))
			}
		},
	})
}

// keptHops shows the rows of public sessions to the driver's keeper on their
// way to hop 0.
type keptHops struct {
	session.Hops
	keeper *audit.Keeper
	public sync.Map // sessions that were opened with a public lease
}

// Open notes what the session's lease allows.
func (h *keptHops) Open(ctx context.Context, hop protocol.Hop, r *protocol.OpenRequest) (*protocol.OpenReply, error) {
	var l protocol.Lease
	if r.Hop == 0 && r.Lease != nil && json.Unmarshal(r.Lease.Lease, &l) == nil && l.Policy == protocol.PolicyPublic {
		h.public.Store(l.Session, true)
	}
	return h.Hops.Open(ctx, hop, r)
}

// Release forgets the session.
func (h *keptHops) Release(ctx context.Context, hop protocol.Hop, s protocol.SessionID) error {
	h.public.Delete(s)
	return h.Hops.Release(ctx, hop, s)
}

// Stream opens the row stream; the rows of a public session pass the keeper.
func (h *keptHops) Stream(ctx context.Context, hop protocol.Hop, s protocol.SessionID) (session.Stream, error) {
	st, err := h.Hops.Stream(ctx, hop, s)
	if _, public := h.public.LoadAndDelete(s); err != nil || !public {
		return st, err
	}
	return &keptStream{Stream: st, session: s, keeper: h.keeper}, nil
}

type keptStream struct {
	session.Stream
	session protocol.SessionID
	keeper  *audit.Keeper
}

// Send implements session.Stream.
func (s *keptStream) Send(ctx context.Context, f *protocol.Frame) error {
	if f.Kind.Rows() {
		s.keeper.Sent(s.session, f)
	}
	return s.Stream.Send(ctx, f)
}

// bareStage is the stage for audits: those who pay come by readyStage.
func (n *Node) bareStage() seam.Stage {
	if p := n.shard.Process(); p != nil {
		return p
	}
	return nil
}
