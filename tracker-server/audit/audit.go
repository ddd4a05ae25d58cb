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
	"cmp"
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
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
}

// Config bounds an Auditor.
type Config struct {
	// Keep is how long after the end of a lease its receipts are taken.
	Keep time.Duration
	// MaxBytes is the memory for sessions; those that were not asked for the
	// longest make room and are read from Source when they are.
	MaxBytes int64
}

// DefaultConfig holds the figures of production.
func DefaultConfig() Config { return Config{Keep: 7 * 24 * time.Hour, MaxBytes: 128 << 20} }

// maxSpans bounds the receipts of one hop in one session: four for each 32
// positions of the longest context.
const maxSpans = 1 << 14

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

// Auditor holds receipts against each other. It is not safe for concurrent use.
type Auditor struct {
	cfg      Config
	src      Source
	sessions map[protocol.SessionID]*list.Element
	order    *list.List // of *session, the longest unused in front
	bytes    int64
}

// New makes an auditor over what src has stored.
func New(cfg Config, src Source) *Auditor {
	return &Auditor{cfg: cfg, src: src, sessions: map[protocol.SessionID]*list.Element{}, order: list.New()}
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
	s, err := a.session(r.Session)
	if err != nil {
		if e := protocol.AsError(err); e.Code == protocol.CodeSessionUnknown {
			return refused(e)
		}
		return Verdict{ReceiptVerdict: protocol.ReceiptVerdict{
			Status: protocol.ReceiptRetry, Error: protocol.Errorf(protocol.CodeUnavailable, "the session's receipts cannot be read now%.0w", err), // the cause is for the log
		}}
	}
	if late := now.Sub(s.lease.Expires); late > a.cfg.Keep {
		return refused(protocol.Errorf(protocol.CodeLeaseExpired, "receipts are taken until %s after the lease's end", a.cfg.Keep))
	}
	if ahead := r.Time.Sub(now); ahead > protocol.ReceiptSkew {
		return refused(protocol.Errorf(protocol.CodeReceiptInvalid, "the receipt's time is %s ahead", ahead.Round(time.Second)))
	}
	before := s.bytes
	v := s.submit(c)
	if v.Keep != nil {
		v.Expires = s.lease.Expires
	}
	a.bytes += s.bytes - before
	a.shrink(s)
	return v
}

func refused(err error) Verdict {
	return Verdict{ReceiptVerdict: protocol.ReceiptVerdict{Status: protocol.ReceiptRefused, Error: protocol.AsError(err)}}
}

