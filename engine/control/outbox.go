package control

import (
	"sync"

	"neuron/engine/protocol"
)

// Bounds of what waits for a connection.
const (
	maxPendingSessions = 1024
	maxPendingBlames   = 256
)

// outbox holds what must reach the tracker sooner or later, also across a lost
// connection: telemetry, of which each phase's newest snapshot is kept, and
// blamed hops. put never blocks.
type outbox struct {
	// wake has room for one; a full channel already says "look".
	wake chan struct{}

	mu sync.Mutex
	// Protected by mu.
	order   []protocol.SessionID
	pending map[protocol.SessionID][]protocol.Telemetry
	blames  []protocol.HopFailed
	dropped int // sessions or blames given up because of the bounds
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), pending: map[protocol.SessionID][]protocol.Telemetry{}}
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// putTelemetry replaces the newest waiting snapshot of the same phase, or adds
// one behind it: phases change at most six times, so a session's list is short.
func (o *outbox) putTelemetry(t protocol.Telemetry) {
	o.mu.Lock()
	q, known := o.pending[t.Session]
	switch n := len(q); {
	case n > 0 && q[n-1].Phase == t.Phase:
		if q[n-1].Seq < t.Seq {
			q[n-1] = t
		}
	default:
		q = append(q, t)
	}
	o.pending[t.Session] = q
	if !known {
		o.order = append(o.order, t.Session)
		if len(o.order) > maxPendingSessions {
			delete(o.pending, o.order[0])
			o.order = o.order[1:]
			o.dropped++
		}
	}
	o.mu.Unlock()
	o.poke()
}

func (o *outbox) putBlame(h protocol.HopFailed) {
	o.mu.Lock()
	o.blames = append(o.blames, h)
	if len(o.blames) > maxPendingBlames {
		o.blames = o.blames[1:]
		o.dropped++
	}
	o.mu.Unlock()
	o.poke()
}

// next takes the oldest waiting message; blames first, since routes die by
// them. The caller puts it back with unget when it could not be sent.
func (o *outbox) next() (kind protocol.MessageKind, body any, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.blames) > 0 {
		h := o.blames[0]
		o.blames = o.blames[1:]
		return protocol.MsgHopFailed, h, true
	}
	if len(o.order) == 0 {
		return "", nil, false
	}
	id := o.order[0]
	o.order = o.order[1:]
	q := o.pending[id]
	t := q[0]
	if len(q) == 1 {
		delete(o.pending, id)
	} else {
		o.pending[id] = q[1:]
		o.order = append(o.order, id)
	}
	return protocol.MsgSession, protocol.SessionUpdate{Telemetry: t}, true
}

// unget returns a message that was not sent to the front.
func (o *outbox) unget(body any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch b := body.(type) {
	case protocol.HopFailed:
		o.blames = append([]protocol.HopFailed{b}, o.blames...)
	case protocol.SessionUpdate:
		t := b.Telemetry
		q, known := o.pending[t.Session]
		if len(q) > 0 && q[0].Phase == t.Phase {
			return // a newer one of the same phase waits already
		}
		o.pending[t.Session] = append([]protocol.Telemetry{t}, q...)
		if !known {
			o.order = append([]protocol.SessionID{t.Session}, o.order...)
		}
	}
}
