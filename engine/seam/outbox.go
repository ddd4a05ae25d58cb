package seam

import (
	"sync"

	"neuron/engine/protocol"
)

// outbox is the bounded queue between the goroutine on which a stage hands over
// what it has produced and the session's drainer. Like the inbox it can be gone
// past: what waits for nobody is handled at once.
type outbox struct {
	mu     sync.Mutex // guards below
	cond   *sync.Cond // of mu: something for the drainer
	now    func(*protocol.Frame) bool
	frames []*protocol.Frame
	kicked bool // a truncate waits in the session's queue
	busy   bool // a frame is being handled
	over   bool // nothing follows
}

// outboxFrames bounds what may wait: at most four chunks are at the stage, each
// with an acknowledgement and its rows.
const outboxFrames = 64

func newOutbox() *outbox {
	b := &outbox{}
	b.cond = sync.NewCond(&b.mu)
	return b
}

// use gives the outbox what handles a frame at once, or says that it cannot.
func (b *outbox) use(now func(*protocol.Frame) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = now
}

// deliver is StageOpen.Deliver; it never waits for a neighbour.
func (b *outbox) deliver(f *protocol.Frame) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return // too much was left, and the session has ended for it
	case f == nil:
		b.over = true
		b.cond.Signal()
		return
	case b.now != nil && !b.busy && !b.kicked && len(b.frames) == 0:
		b.busy = true
		b.mu.Unlock()
		handled := b.now(f)
		b.mu.Lock()
		b.busy = false
		if handled {
			if b.kicked {
				b.cond.Signal()
			}
			return
		}
	case len(b.frames) >= outboxFrames:
		b.over = true
		f = protocol.ErrorFrame(0, 0, errorf(protocol.CodeStageOverloaded, "more than %d results of the stage wait", outboxFrames))
	}
	b.frames = append(b.frames, f)
	b.cond.Signal()
}

// kick has the drainer look at the session's queue.
func (b *outbox) kick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kicked = true
	b.cond.Signal()
}

// pop waits for the oldest frame, or nil after a kick; done must be called when
// that is handled. ok is false when nothing follows.
func (b *outbox) pop() (f *protocol.Frame, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.busy || len(b.frames) == 0 && !b.kicked && !b.over {
		b.cond.Wait()
	}
	switch {
	case len(b.frames) > 0:
		f = b.frames[0]
		b.frames[0] = nil
		b.frames = b.frames[1:]
	case b.kicked:
		b.kicked = false
	default:
		return nil, false
	}
	b.busy = true
	return f, true
}

func (b *outbox) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = false
}