// session finds a session or reads it.
func (a *Auditor) session(id protocol.SessionID) (*session, error) {
	if e := a.sessions[id]; e != nil {
		a.order.MoveToBack(e)
		return e.Value.(*session), nil
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
	for _, raw := range raws {
		c, err := stored(raw)
		if err != nil {
			return nil, err
		}
		s.submit(c) // what follows from it was told when it was stored
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

func (a *Auditor) drop(e *list.Element) {
	s := e.Value.(*session)
	a.order.Remove(e)
	delete(a.sessions, s.lease.Session)
	a.bytes -= s.bytes
}

// shrink forgets the longest unused sessions but keeps s.
func (a *Auditor) shrink(s *session) {
	for a.bytes > a.cfg.MaxBytes {
		e := a.order.Front()
		if e.Value.(*session) == s {
			return
		}
		a.drop(e)
	}
}

// session is all that is known of one session's work.
type session struct {
	signed *protocol.SignedLease
	lease  *protocol.Lease
	hash   protocol.Hash
	hops   [][]*entry // per hop, in ascending sequence
	bytes  int64
}

type entry struct {
	*Checked
	backed bool
}

// entryBytes is about what an entry takes: the bytes, the fields and their texts.
const entryBytes = protocol.SignedReceiptSize + 900

func newSession(signed *protocol.SignedLease, l *protocol.Lease) *session {
	return &session{
		signed: signed, lease: l, hash: signed.Hash(), hops: make([][]*entry, len(l.Hops)),
		bytes: int64(len(signed.Lease))*2 + 1024,
	}
}

// at finds the place of a span in a hop's list.
func (s *session) at(hop int, seq uint32) (int, *entry) {
	i, ok := slices.BinarySearchFunc(s.hops[hop], seq, func(e *entry, seq uint32) int { return cmp.Compare(e.receipt.Span.Seq, seq) })
	if ok {
		return i, s.hops[hop][i]
	}
	return i, nil
}

// get is the receipt of a span, nil without one.
func (s *session) get(hop int, seq uint32) *entry {
	if hop < 0 || hop >= len(s.hops) {
		return nil
	}
	_, e := s.at(hop, seq)
	return e
}

// submit judges a receipt against the lease and the others, and keeps it.
func (s *session) submit(c *Checked) Verdict {
	r := c.receipt
	if err := r.CheckLease(s.lease, s.hash); err != nil {
		v := refused(err)
		v.blame(s, WrongManifest, c)
		return v
	}
	i, old := s.at(r.Hop, r.Span.Seq)
	switch {
	case old == nil:
	case old.id != c.id:
		v := refused(protocol.Errorf(protocol.CodeReceiptConflict, "another receipt stands for span %d of hop %d", r.Span.Seq, r.Hop))
		v.blame(s, Equivocation, old.Checked, c)
		return v
	case old.both || !c.both:
		return Verdict{ReceiptVerdict: protocol.ReceiptVerdict{Status: protocol.ReceiptRepeat}}
	}
	for _, j := range []int{i - 1, i} {
		if old != nil || j < 0 || j >= len(s.hops[r.Hop]) {
			continue
		}
		other := s.hops[r.Hop][j]
		a, b := &other.receipt.Span, &r.Span
		if j == i {
			a, b = b, a
		}
		if !a.Before(b) {
			v := refused(protocol.Errorf(protocol.CodeReceiptConflict, "span %d at [%d,%d) does not follow span %d at [%d,%d)", b.Seq, b.First, b.Last, a.Seq, a.First, a.Last))
			v.blame(s, DoubleBilling, other.Checked, c)
			return v
		}
	}
	if up := s.get(r.Hop-1, r.Span.Seq); up != nil && up.both && breaks(up.receipt, r) {
		v := refused(protocol.Errorf(protocol.CodeReceiptConflict, "hop %d signed for another input of span %d than it received", r.Hop, r.Span.Seq))
		v.blame(s, BrokenChain, up.Checked, c)
		return v
	}
	if old == nil && len(s.hops[r.Hop]) >= maxSpans {
		return refused(protocol.Errorf(protocol.CodeRequestTooLarge, "more than %d receipts of one hop", maxSpans))
	}
	v := Verdict{ReceiptVerdict: protocol.ReceiptVerdict{Status: protocol.ReceiptAccepted}, Keep: c.raw}
	if old != nil {
		old.Checked = c
	} else {
		old = &entry{Checked: c}
		s.hops[r.Hop] = slices.Insert(s.hops[r.Hop], i, old)
		s.bytes += entryBytes
	}
	if down := s.get(r.Hop+1, r.Span.Seq); down != nil && c.both && breaks(r, down.receipt) {
		v.blame(s, BrokenChain, c, down.Checked)
	}
	if c.both {
		v.Facts = s.facts(old)
	}
	return v
}

// breaks reports whether the receipts of a hop and of the next one are about
// the same frames and disagree on them.
func breaks(up, down *protocol.Receipt) bool {
	return up.Span.SameShape(&down.Span) && up.Span.Output != down.Span.Input
}

// facts tells what a receipt with both signatures proves, and what it backs.
func (s *session) facts(e *entry) (out []Fact) {
	seq := e.receipt.Span.Seq
	var next *entry
	for hop := len(s.hops) - 1; hop >= 0; hop-- {
		h := s.get(hop, seq)
		if h == nil || !h.both {
			break
		}
		if next != nil && (!h.receipt.Span.SameShape(&next.receipt.Span) || h.receipt.Span.Output != next.receipt.Span.Input) {
			break
		}
		if !h.backed {
			h.backed = true
			out = append(out, h.fact())
		}
		next = h
	}
	if !e.backed {
		out = append(out, e.fact())
	}
	slices.Reverse(out)
	return out
}

func (e *entry) fact() Fact {
	r := e.receipt
	return Fact{
		Key: workKey(r.Key()), Session: r.Session, Receipt: e.id, Hop: r.Hop, Node: r.Node, Receiver: r.Receiver,
		Model: r.Model, Layers: r.Layers, Kind: r.Span.Kind, Epoch: r.Span.EpochLast, First: r.Span.First, Last: r.Span.Last,
		Rows: int(r.Span.Rows), Kept: int(r.Span.Last - r.Span.First), Backed: e.backed, SelfSigned: r.Node == r.Receiver,
	}
}

// workKey is the economic intent of a receipt as one text.
func workKey(k protocol.ReceiptKey) string {
	b := append([]byte("neuron-work-v1\x00"), k.Lease[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(k.Hop))
	sum := sha256.Sum256(binary.LittleEndian.AppendUint32(b, k.Seq))
	return hex.EncodeToString(sum[:])
}

// blame adds the proof of a fault if the receipts prove one.
func (v *Verdict) blame(s *session, kind FaultKind, receipts ...*Checked) {
	raws := make([][]byte, len(receipts))
	for i, c := range receipts {
		raws[i] = c.raw
	}
	v.Proofs = append(v.Proofs, prove(kind, s.signed, raws)...)
}
