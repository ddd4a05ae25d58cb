package seam

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/pen"
	"neuron/engine/seam/wire"
)

// serveStream is POST /seam/v1/sessions/{id}/stream. Its answer means that the
// chain stands from here to the tail.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, peer protocol.NodeID) *protocol.Error {
	sess, tomb, e := s.lookup(r)
	if e != nil {
		return e
	}
	if sess != nil && peer != sess.prev || tomb != nil && peer != tomb.prev {
		return errorf(protocol.CodeForbidden, "only the previous hop may stream to this one")
	}
	if tomb != nil {
		return tomb.gone()
	}
	if e := sess.attach(&sess.streaming); e != nil {
		return e
	}
	defer sess.work.Done()
	rc := http.NewResponseController(w)
	if err := rc.EnableFullDuplex(); err != nil {
		e := errorf(protocol.CodeInternal, "full duplex: %w", err)
		sess.end(e, "")
		return e
	}
	if !sess.tail {
		quiet := s.signs(w)
		e := sess.openNext()
		quiet()
		if e != nil {
			return e
		}
		defer sess.closeNext()
	}
	h := w.Header()
	h.Set(wire.HeaderWindow, strconv.FormatInt(sess.capab.InFlightBytes, 10))
	h.Set(wire.HeaderHop, strconv.Itoa(sess.hop))
	prevSilence := sess.silenceOf(sess.hop - 1)
	var l link
	var err error
	if wantsUpgrade(r) {
		l, err = upgradeLink(w, rc, prevSilence, s.o.Silence)
	} else {
		l, err = duplexLink(w, r, rc, prevSilence, s.o.Silence)
	}
	if err != nil {
		sess.end(errorf(protocol.CodeHopLost, "answer the stream's opener: %w", err), "")
		return nil
	}
	defer l.close()
	sess.serve(l)
	return nil
}

// gone is the answer for streams of an ended session.
func (t *tombstone) gone() *protocol.Error {
	if t.state.Error != nil {
		return t.state.Error
	}
	return errorf(protocol.CodeSessionUnknown, "session %s has ended", t.state.Session)
}

// silenceOf is how long hop i may be silent; -1 is the driver.
func (s *session) silenceOf(i int) time.Duration {
	if i < 0 {
		return s.srv.o.Silence
	}
	return wire.Silence(s.srv.o.Silence, s.lease.Hops[i])
}

// openNext opens the stream to the next hop; when that fails the session ends.
func (s *session) openNext() *protocol.Error {
	next := s.hop + 1
	n := len(s.lease.Hops)
	// The wait shrinks along the route, from all to half: the hop nearest to
	// the fault gives up first and names it.
	wait := s.srv.o.HeaderWait
	wait = wait/2 + wait/2*time.Duration(n-next)/time.Duration(n)
	// The stream outlives the session by its last frame.
	down, err := s.srv.client.Downstream(context.Background(), s.ctx, s.lease.Hops[next], next, s.id, wait, s.acked)
	if err != nil {
		blame := protocol.NodeID("")
		switch err.Code {
		case protocol.CodeHopLost, protocol.CodeTimeout, protocol.CodeStageFrozen:
			if err.Hop != nil && *err.Hop == next {
				blame = s.lease.Hops[next].Node
			}
		}
		s.end(err, blame)
		if r := s.reason(); r != nil {
			return r
		}
		return err.InPhase(protocol.PhaseOpening)
	}
	s.mu.Lock()
	s.down = down
	s.mu.Unlock()
	return nil
}

// closeNext tells the next hop how the session ended.
func (s *session) closeNext() { s.down.CloseWith(s.lastFrame()) }

// serve runs the session's stream until the session ends; the calling
// goroutine is the reader.
func (s *session) serve(l link) {
	var beside sync.WaitGroup
	beside.Go(func() {
		defer l.stop()
		s.writeUp(l)
	})
	beside.Go(s.feed)
	if !s.tail {
		beside.Go(s.endDown)
	}
	s.readUp(l.r)
	beside.Wait()
}

