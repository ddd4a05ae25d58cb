package receipt

import (
	"sync"
	"sync/atomic"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/spans"
)

// maxHalves bounds the receipts of a session that wait for the receiver's
// signature. An honest receiver is seldom more than a few behind: a long
// prefill over a slow line is the exception.
const maxHalves = 256

// A hop ends a session whose receiver refused more than maxOwed receipts, or
// owes more than maxOwed signatures and gave none for signPatience, see
// Session.Overdue. 16 spans are 512 tokens of an answer, the most that a hop
// should work for nothing; the driver fetches receipts about every 64 tokens.
// The time lets a receiver pass that is out of reach for a moment (a question
// to it takes up to 5 s, and is asked again after at most 4 s), and a prefill
// that makes spans faster than round trips sign them.
const (
	maxOwed      = 16
	signPatience = 15 * time.Second
)

// Session is one node's part in the receipts of one session: that of a hop,
// or that of the driver. The methods that note frames never fail: where frames
// do not fit together the session goes on without receipts.
//
// One goroutine per session makes and finishes receipts; Book.Close waits for
// it.
type Session struct {
	b     *Book
	lease *protocol.Lease
	hash  protocol.Hash
	hop   int // -1 for the driver
	tail  bool
	class protocol.Class
	spans *spans.Collector
	kick  chan struct{}
	began atomic.Bool // a row frame came

	mu     sync.Mutex // guards below
	broken bool
	ended  bool
	until  time.Time // after the end: when receipts are given up
	marked bool      // the last span is closed, at mark
	mark   protocol.ReceiptMark
	halves []*protocol.SignedReceipt
	lost   int                                // receipts that the receiver refused to sign, or that were too many
	signed time.Time                          // when it signed last, or began to owe
	given  map[uint32]*protocol.SignedReceipt // by span: what this side has signed for the hop before
}

// OpenHop begins the receipts of a hop. The lease has been verified. class says
// how the stage computes; texts that are too long for a receipt are cut.
func (b *Book) OpenHop(l *protocol.Lease, signed *protocol.SignedLease, hop int, class protocol.Class) (*Session, error) {
	if hop < 0 || hop >= len(l.Hops) || l.Hops[hop].Node != b.o.Identity.ID() {
		return nil, protocol.Errorf(protocol.CodeLeaseInvalid, "this node is not hop %d of the lease", hop)
	}
	class.Threads = max(1, min(class.Threads, 255))
	class.CPU, class.Llama, class.Engine = printable(class.CPU, 32), printable(class.Llama, 32), printable(class.Engine, 48)
	return b.open(&Session{
		lease: l, hash: signed.Hash(), hop: hop, tail: hop == len(l.Hops)-1, class: class,
		spans: spans.New(l.Session, hop, len(l.Hops)),
	})
}

// OpenDriver begins the driver's side of a session: it signs what the tail did.
func (b *Book) OpenDriver(l *protocol.Lease, signed *protocol.SignedLease) (*Session, error) {
	if l.Driver != b.o.Identity.ID() {
		return nil, protocol.Errorf(protocol.CodeLeaseInvalid, "this node is not the driver of the lease")
	}
	return b.open(&Session{lease: l, hash: signed.Hash(), hop: -1, spans: spans.NewDriver(l.Session)})
}

func printable(s string, size int) string {
	out := []byte(s)
	for i, c := range out {
		if c < ' ' || c > '~' {
			out[i] = '?'
		}
	}
	return string(out[:min(len(out), size)])
}

func (b *Book) open(s *Session) (*Session, error) {
	s.b, s.kick, s.given = b, make(chan struct{}, 1), map[uint32]*protocol.SignedReceipt{}
	key := sessionKey{s.lease.Session, s.hop}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, protocol.Errorf(protocol.CodeShutdown, "the book of receipts is closed")
	}
	if b.sessions[key] != nil {
		return nil, protocol.Errorf(protocol.CodeSessionExists, "session %s has its receipts already", s.lease.Session)
	}
	b.sessions[key] = s
	b.work.Go(func() {
		s.run()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.sessions, key)
	})
	return s, nil
}

// Find is the session of a request about receipts: of the hop, or of the
// driver where hop is -1. It is there until Linger after its end.
func (b *Book) Find(id protocol.SessionID, hop int) (*Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sessions[sessionKey{id, hop}]; s != nil {
		return s, nil
	}
	return nil, protocol.Errorf(protocol.CodeSessionUnknown, "no receipts of session %s here", string(id))
}

// In, Executed, Out, Acked and Truncate note frames as protocol.Spans says.

// In notes a row frame on its way into the hop, or from the driver to hop 0.
func (s *Session) In(f *protocol.Frame) {
	s.began.Store(true)
	s.note(s.spans.In(f))
}

// Executed notes an acknowledgement of the stage, for the driver of the tail.
func (s *Session) Executed(epoch, pos uint32) { s.note(s.spans.Executed(epoch, pos)) }

// Out notes a row frame for the next hop or a token of the tail.
func (s *Session) Out(f *protocol.Frame) { s.note(s.spans.Out(f)) }

// Acked notes an acknowledgement of the next hop.
func (s *Session) Acked(epoch, pos uint32) { s.note(s.spans.Acked(epoch, pos)) }

// Truncate notes a truncate frame.
func (s *Session) Truncate(f *protocol.Frame) { s.note(s.spans.Truncate(f)) }

