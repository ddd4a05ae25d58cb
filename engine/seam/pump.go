package seam

import (
	"context"
	"slices"

	"neuron/engine/protocol"
	"neuron/engine/protocol/pen"
	"neuron/engine/seam/seamclient"
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
		select {
		case s.kick <- struct{}{}:
		default:
		}
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

// drain is the drainer: it takes what the stage produces until the stage has
// closed its channel, also after the session's end.
func (s *session) drain() {
	for {
		select {
		case f, ok := <-s.st.Frames():
			if !ok {
				s.end(errorf(protocol.CodeStageLost, "the stage ended the session without a reason"), "")
				return
			}
			if s.ctx.Err() != nil {
				continue
			}
			if err := s.produced(f); err != nil && s.ctx.Err() == nil {
				s.end(err, "")
			}
		case <-s.kick:
			s.sendControls()
		}
	}
}

// produced handles one frame of the stage. Its errors are the stage's faults,
// or those of sending on, which ended the next hop's stream already.
func (s *session) produced(f *protocol.Frame) *protocol.Error {
	if f.Kind != protocol.KindToken && !f.Kind.Rows() {
		s.release()
	}
	switch {
	case f.Kind == protocol.KindAck:
		return s.executed(f)
	case f.Kind.Rows() && !s.tail:
		return s.passOn(f)
	case f.Kind == protocol.KindToken && s.tail:
		s.mu.Lock()
		countToken(&s.counters, f)
		s.mu.Unlock()
		s.rec.Out(f)
		s.produce(f)
		return nil
	case f.Kind == protocol.KindError:
		s.end(f.Err(), "")
		return nil
	}
	return errorf(protocol.CodeInternal, "the stage produced a %s frame", f.Kind)
}

// produce sends the tail's token to the driver, in one piece with the
// acknowledgement that was held back for it.
func (s *session) produce(f *protocol.Frame) {
	if s.held == nil {
		s.tell(f)
		return
	}
	s.tell(s.held, f)
	s.acknowledge(s.held)
	s.held = nil
}

// release sends an acknowledgement that was held back.
func (s *session) release() {
	if s.held == nil {
		return
	}
	s.acknowledge(s.held)
	if s.tail {
		s.tell(s.held)
	}
	s.held = nil
}

// tell sends frames to the driver over the token stream.
func (s *session) tell(frames ...*protocol.Frame) {
	ok, err := s.tokPen.Try(frames...)
	if err != nil {
		s.driverLeft(err)
	}
	if ok {
		return
	}
	for _, f := range frames {
		s.tokPen.Queue() // the writer counts it off, or nobody writes any more
		s.put(s.tok, f)
	}
}

// acknowledge tells the previous hop that rows were executed.
func (s *session) acknowledge(f *protocol.Frame) {
	ok, err := s.upPen.Try(f)
	if err != nil {
		s.prevFailed(err)
	}
	if !ok {
		s.upPen.Queue()
		s.put(s.up, f)
	}
}

// put queues f for a writer; it gives up with the session.
func (s *session) put(c chan *protocol.Frame, f *protocol.Frame) {
	select {
	case c <- f:
	case <-s.ctx.Done():
	}
}

// executed handles an acknowledgement of the stage.
func (s *session) executed(f *protocol.Frame) *protocol.Error {
	a, err := f.Ack()
	if err != nil {
		return protocol.AsError(err)
	}
	if e := s.skipTo(f); e != nil {
		return e
	}
	s.mu.Lock()
	q := &s.queue[0]
	if a.Rows != q.h.Rows {
		s.mu.Unlock()
		return errorf(protocol.CodeBatchLayout, "the stage executed %d rows of %d", a.Rows, q.h.Rows)
	}
	q.acked = true
	countRun(&s.counters, q.h.Kind, a)
	s.pos.Executed(q.h.Epoch, q.h.Pos+q.h.Rows)
	// What a decode step is for goes first: the rows for the next hop, or the
	// token. Its acknowledgement may follow.
	s.held = f
	hold := q.h.Kind != protocol.KindPrefill
	if s.tail {
		hold = q.h.Flags&protocol.FlagSample != 0
		s.queue = s.queue[1:]
	}
	s.mu.Unlock()
	s.rec.Executed(f.Epoch, f.Pos)
	if !hold {
		s.release()
	}
	return nil
}

// skipTo drops what stands in the queue before the rows that f acknowledges:
// rows of dead epochs, which the stage need not answer, and truncates, which
// go on to the next hop now.
func (s *session) skipTo(f *protocol.Frame) *protocol.Error {
	s.mu.Lock()
	i := slices.IndexFunc(s.queue, func(q sent) bool {
		return q.control == nil && !q.acked && q.h.Epoch == f.Epoch && q.h.Pos == f.Pos
	})
	if i < 0 {
		s.mu.Unlock()
		return errorf(protocol.CodeBatchLayout, "the stage acknowledged position %d, which was not sent to it", f.Pos)
	}
	var controls []*protocol.Frame
	for _, q := range s.queue[:i] {
		switch {
		case q.control != nil:
			controls = append(controls, q.control)
		case q.h.Epoch >= s.pos.Live():
			s.mu.Unlock()
			return errorf(protocol.CodeBatchLayout, "the stage skipped the rows at position %d", q.h.Pos)
		}
	}
	s.queue = s.queue[i:]
	down := s.down
	s.mu.Unlock()
	return sendAll(s, down, controls)
}

// sendControls forwards truncates that no rows precede.
func (s *session) sendControls() {
	s.mu.Lock()
	var controls []*protocol.Frame
	for len(s.queue) > 0 && s.queue[0].control != nil {
		controls = append(controls, s.queue[0].control)
		s.queue = s.queue[1:]
	}
	down := s.down
	s.mu.Unlock()
	if err := sendAll(s, down, controls); err != nil {
		s.end(err, "")
	}
}

// sendAll sends control frames to the next hop; a stream that ended reports
// its own reason through the downstream goroutine.
func sendAll(s *session, down seamclient.Downstream, controls []*protocol.Frame) *protocol.Error {
	for _, f := range controls {
		if _, err := down.Pass(s.ctx, f); err != nil {
			return down.Failure(err)
		}
	}
	return nil
}

// passOn checks the stage's rows and sends them to the next hop.
func (s *session) passOn(f *protocol.Frame) *protocol.Error {
	s.mu.Lock()
	if len(s.queue) == 0 || !s.queue[0].acked {
		s.mu.Unlock()
		return errorf(protocol.CodeBatchLayout, "the stage produced rows without an acknowledgement")
	}
	h := s.queue[0].h
	s.queue = s.queue[1:]
	down := s.down
	s.mu.Unlock()
	if f.Kind != h.Kind || f.Pos != h.Pos || f.Epoch != h.Epoch || f.Flags != h.Flags || f.Rows != h.Rows {
		return errorf(protocol.CodeBatchLayout, "the stage produced %s rows at position %d, the next were %s rows at %d", f.Kind, f.Pos, h.Kind, h.Pos)
	}
	if err := s.out.check(f); err != nil {
		return err
	}
	kind, n := f.Kind, frameBytes(f)
	s.tapped(f, Taps.Sent)
	s.rec.Out(f)
	// Before the next hop can answer: whoever has seen its answer sees this.
	s.mu.Lock()
	countOut(&s.counters, kind, n)
	s.mu.Unlock()
	ok, err := down.Pass(s.ctx, f)
	s.release()
	if !ok {
		s.mu.Lock()
		takeBackOut(&s.counters, kind, n)
		s.mu.Unlock()
	}
	if err != nil {
		return down.Failure(err)
	}
	s.sendControls()
	return nil
}
