package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// maxSpans bounds the receipts of one hop in one session: four for each 32
// positions of the longest context.
const maxSpans = 1 << 14

// session is what receipts of one session are held against.
type session struct {
	lease *protocol.Lease
	hash  protocol.Hash
	hops  [][]*entry // per hop, in ascending sequence
	bytes int64
	used  time.Time
}

// entry is a receipt that stands. The lease says the rest of it, see
// protocol.Receipt.CheckLease.
type entry struct {
	id     protocol.Hash
	span   protocol.Span
	both   bool
	backed bool
	fresh  *Checked // until it is stored
}

// About what memory takes: an entry with its place in a list, a lease, a hop of
// it with its texts and its list.
const (
	entryBytes   = 160
	sessionBytes = 900
	hopBytes     = 200
)

func newSession(signed *protocol.SignedLease, l *protocol.Lease) *session {
	return &session{lease: l, hash: signed.Hash(), hops: make([][]*entry, len(l.Hops)), bytes: sessionBytes + hopBytes*int64(len(l.Hops))}
}

// at finds the place of a span in a hop's list.
func (s *session) at(hop int, seq uint32) (int, *entry) {
	i, ok := slices.BinarySearchFunc(s.hops[hop], seq, func(e *entry, seq uint32) int { return cmp.Compare(e.span.Seq, seq) })
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

// judgement is what a receipt is worth beside the others. Nothing has changed
// by it.
type judgement struct {
	verdict Verdict // without facts and proofs
	faults  []fault
	place   int    // in the hop's list
	old     *entry // what stands for the span
}

// fault is what a receipt and one that stands show together, or it alone.
type fault struct {
	kind  FaultKind
	hop   int
	other *entry
	after bool // other comes behind the receipt
}

// judge holds a receipt against the lease and the others.
func (s *session) judge(c *Checked) judgement {
	r := c.receipt
	bad := func(err error, f ...fault) judgement { return judgement{verdict: refused(err), faults: f} }
	if err := r.CheckLease(s.lease, s.hash); err != nil {
		return bad(err, fault{kind: WrongManifest})
	}
	i, old := s.at(r.Hop, r.Span.Seq)
	switch {
	case old == nil:
	case old.id != c.id:
		return bad(protocol.Errorf(protocol.CodeReceiptConflict, "another receipt stands for span %d of hop %d", r.Span.Seq, r.Hop),
			fault{kind: Equivocation, hop: r.Hop, other: old})
	case old.both || !c.both:
		return judgement{verdict: Verdict{ReceiptVerdict: protocol.ReceiptVerdict{Status: protocol.ReceiptRepeat}}}
	}
	for _, j := range []int{i - 1, i} {
		if old != nil || j < 0 || j >= len(s.hops[r.Hop]) {
			continue
		}
		other := s.hops[r.Hop][j]
		a, b := &other.span, &r.Span
		if j == i {
			a, b = b, a
		}
		if !a.Before(b) {
			return bad(protocol.Errorf(protocol.CodeReceiptConflict, "span %d at [%d,%d) does not follow span %d at [%d,%d)", b.Seq, b.First, b.Last, a.Seq, a.First, a.Last),
				fault{kind: DoubleBilling, hop: r.Hop, other: other})
		}
	}
	if up := s.get(r.Hop-1, r.Span.Seq); up != nil && up.both && breaks(&up.span, &r.Span) {
		return bad(protocol.Errorf(protocol.CodeReceiptConflict, "hop %d signed for another input of span %d than it received", r.Hop, r.Span.Seq),
			fault{kind: BrokenChain, hop: r.Hop - 1, other: up})
	}
	if old == nil && len(s.hops[r.Hop]) >= maxSpans {
		return bad(protocol.Errorf(protocol.CodeRequestTooLarge, "more than %d receipts of one hop", maxSpans))
	}
	j := judgement{verdict: Verdict{ReceiptVerdict: protocol.ReceiptVerdict{Status: protocol.ReceiptAccepted}}, place: i, old: old}
	if down := s.get(r.Hop+1, r.Span.Seq); down != nil && c.both && breaks(&r.Span, &down.span) {
		j.faults = []fault{{kind: BrokenChain, hop: r.Hop + 1, other: down, after: true}}
	}
	return j
}

// take keeps a receipt that was accepted.
func (s *session) take(c *Checked, j judgement) *entry {
	e := j.old
	if e == nil {
		e = &entry{id: c.id, span: c.receipt.Span}
		s.hops[c.receipt.Hop] = slices.Insert(s.hops[c.receipt.Hop], j.place, e)
		s.bytes += entryBytes
	}
	e.both = c.both
	return e
}

// breaks reports whether a hop and the next one signed for the same frames, and
// disagree on them.
func breaks(up, down *protocol.Span) bool {
	return up.SameShape(down) && up.Output != down.Input
}

// facts tells what a receipt with both signatures proves, and what it backs.
func (s *session) facts(e *entry, hop int) (out []Fact) {
	seq := e.span.Seq
	var next *entry
	for hop := len(s.hops) - 1; hop >= 0; hop-- {
		h := s.get(hop, seq)
		if h == nil || !h.both {
			break
		}
		if next != nil && (!h.span.SameShape(&next.span) || h.span.Output != next.span.Input) {
			break
		}
		if !h.backed {
			h.backed = true
			out = append(out, s.fact(h, hop))
		}
		next = h
	}
	if !e.backed {
		out = append(out, s.fact(e, hop))
	}
	slices.Reverse(out)
	return out
}

func (s *session) fact(e *entry, hop int) Fact {
	node, receiver := s.lease.Hops[hop].Node, s.lease.Driver
	if hop+1 < len(s.lease.Hops) {
		receiver = s.lease.Hops[hop+1].Node
	}
	return Fact{
		Key: workKey(protocol.ReceiptKey{Lease: s.hash, Hop: hop, Seq: e.span.Seq}), Session: s.lease.Session, Receipt: e.id, Hop: hop,
		Node: node, Receiver: receiver, Model: s.lease.Model, Layers: s.lease.Hops[hop].Use,
		Kind: e.span.Kind, Epoch: e.span.EpochLast, First: e.span.First, Last: e.span.Last,
		Rows: int(e.span.Rows), Kept: int(e.span.Last - e.span.First), Backed: e.backed, SelfSigned: node == receiver,
	}
}

// workKey is the economic intent of a receipt as one text.
func workKey(k protocol.ReceiptKey) string {
	b := append([]byte("neuron-work-v1\x00"), k.Lease[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(k.Hop))
	sum := sha256.Sum256(binary.LittleEndian.AppendUint32(b, k.Seq))
	return hex.EncodeToString(sum[:])
}
