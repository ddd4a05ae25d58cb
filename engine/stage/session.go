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

	opened chan wire.Opened
	frames chan *protocol.Frame

	mu     sync.Mutex    // guards closing of the channels
	ended  chan struct{} // closed when no frame follows
	freed  chan struct{} // closed when the KV memory is free
	closed bool          // frames is closed
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

// Frames implements seam.StageSession.
func (s *session) Frames() <-chan *protocol.Frame { return s.frames }

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

// deliver hands a frame to the consumer without ever blocking the reader.
func (s *session) deliver(f *protocol.Frame) {
	s.mu.Lock()
	full := false
	if !s.closed {
		select {
		case s.frames <- f:
		default:
			full = true
		}
	}
	s.mu.Unlock()
	if full {
		s.end(protocol.Errorf(protocol.CodeStageOverloaded, "more than %d results were left unread", framesKept))
	}
}

// end closes the frames; why, if any, comes as the last one.
func (s *session) end(why *protocol.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if why != nil {
		f := protocol.ErrorFrame(0, 0, why)
		select {
		case s.frames <- f:
		default: // full: make room for the reason, the oldest rows are void now
			<-s.frames
			s.frames <- f
		}
	}
	close(s.frames)
	close(s.ended)
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
