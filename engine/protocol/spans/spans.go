// Package spans cuts the frames of a session into the spans that receipts
// cover, on a hop and at the driver. It does no I/O.
//
// engine/receipt imports it; of our packages it imports engine/protocol only.
package spans

import (
	"slices"
	"sync"

	"neuron/engine/protocol"
)

// Collector follows the frames of one session where they pass, on a hop or at the
// driver, and cuts them into spans. Both ends of a seam cut alike, since both
// count a row frame when its receiver has executed it.
//
// A hop keeps two accounts: what it did itself (Take), counted when the next
// hop acknowledged, and what the previous hop did for it (Check), counted when
// the hop itself has executed it. The driver keeps the second of the tail.
//
// It is safe for concurrent use. In, Truncate and Out are called in the order
// of the frames, each by one goroutine; hashing happens outside the lock.
type Collector struct {
	tokens bool // the receiver gets tokens: the hop is the tail, or this is the driver
	driver bool

	mu   sync.Mutex // guards below
	recv *account   // of the previous hop's work; nil on hop 0
	own  *account   // of this hop's work; nil at the driver
}

// New makes the collector of hop on a route of hops.
func New(session protocol.SessionID, hop, hops int) *Collector {
	s := &Collector{tokens: hop == hops-1, own: &account{session: session}}
	if hop > 0 {
		s.recv = &account{session: session}
	}
	return s
}

// NewDriver makes the collector of a driver, for the tail's receipts.
func NewDriver(session protocol.SessionID) *Collector {
	return &Collector{tokens: true, driver: true, recv: &account{session: session}}
}

// In notes a row frame on its way into the hop, before the stage can answer;
// at the driver a frame that it is about to send to hop 0. f is not kept.
// Codes: frame_invalid for a verify frame above MaxSpanPositions rows,
// stage_overloaded when too many frames wait for their acknowledgement.
func (s *Collector) In(f *protocol.Frame) error {
	if f.Kind == protocol.KindVerify && f.Rows > protocol.MaxSpanPositions {
		return protocol.Errorf(protocol.CodeFrameInvalid, "%d rows in a verify frame, a receipt covers at most %d", f.Rows, protocol.MaxSpanPositions)
	}
	sum := protocol.SumFrame(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != nil {
		if err := s.own.push(event{h: f.Header, in: sum}); err != nil {
			return err
		}
	}
	switch {
	case s.driver:
		return s.recv.push(event{h: f.Header, in: sum})
	case s.recv != nil:
		// The frame is the previous hop's output; its input is not known here.
		return s.recv.push(event{h: f.Header, outs: []protocol.Hash{sum}})
	}
	return nil
}

// Truncate notes a truncate frame, in order with the rows.
func (s *Collector) Truncate(f *protocol.Frame) error {
	sum := protocol.SumFrame(&protocol.Frame{Header: protocol.Header{Kind: protocol.KindTruncate, Epoch: f.Epoch, Pos: f.Pos}})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range []*account{s.own, s.recv} {
		if a == nil {
			continue
		}
		if err := a.push(event{h: protocol.Header{Kind: protocol.KindTruncate, Epoch: f.Epoch, Pos: f.Pos}, in: sum}); err != nil {
			return err
		}
	}
	return nil
}

// Executed notes that the stage has executed the rows at pos of epoch, before
// the hop acknowledges them; at the driver, that the tail's acknowledgement
// came. Rows before them that are still open belong to dead epochs. Code:
// batch_layout for rows that were never noted.
func (s *Collector) Executed(epoch, pos uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recv != nil && !s.driver {
		if err := s.recv.commit(epoch, pos); err != nil {
			return err
		}
	}
	switch {
	case s.driver:
		return s.recv.answered(epoch, pos)
	case s.tokens:
		return s.own.answered(epoch, pos)
	}
	return nil
}

// Out notes what leaves the hop: a row frame for the next hop, before it is
// sent, or a token frame of the tail; at the driver a token frame that came.
// f is not kept. Code: batch_layout for a frame that answers nothing.
func (s *Collector) Out(f *protocol.Frame) error {
	sum := protocol.SumFrame(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.driver:
		return s.recv.token(f.Header, sum)
	case s.tokens:
		return s.own.token(f.Header, sum)
	}
	i := s.own.find(f.Epoch, f.Pos)
	if i < 0 || len(s.own.events[i].outs) > 0 {
		return protocol.Errorf(protocol.CodeBatchLayout, "rows at position %d go out that did not come in", f.Pos)
	}
	s.own.events[i].outs = []protocol.Hash{sum}
	return nil
}

// Acked notes that the next hop acknowledged the rows at pos of epoch. Code:
// batch_layout for rows that were never sent.
func (s *Collector) Acked(epoch, pos uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own.commit(epoch, pos)
}

// Take returns the hop's own spans that closed since the last call, oldest
// first; nil mostly.
func (s *Collector) Take() []protocol.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		return nil
	}
	out := s.own.closed
	s.own.closed = nil
	return out
}