func (s *Session) note(err error) {
	if err == nil {
		if s.hop >= 0 {
			s.take()
		}
		return
	}
	s.mu.Lock()
	first := !s.broken && !s.marked // what comes behind the end counts for nothing
	s.broken = s.broken || first
	s.mu.Unlock()
	if first {
		s.b.log.Warn("the session goes on without receipts", "session", s.lease.Session, "hop", s.hop, "error", err)
	}
}

// take makes receipts of the spans that closed and signs them.
func (s *Session) take() {
	closed := s.spans.Take()
	if len(closed) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return
	}
	receiver := s.lease.Driver
	if !s.tail {
		receiver = s.lease.Hops[s.hop+1].Node
	}
	now := s.b.o.Now().UTC().Truncate(time.Millisecond)
	for _, sp := range closed {
		half, err := protocol.SignReceipt(&protocol.Receipt{
			Session: s.lease.Session, Lease: s.hash, Model: s.lease.Model,
			Node: s.b.o.Identity.ID(), Receiver: receiver, Hop: s.hop, Layers: s.lease.Hops[s.hop].Use,
			DType: s.lease.DType, Span: sp, Class: s.class, Time: now,
		}, s.b.o.Identity.PrivateKey())
		if err != nil {
			s.broken = true
			s.b.log.Error("a receipt cannot be made", "session", s.lease.Session, "hop", s.hop, "error", err)
			return
		}
		if len(s.halves) == 0 {
			s.signed = now
		}
		s.halves = append(s.halves, half)
	}
	if over := len(s.halves) - maxHalves; over > 0 {
		s.halves = s.halves[over:]
		s.lost += over
		s.b.count(func(st *Stats) { st.Unsigned += int64(over) })
	}
	s.b.count(func(st *Stats) { st.Signed += int64(len(closed)) })
	signal(s.kick)
}

// Lag is how many receipts wait for the receiver's signature.
func (s *Session) Lag() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.halves)
}

// Overdue says that the hop works for nothing and should end the session: the
// receiver does not sign. Code: receipt_unsigned; nil mostly.
func (s *Session) Overdue() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := len(s.halves); {
	case s.lost > maxOwed:
		return protocol.Errorf(protocol.CodeReceiptUnsigned, "the receiver has refused to sign for %d spans of work", s.lost)
	case n > maxOwed && s.b.o.Now().Sub(s.signed) >= signPatience:
		return protocol.Errorf(protocol.CodeReceiptUnsigned, "the receiver has not signed for %d spans of work", n)
	}
	return nil
}

// Pending are the half-signed receipts in their wire form, oldest first, for a
// receiver that asks for them: the driver, which nobody can dial.
func (s *Session) Pending() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([][]byte, len(s.halves))
	for i, h := range s.halves {
		out[i] = h.Encode()
	}
	return out
}

// Complete takes a receipt back from its receiver, with both signatures. Codes:
// receipt_invalid, unauthorized, not_found for one that does not wait.
func (s *Session) Complete(raw []byte) error {
	sr, _, err := protocol.ParseSignedReceipt(raw)
	if err != nil {
		return err
	}
	if !sr.Both() {
		return protocol.Errorf(protocol.CodeUnauthorized, "the receiver has not signed the receipt")
	}
	if !s.drop(sr.ID(), true) {
		return protocol.Errorf(protocol.CodeNotFound, "receipt %s does not wait here", sr.ID())
	}
	s.b.store(sr)
	signal(s.kick)
	return nil
}

// drop removes a half that was signed, or never will be; false when it is not
// there.
func (s *Session) drop(id protocol.Hash, signed bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range s.halves {
		if h.ID() == id {
			s.halves = append(s.halves[:i:i], s.halves[i+1:]...)
			if signed {
				s.signed = s.b.o.Now()
			} else {
				s.lost++
			}
			return true
		}
	}
	return false
}

// Mark answers the hop before, which asks when the session has ended; the
// driver's goes to CloseTail of the tail. A hop answers unavailable until the
// one behind it has answered, so that all of a route end at the same frame.
func (s *Session) Mark() (protocol.ReceiptMark, error) {
	if s.hop < 0 {
		return s.spans.Mark(), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.marked {
		return protocol.ReceiptMark{}, protocol.Errorf(protocol.CodeUnavailable, "hop %d does not know yet where the session ended", s.hop)
	}
	return s.mark, nil
}

// Close says that the session has ended and returns at once; idempotent. What
// can still be finished is finished within Linger.
func (s *Session) Close() {
	if s.hop >= 0 && !s.began.Load() {
		s.finish(protocol.ReceiptMark{}) // nothing ran here, and so nothing behind it
	}
	s.mu.Lock()
	if !s.ended {
		s.ended, s.until = true, s.b.o.Now().Add(s.b.o.Linger)
	}
	s.mu.Unlock()
	signal(s.kick)
}

// CloseTail ends the session on the tail where the driver has told its mark:
// the last span closes where the driver has come to.
func (s *Session) CloseTail(m protocol.ReceiptMark) {
	s.finish(m)
	s.Close()
}

// finish closes the last span, once.
func (s *Session) finish(m protocol.ReceiptMark) {
	s.mu.Lock()
	if s.marked {
		s.mu.Unlock()
		return
	}
	s.mark, s.marked = s.spans.End(m), true
	s.mu.Unlock()
	s.take()
}
