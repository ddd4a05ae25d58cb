// Package audit judges receipts: it holds each against its lease and against
// all others of its session, tells the ledger what work is proven (Fact), and
// makes a file of every objective fault that convinces a stranger (Proof).
//
// It is a pure state machine: time comes in as an argument, what was accepted
// earlier through Source, and nothing is written. The server guards the
// Auditor, stores what a Verdict says, and is its only importer besides the
// command that verifies proofs. It knows no websocket, no price and no balance.
package audit

import (
	"container/list"
	"time"

	"neuron/engine/protocol"
)

// Source knows what the tracker has stored.
type Source interface {
	// Lease is the lease of a session, as it is signed and as it is, or an error
	// with session_unknown. Neither is ever changed.
	Lease(protocol.SessionID) (*protocol.SignedLease, *protocol.Lease, error)
	// Receipts are the stored ones of a session (Verdict.Keep), best in the order
	// in which they were stored. Of one receipt the half-signed and the finished
	// form may both be there.
	Receipts(protocol.SessionID) ([][]byte, error)
	// SpanReceipts are those of one hop and span: at most its half-signed and its
	// finished form.
	SpanReceipts(s protocol.SessionID, hop int, seq uint32) ([][]byte, error)
}

// Config bounds an Auditor.
type Config struct {
	// Keep is how long after the end of a lease its receipts are taken.
	Keep time.Duration
	// Idle is how long a session stays in memory without a receipt. After that,
	// it is read from Source when there is one.
	Idle time.Duration
	// MaxBytes is the memory for sessions; those without a receipt for the longest
	// make room before they are idle.
	MaxBytes int64
}

// DefaultConfig holds the figures of production. Hops send what they have signed
// within seconds. Reading a session again takes less than a millisecond, and one
// that decodes so slowly that it is idle between two spans does not mind.
func DefaultConfig() Config {
	return Config{Keep: 7 * 24 * time.Hour, Idle: 30 * time.Second, MaxBytes: 32 << 20}
}

// Verdict is what became of a receipt and what follows from it.
type Verdict struct {
	protocol.ReceiptVerdict
	// Keep is what the server stores before it answers; nil when nothing new
	// was said.
	Keep []byte
	// Expires is the end of the session's lease, when there is something to keep.
	Expires time.Time
	// Facts are for the ledger; posting one twice is prevented by its Key.
	Facts []Fact
	// Proofs are of faults that the receipt brought to light, its own or
	// another's.
	Proofs []*Proof
}

// Fact is work that both ends of a hop have signed for.
type Fact struct {
	// Key names the work; facts about the same work have the same key.
	Key      string
	Session  protocol.SessionID
	Receipt  protocol.Hash
	Hop      int
	Node     protocol.NodeID
	Receiver protocol.NodeID
	Model    protocol.ModelID
	Layers   protocol.Range
	Kind     protocol.SpanKind
	Epoch    uint32 // in which the span ended
	First    uint32 // positions [First, Last)
	Last     uint32
	Rows     int // that ran
	Kept     int // of them, not rolled back: tokens of the prompt or the answer
	// Backed says that all hops behind have signed for the same rows up to the
	// tail, whose receipt the driver signed. Without it the word of two
	// neighbours stands alone. A fact that is not backed comes again when it is.
	Backed bool
	// SelfSigned says that node and receiver are one: the driver is a hop of
	// its own route.
	SelfSigned bool
}

// Auditor holds receipts against each other. Of those that are stored it knows
// what others are held against, and reads the rest when it has to prove a fault.
// It is not safe for concurrent use.
type Auditor struct {
	cfg      Config
	src      Source
	sessions map[protocol.SessionID]*list.Element
	order    *list.List // of *session, the longest unused in front
	bytes    int64
	// fresh are entries that may not be stored yet. Their sessions are not
	// dropped: nobody else knows of them.
	fresh map[*session][]*entry
}

// New makes an auditor over what src has stored.
func New(cfg Config, src Source) *Auditor {
	return &Auditor{cfg: cfg, src: src, sessions: map[protocol.SessionID]*list.Element{}, order: list.New(), fresh: map[*session][]*entry{}}
}

// Submit judges a receipt that node from has sent. The verdict's status is
// refused with one of these codes:
//
//	forbidden                from is neither end of the hop
//	session_unknown          no such session
//	lease_invalid            the receipt names another lease than the session's
//	lease_expired            made outside of the lease's time, or sent too late
//	receipt_invalid          not what the lease says, or from the future
//	context_length_exceeded  rows beyond the session's context
//	receipt_conflict         another receipt stands for the span, or the span
//	                         overlaps one, or the chain to a neighbour is broken
//	request_too_large        more receipts than a session can have
//
// or retry with unavailable when Source fails.
func (a *Auditor) Submit(now time.Time, from protocol.NodeID, c *Checked) Verdict {
	r := c.receipt
	if from != r.Node && from != r.Receiver {
		return refused(protocol.Errorf(protocol.CodeForbidden, "node %s is no end of this receipt", from.Short()))
	}
	s, err := a.session(now, r.Session)
	if err != nil {
		if e := protocol.AsError(err); e.Code == protocol.CodeSessionUnknown {
			return refused(e)
		}
		return unread(err)
	}
	if late := now.Sub(s.lease.Expires); late > a.cfg.Keep {
		return refused(protocol.Errorf(protocol.CodeLeaseExpired, "receipts are taken until %s after the lease's end", a.cfg.Keep))
	}
	if ahead := r.Time.Sub(now); ahead > protocol.ReceiptSkew {
		return refused(protocol.Errorf(protocol.CodeReceiptInvalid, "the receipt's time is %s ahead", ahead.Round(time.Second)))
	}
	j := s.judge(c)
	v := j.verdict
	if v.Proofs, err = a.prove(s, c, j.faults); err != nil {
		return unread(err)
	}
	if v.Status == protocol.ReceiptAccepted {
		before := s.bytes
		e := s.take(c, j)
		e.fresh = c
		a.fresh[s] = append(a.fresh[s], e)
		a.bytes += s.bytes - before
		v.Keep, v.Expires = c.raw, s.lease.Expires
		if c.both {
			v.Facts = s.facts(e, r.Hop)
		}
	}
	a.shrink(s)
	return v
}