// readUp is the reader.
func (s *session) readUp(r io.Reader) {
	fr := protocol.NewFrameReader(r, rowLimits(s.capab))
	for {
		f, err := fr.Read()
		if err != nil {
			s.prevFailed(err)
			return
		}
		switch {
		case f.Kind == protocol.KindPing:
		case f.Kind == protocol.KindClose:
			s.end(nil, "")
			return
		case f.Kind == protocol.KindError:
			e := wire.TrimError(f.Err())
			if s.hop > 0 && e.Code != protocol.CodeCancelled {
				e = e.AtHop(s.hop - 1)
			}
			s.end(e, "")
			return
		case f.Slot != 0:
			s.fault(errorf(protocol.CodeFrameInvalid, "slot %d, this stream has one session", f.Slot))
			return
		case f.Kind.Rows(), f.Kind == protocol.KindTruncate, f.Kind == protocol.KindCancel:
			taken, ok := s.handNow(f)
			if taken {
				fr.Recycle(f)
			} else {
				ok = s.inbox.push(s.ctx, f)
			}
			if !ok {
				return
			}
		case f.Kind == protocol.KindFork:
			s.fault(errorf(protocol.CodeUnsupported, "this stream has one session, it cannot fork"))
			return
		default:
			s.fault(errorf(protocol.CodeFrameInvalid, "a %s frame does not flow this way", f.Kind))
			return
		}
	}
}

// prevFailed ends the session because reading the previous hop failed.
func (s *session) prevFailed(err error) {
	if s.ctx.Err() != nil {
		return
	}
	who := "the driver"
	if s.hop > 0 {
		who = "node " + s.prev.Short()
	}
	var e *protocol.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, os.ErrDeadlineExceeded):
		e = errorf(protocol.CodeStageFrozen, "%s gave no sign of life for %s", who, s.silenceOf(s.hop-1))
	case s.hop == 0:
		e = errorf(protocol.CodeCancelled, "the driver left: %w", err)
	default:
		e = errorf(protocol.CodeHopLost, "the connection from %s broke: %w", who, err)
	}
	s.fault(e)
}

// writeUp is the writer. It returns when the session has ended, after what
// waits and the last frame, or when it cannot write.
func (s *session) writeUp(l link) {
	p := &s.upPen
	p.Use(protocol.NewFrameWriter(l.w, protocol.SeamLimits()), l.room)
	if err := writeAll(s.ctx, p, s.up, s.srv.o.PingEvery); err != nil {
		s.prevFailed(err)
		_ = p.Last() // the carrier is closed next
		return
	}
	_ = p.Last(s.lastFrame()) // nobody is left to hear of its failure
}

// writeAll writes frames of c, and a ping when there is none for pingEvery. At
// the end of ctx it writes what waits and returns nil.
func writeAll(ctx context.Context, p *pen.Pen, c <-chan *protocol.Frame, pingEvery time.Duration) error {
	ping := time.NewTimer(pingEvery)
	defer ping.Stop()
	for {
		var err error
		select {
		case f := <-c:
			err = p.Write(f)
			p.Unqueue()
		case <-ping.C:
			err = p.Write(protocol.ControlFrame(protocol.KindPing, 0, 0, 0))
		case <-ctx.Done():
			for {
				select {
				case f := <-c:
					if err := p.Write(f); err != nil {
						return err
					}
				default:
					return nil
				}
			}
		}
		if err != nil {
			return err
		}
		ping.Reset(pingEvery)
	}
}

// acked is called by the next hop's stream for what it answers. Acknowledgements
// have done their work in the stream's window; what counts here are receipts.
func (s *session) acked(f *protocol.Frame) {
	if f.Kind == protocol.KindAck {
		s.rec.Acked(f.Epoch, f.Pos)
	}
}

// endDown is the downstream goroutine.
func (s *session) endDown() {
	// At once, and not behind a writer that waits for a frozen peer: the KV of
	// all hops behind this one is freed by it.
	defer s.closeNext()
	select {
	case <-s.down.Done():
		s.downEnded(s.down.Err())
	case <-s.ctx.Done():
	}
}

// downEnded ends the session because the next hop's stream did.
func (s *session) downEnded(err error) {
	node := s.lease.Hops[s.hop+1].Node
	if err == nil {
		// Closed in order, by the driver's release or by the other hop's
		// tracker; unfinished work is cut off but nobody's fault.
		if s.down.Pending() > 0 {
			s.end(errorf(protocol.CodeCancelled, "hop %d ended the session", s.hop+1), "")
		} else {
			s.end(nil, "")
		}
		return
	}
	e := protocol.AsError(err)
	if s.down.Told() {
		node = "" // it told us itself, and tells the tracker what it knows
	}
	s.end(e, node)
}
