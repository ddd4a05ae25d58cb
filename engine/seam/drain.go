package seam

import (
	"slices"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamclient"
)

// drain is the drainer: it handles what the stage produces and handNow left to
// it, until nothing follows, also after the session's end.
func (s *session) drain() {
	for {
		f, ok := s.out.pop()
		switch {
		case !ok:
			s.end(errorf(protocol.CodeStageLost, "the stage ended the session without a reason"), "")
			return
		case f == nil:
			s.sendControls()
		default:
			s.handle(f)
		}
		s.out.done()
	}
}

// handle handles one frame of the stage; one goroutine at a time.
func (s *session) handle(f *protocol.Frame) {
	if s.ctx.Err() != nil {
		return
	}
	if err := s.produced(f); err != nil && s.ctx.Err() == nil {
		s.end(err, "")
	}
}

// answerBytes bounds what an acknowledgement and a token take.
const answerBytes = 2 << 10

// handleNow handles f on the stage's own goroutine, which saves waking the
// drainer: false when that might wait for a neighbour. The stage's other sessions
// would wait as well.
func (s *session) handleNow(f *protocol.Frame) bool {
	if !s.upPen.Ready(answerBytes) || s.tail && !s.tokPen.Ready(answerBytes) || !s.follows(f) {
		return false
	}
	if f.Kind.Rows() && !s.down.Ready(f) {
		return false
	}
	s.handle(f)
	return true
}

// follows reports whether f is what the oldest rows at the stage wait for, with
// nothing before or behind it that has to go to the next hop, too.
func (s *session) follows(f *protocol.Frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.Kind == protocol.KindToken:
		return s.tail
	case len(s.queue) == 0 || len(s.queue) > 1 && s.queue[1].control != nil:
		return false
	case f.Kind == protocol.KindAck:
		q := &s.queue[0]
		return q.control == nil && !q.acked && q.h.Epoch == f.Epoch && q.h.Pos == f.Pos
	}
	return f.Kind.Rows() && !s.tail && s.queue[0].acked && s.down != nil
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

// maxQuiet is how many steps that ask for nothing the driver hears of at once.
const maxQuiet = 16

// tell sends frames to the driver over the token stream, behind what it has not
// heard of yet.
func (s *session) tell(frames ...*protocol.Frame) {
	if len(s.quiet) > 0 {
		frames = append(s.quiet, frames...)
		s.quiet = nil
	}
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
	step, sampled := q.h.Kind != protocol.KindPrefill, q.h.Flags&protocol.FlagSample != 0
	if s.tail {
		s.queue = s.queue[1:]
	}
	s.mu.Unlock()
	s.rec.Executed(f.Epoch, f.Pos)
	switch {
	case s.tail && step && !sampled:
		// The driver wants nothing of this step, and hears of it with what it gets
		// next.
		s.acknowledge(f)
		if s.quiet = append(s.quiet, f); len(s.quiet) == maxQuiet {
			s.tell()
		}
	case s.tail && sampled, !s.tail && step:
		// What a decode step is for goes first: the rows for the next hop, or the
		// token. Its acknowledgement may follow.
		s.held = f
	default:
		s.held = f
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
	if err := s.rows.check(f); err != nil {
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