// unread is the answer when Source fails.
func unread(err error) Verdict {
	return Verdict{ReceiptVerdict: protocol.ReceiptVerdict{
		Status: protocol.ReceiptRetry, Error: protocol.Errorf(protocol.CodeUnavailable, "the session's receipts cannot be read now%.0w", err), // the cause is for the log
	}}
}

func refused(err error) Verdict {
	return Verdict{ReceiptVerdict: protocol.ReceiptVerdict{Status: protocol.ReceiptRefused, Error: protocol.AsError(err)}}
}

// session finds a session or reads it.
func (a *Auditor) session(now time.Time, id protocol.SessionID) (*session, error) {
	if e := a.sessions[id]; e != nil {
		a.order.MoveToBack(e)
		s := e.Value.(*session)
		s.used = now
		return s, nil
	}
	signed, lease, err := a.src.Lease(id)
	if err != nil {
		return nil, err
	}
	raws, err := a.src.Receipts(id)
	if err != nil {
		return nil, err
	}
	s := newSession(signed, lease)
	s.used = now
	for _, raw := range raws {
		c, err := stored(raw)
		if err != nil {
			return nil, err
		}
		// What follows from it was told when it was stored.
		if j := s.judge(c); j.verdict.Status == protocol.ReceiptAccepted {
			if e := s.take(c, j); c.both {
				s.facts(e, c.receipt.Hop)
			}
		}
	}
	a.sessions[id] = a.order.PushBack(s)
	a.bytes += s.bytes
	a.shrink(s)
	return s, nil
}

// Forget drops what is known of a session, so that it is read anew from Source.
// It is for the case that what a Verdict said could not be stored.
func (a *Auditor) Forget(id protocol.SessionID) {
	if e := a.sessions[id]; e != nil {
		a.drop(e)
	}
}

// Kept says that all is stored that the verdicts so far said, or forgotten: from
// here on the bytes of receipts are Source's, and so are idle sessions.
func (a *Auditor) Kept(now time.Time) {
	for _, list := range a.fresh {
		for _, e := range list {
			e.fresh = nil
		}
	}
	clear(a.fresh)
	a.Rest(now)
}

// Rest drops idle sessions. Kept does it, too: this is for times without
// receipts.
func (a *Auditor) Rest(now time.Time) {
	for e := a.order.Front(); e != nil; e = a.order.Front() {
		s := e.Value.(*session)
		if a.fresh[s] != nil || now.Sub(s.used) <= a.cfg.Idle {
			break
		}
		a.drop(e)
	}
	a.shrink(nil)
}

func (a *Auditor) drop(e *list.Element) {
	s := e.Value.(*session)
	a.order.Remove(e)
	delete(a.sessions, s.lease.Session)
	delete(a.fresh, s)
	a.bytes -= s.bytes
}

// shrink drops the longest unused sessions but keeps s, and those with receipts
// that may not be stored: all of these were used after the others.
func (a *Auditor) shrink(s *session) {
	for a.bytes > a.cfg.MaxBytes {
		e := a.order.Front()
		if e == nil {
			return
		}
		if x := e.Value.(*session); x == s || a.fresh[x] != nil {
			return
		}
		a.drop(e)
	}
}

// prove makes the proofs of faults that c shows, where receipts prove any.
func (a *Auditor) prove(s *session, c *Checked, faults []fault) (out []*Proof, err error) {
	for _, f := range faults {
		signed, _, err := a.src.Lease(s.lease.Session)
		if err != nil {
			return nil, err
		}
		raws := [][]byte{c.raw}
		if f.other != nil {
			raw, err := a.evidence(s, f.hop, f.other)
			if err != nil {
				return nil, err
			}
			if f.after {
				raws = append(raws, raw)
			} else {
				raws = [][]byte{raw, c.raw}
			}
		}
		out = append(out, prove(f.kind, signed, raws)...)
	}
	return out, nil
}

// evidence is the wire form of a receipt that stands, as far signed as it is
// known to be.
func (a *Auditor) evidence(s *session, hop int, e *entry) ([]byte, error) {
	if e.fresh != nil {
		return e.fresh.raw, nil
	}
	raws, err := a.src.SpanReceipts(s.lease.Session, hop, e.span.Seq)
	if err != nil {
		return nil, err
	}
	for _, raw := range raws {
		if c, err := stored(raw); err == nil && c.id == e.id && c.both == e.both {
			return raw, nil
		}
	}
	return nil, protocol.Errorf(protocol.CodeInternal, "the receipt of span %d of hop %d is not stored any more", e.span.Seq, hop)
}
