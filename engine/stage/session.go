package stage

import (
	"context"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
)

// session implements seam.StageSession over a slot of the pipe.
type session struct {
	// Constant after Open.
	p     *Process
	slot  uint32
	cells int
	kept  int

	take   func(*protocol.Frame) // seam.StageOpen.Deliver
	opened chan wire.Opened

	mu    sync.Mutex    // held while calling take, and guards below
	ended chan struct{} // closed when no frame follows
	over  bool          // ended is closed
	freed chan struct{} // closed when the KV memory is free
}

// Send implements seam.StageSession.
func (s *session) Send(ctx context.Context, f *protocol.Frame) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.ended:
		return protocol.Errorf(protocol.CodeSessionUnknown, "the session has ended in this stage")
	default:
	}
	f.Slot = s.slot
	return s.p.child.send(f)
}

// Cells implements seam.StageSession.
func (s *session) Cells() int { return s.cells }

// Kept implements seam.StageSession.
func (s *session) Kept() int { return s.kept }

// Close implements seam.StageSession: it tells the child and waits for its
// word that the memory is free, or for its end.
func (s *session) Close() error {
	select {
	case <-s.freed:
		return nil
	default:
	}
	s.end(nil)
	if err := s.p.child.send(protocol.ControlFrame(protocol.KindClose, s.slot, 0, 0)); err != nil {
		// A child that cannot be written to is ending, and its memory with it.
		s.p.forget(s)
		s.markFreed()
		return nil
	}
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-s.freed:
		return nil
	case <-timer.C:
		return protocol.Errorf(protocol.CodeStageFrozen, "the stage did not free the session within %s", closeTimeout)
	}
}

// deliver hands a frame over.
func (s *session) deliver(f *protocol.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.take(f)
	}
}

// end says that nothing follows; why, if any, comes as the last frame.
func (s *session) end(why *protocol.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.over = true
	close(s.ended)
	if why != nil {
		s.take(protocol.ErrorFrame(0, 0, why))
	}
	s.take(nil)
}

func (s *session) markFreed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.freed:
	default:
		close(s.freed)
	}
}
