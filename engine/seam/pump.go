package seam

import (
	"context"

	"neuron/engine/protocol"
	"neuron/engine/protocol/pen"
)

// feed is the feeder: it takes frames from the inbox in order, checks them
// against the session, and hands them to the stage.
func (s *session) feed() {
	for {
		f, hand, done, ok := s.inbox.pop(s.ctx)
		if !ok {
			return
		}
		ok = s.hand(hand, f)
		done()
		if !ok {
			return
		}
	}
}

// handNow hands a decode or verify frame over on the reader's own goroutine, which saves
// waking the feeder. Only a stage that is stuck makes it wait, and then the
// stage's end frees it. taken is false when the frame has to go through the
// inbox, ok when the session has ended.
func (s *session) handNow(f *protocol.Frame) (taken, ok bool) {
	if f.Kind != protocol.KindDecode && f.Kind != protocol.KindVerify || len(f.Payload) > pen.AtOnce || !s.inbox.pass() {
		return false, false
	}
	defer s.inbox.passed()
	return true, s.hand(s.ctx, f)
}

// hand checks f and hands it to the stage; false when the session has ended.
func (s *session) hand(ctx context.Context, f *protocol.Frame) bool {
	var err *protocol.Error
	switch {
	case f.Kind.Rows():
		if s.overdue() {
			return false
		}
		if err = s.admit(f); err == nil {
			s.rec.In(f)
		}
	case f.Kind == protocol.KindTruncate:
		err = s.truncate(f)
	default: // the reader lets only these pass
		err = s.cancelRows(f)
	}
	switch {
	case err == errDropped:
		return true
	case err != nil:
		s.fault(err)
		return false
	}
	s.tapped(f, Taps.Received)
	if e := s.st.Send(ctx, f); e != nil && (ctx.Err() == nil || s.ctx.Err() != nil) {
		s.end(protocol.AsError(e), "")
		return false
	}
	return true
}

// errDropped marks frames of dead epochs; it never leaves this file.
var errDropped = &protocol.Error{Code: protocol.CodeFrameOrder, Message: "frame of a dead epoch"}

// fault ends the session for a fault in what the previous hop sent. The driver
// is no hop: its faults are named where they are found, and nobody is told.
func (s *session) fault(err *protocol.Error) {
	if s.hop == 0 {
		s.end(err, "")
		return
	}
	s.end(err.AtHop(s.hop-1), s.prev)
}

// admit checks a row frame and notes it as handed to the stage.
func (s *session) admit(f *protocol.Frame) *protocol.Error {
	if err := s.in.check(f); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ok, err := s.pos.Admit(f)
	if err != nil {
		return err
	}
	if !ok {
		return errDropped
	}
	if len(s.queue) >= maxQueue {
		return errorf(protocol.CodeStageOverloaded, "more than %d frames wait for the stage", maxQueue)
	}
	if !s.ended {
		s.phase = protocol.PhaseDecode
		if f.Kind == protocol.KindPrefill {
			s.phase = protocol.PhasePrefill
		}
	}
	countIn(&s.counters, f)
	s.queue = append(s.queue, sent{h: f.Header})
	return nil
}

// truncate moves to the next epoch. The next hop gets the frame behind the
// rows that the stage still has, so it waits in the queue for the drainer.
func (s *session) truncate(f *protocol.Frame) *protocol.Error {
	s.rec.Truncate(f) // with the position that it came with
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.pos.Next()
	to, err := s.pos.Truncate(f)
	if err != nil {
		return err
	}
	countDropped(&s.counters, was, to)
	if len(s.queue) >= maxQueue {
		return errorf(protocol.CodeStageOverloaded, "more than %d frames wait for the stage", maxQueue)
	}
	if !s.tail {
		s.queue = append(s.queue, sent{h: f.Header, control: protocol.ControlFrame(f.Kind, f.Slot, f.Epoch, f.Pos)})
		s.out.kick()
	}
	f.Pos = to
	return nil
}

// cancelRows kills epochs here and, at once, on the hops behind.
func (s *session) cancelRows(f *protocol.Frame) *protocol.Error {
	s.mu.Lock()
	ok, err := s.pos.Cancel(f)
	down := s.down
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if !ok {
		return errDropped
	}
	if down != nil {
		// Its failure ends the session through the downstream goroutine.
		_ = down.Send(s.ctx, protocol.ControlFrame(f.Kind, f.Slot, f.Epoch, f.Pos))
	}
	return nil
}
