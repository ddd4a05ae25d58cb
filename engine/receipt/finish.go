package receipt

import (
	"errors"
	"time"

	"neuron/engine/protocol"
)

// run finishes receipts until the session is over and nothing waits, or Linger
// has passed. A session that others may still ask about stays for all of it.
func (s *Session) run() {
	wait := backoffMin
	for {
		again := s.push()
		s.mu.Lock()
		ended, left := s.ended, s.until.Sub(s.b.o.Now())
		waiting := len(s.halves)
		s.mu.Unlock()
		if ended && left <= 0 {
			if waiting > 0 {
				s.b.count(func(st *Stats) { st.Unsigned += int64(waiting) })
				s.b.log.Warn("receipts are given up: the receiver did not sign them", "session", s.lease.Session, "hop", s.hop, "receipts", waiting)
			}
			return
		}
		next := time.Hour // the session goes on: a kick comes first
		if again {
			next, wait = wait, min(2*wait, backoffReceiver)
		} else {
			wait = backoffMin
		}
		if ended {
			next = min(next, left)
		}
		if !s.b.pause(next, s.kick) {
			return
		}
	}
}

// push asks the receiver for what it has to sign; true when it must be asked
// again.
func (s *Session) push() (again bool) {
	if s.hop < 0 || s.tail || s.b.o.Receiver == nil {
		return false
	}
	for {
		s.mu.Lock()
		var half *protocol.SignedReceipt
		if len(s.halves) > 0 {
			half = s.halves[0]
		}
		last := s.ended && !s.marked && !s.broken
		s.mu.Unlock()
		switch {
		case half != nil:
			raw, err := s.b.o.Receiver.Countersign(s.b.ctx, s.lease, s.hop, half.Encode())
			if err == nil {
				if err = s.Complete(raw); err == nil {
					continue
				}
			}
			if s.b.ctx.Err() != nil || transient(err) {
				return true
			}
			s.drop(half.ID(), false)
			s.b.count(func(st *Stats) { st.Unsigned++ })
			s.b.log.Warn("the receiver does not sign a receipt", "session", s.lease.Session, "hop", s.hop, "error", err)
		case last:
			m, err := s.b.o.Receiver.Mark(s.b.ctx, s.lease, s.hop)
			if err != nil {
				return s.b.ctx.Err() != nil || transient(err)
			}
			s.finish(m)
		default:
			return false
		}
	}
}

// transient reports whether the receiver may be asked again.
func transient(err error) bool {
	for _, c := range []protocol.Code{protocol.CodeUnavailable, protocol.CodeTimeout, protocol.CodeHopLost, protocol.CodeRateLimited} {
		if errors.Is(err, &protocol.Error{Code: c}) {
			return true
		}
	}
	return false
}