// Mark says how far this side has come in the previous hop's work, or the
// driver in the tail's.
func (s *Collector) Mark() protocol.ReceiptMark {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recv == nil {
		return protocol.ReceiptMark{}
	}
	return protocol.ReceiptMark{Seq: s.recv.seq, Frames: uint32(len(s.recv.states))}
}

// End closes the hop's open span at the session's end and returns where it
// ended. A session may end with frames under way: mark is how far the receiver
// has come, and the span ends there, though never behind what was sent. Take
// returns the span; nothing may be noted any more.
func (s *Collector) End(mark protocol.ReceiptMark) protocol.ReceiptMark {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.own
	if a == nil {
		return protocol.ReceiptMark{}
	}
	if !s.tokens {
		a.catchUp(mark)
	}
	out := protocol.ReceiptMark{Seq: a.seq, Frames: uint32(len(a.states))}
	switch {
	case mark.Seq < out.Seq:
		return mark // its spans up to there are closed
	case mark.Seq == out.Seq:
		out.Frames = min(out.Frames, mark.Frames)
	}
	if out.Frames > 0 {
		sp := a.states[out.Frames-1]
		sp.Final = sp.Kind == protocol.SpanDecode
		a.closed = append(a.closed, sp)
		a.seq++
	}
	a.states, a.events = nil, nil
	return out
}

// Check compares a span that the previous hop (for the driver: the tail) wants
// signed with what came from it. Codes: unavailable when this side has not
// come so far, not_found when it is too long ago, receipt_conflict when it is
// not what came.
func (s *Collector) Check(sp protocol.Span) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.recv
	if a == nil {
		return protocol.Errorf(protocol.CodeReceiptConflict, "no hop comes before this one")
	}
	var want protocol.Span
	first := a.seq - uint32(len(a.closed))
	switch {
	case sp.Seq < first:
		return protocol.Errorf(protocol.CodeNotFound, "span %d is too long ago", sp.Seq)
	case sp.Seq < a.seq:
		want = a.closed[sp.Seq-first]
	case sp.Seq == a.seq && sp.Final:
		i := slices.IndexFunc(a.states, func(st protocol.Span) bool { return st.SameShape(&sp) })
		if i < 0 {
			return protocol.Errorf(protocol.CodeReceiptConflict, "span %d does not end where its sender says", sp.Seq)
		}
		want = a.states[i]
	default:
		return protocol.Errorf(protocol.CodeUnavailable, "span %d is still open here", sp.Seq)
	}
	if !want.SameShape(&sp) || want.Output != sp.Output {
		return protocol.Errorf(protocol.CodeReceiptConflict, "span %d is not what came over the seam", sp.Seq)
	}
	return nil
}

// CheckInput compares a span's input too; only for the driver of a route of
// one hop, which knows both. Call it after Check.
func (s *Collector) CheckInput(sp protocol.Span) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.recv
	for _, list := range [][]protocol.Span{a.closed, a.states} {
		for i := range list {
			if st := list[i]; st.Seq == sp.Seq && st.Rows == sp.Rows && st.Last == sp.Last && st.Input == sp.Input {
				return nil
			}
		}
	}
	return protocol.Errorf(protocol.CodeReceiptConflict, "span %d has another input than was sent", sp.Seq)
}
