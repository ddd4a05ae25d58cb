package protocol

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
)

// SpanKind says what a span is made of.
type SpanKind uint8

// Kinds of spans.
const (
	SpanPrefill SpanKind = 1 // one prefill chunk
	SpanDecode  SpanKind = 2 // decode and verify frames
)

func (k SpanKind) String() string {
	switch k {
	case SpanPrefill:
		return "prefill"
	case SpanDecode:
		return "decode"
	}
	return fmt.Sprintf("span(%d)", uint8(k))
}

// Limits of a decode span.
const (
	MaxSpanPositions = 32  // that stand, Last - First
	MaxSpanRows      = 256 // executed, those that were rolled back included
)

// Span is a part of a session as one receipt covers it: the positions
// [First, Last) that stood when it closed.
type Span struct {
	Kind SpanKind
	Seq  uint32 // number of the span in the session, from 0
	// EpochFirst is the epoch of its first frame, EpochLast that of its end.
	EpochFirst, EpochLast uint32
	First, Last           uint32
	// Rows is the number of rows that ran. Those beyond Last - First were
	// rolled back by truncates inside the span; all of them when Last is First.
	Rows  uint32
	Final bool // closed by the session's end, not by its size
	// Input and Output are the roots over the frames into and out of the hop.
	Input, Output Hash
}

// Rolled is the number of rows that were rolled back.
func (s *Span) Rolled() uint32 { return s.Rows - (s.Last - s.First) }

// SameShape reports whether s and o cover the same frames, so that their roots
// can be compared.
func (s *Span) SameShape(o *Span) bool {
	a, b := *s, *o
	a.Input, a.Output, b.Input, b.Output = Hash{}, Hash{}, Hash{}, Hash{}
	a.Final, b.Final = false, false
	return a == b
}

// Before reports whether a span s can come before o in one session: never may
// two spans of an epoch share a position.
func (s *Span) Before(o *Span) bool {
	switch {
	case s.Seq >= o.Seq || s.EpochLast > o.EpochFirst:
		return false
	case s.EpochLast < o.EpochFirst: // a truncate came in between
		return s.Seq+1 != o.Seq || o.First <= s.Last
	case s.Seq+1 == o.Seq:
		return s.Last == o.First
	}
	return s.Last <= o.First
}

// Overlaps reports whether s and o cover a position in the same epoch.
func (s *Span) Overlaps(o *Span) bool {
	return s.EpochFirst <= o.EpochLast && o.EpochFirst <= s.EpochLast && max(s.First, o.First) < min(s.Last, o.Last)
}

func (s *Span) check() error {
	bad := func(format string, args ...any) error { return Errorf(CodeReceiptInvalid, format, args...) }
	n := int64(s.Last) - int64(s.First)
	switch {
	case s.Seq >= maxReceiptSeq || s.EpochLast > maxReceiptEpoch || s.EpochFirst > s.EpochLast:
		return bad("span %d of epochs %d to %d", s.Seq, s.EpochFirst, s.EpochLast)
	case n < 0 || s.Last > MaxContext || s.Rows == 0 || int64(s.Rows) < n:
		return bad("%d rows at positions [%d,%d)", s.Rows, s.First, s.Last)
	case s.Kind == SpanPrefill && (int64(s.Rows) != n || n > MaxChunkRows || s.EpochFirst != s.EpochLast || s.Final):
		return bad("a prefill span of %d rows at positions [%d,%d)", s.Rows, s.First, s.Last)
	case s.Kind == SpanDecode && (n > MaxSpanPositions || s.Rows > MaxSpanRows || s.Rows > uint32(n) && s.EpochFirst == s.EpochLast):
		return bad("a decode span of %d rows at positions [%d,%d)", s.Rows, s.First, s.Last)
	case s.Kind != SpanPrefill && s.Kind != SpanDecode:
		return bad("%s", s.Kind)
	}
	return nil
}

// Domains of the hashes over frames.
const (
	frameSumDomain = "neuron-frame-v1\x00"
	spanRootDomain = "neuron-span-v1\x00"
)

// SumFrame is the hash of a frame as receipts know it: everything but the slot
// and the checksum, which belong to one connection. The domain is followed by
// kind, dtype, parts, zero (u8 each), flags, zero (u16), epoch, pos, rows,
// width, sideband, length (u32) and the payload.
func SumFrame(f *Frame) Hash {
	var head [len(frameSumDomain) + 32]byte
	b := append(head[:0], frameSumDomain...)
	le := binary.LittleEndian
	b = append(b, byte(f.Kind), byte(f.DType), byte(f.Parts), 0)
	b = le.AppendUint32(b, uint32(f.Flags))
	for _, v := range [...]uint32{f.Epoch, f.Pos, f.Rows, f.Width, f.Sideband, uint32(len(f.Payload))} {
		b = le.AppendUint32(b, v)
	}
	h := sha256.New()
	h.Write(b)
	h.Write(f.Payload)
	var out Hash
	h.Sum(out[:0])
	return out
}

// rootStart begins the chain over the frames of a span: the hash of domain,
// session and first position. Each frame takes it on by chainRoot.
func rootStart(session SessionID, first uint32) Hash {
	return sha256.Sum256(binary.LittleEndian.AppendUint32(append([]byte(spanRootDomain), session...), first))
}

func chainRoot(root, sum Hash) Hash {
	var b [2 * sha256.Size]byte
	copy(b[:], root[:])
	copy(b[sha256.Size:], sum[:])
	return sha256.Sum256(b[:])
}

// Spans follows the frames of one session where they pass, on a hop or at the
// driver, and cuts them into spans. Both ends of a seam cut alike, since both
// count a row frame when its receiver has executed it.
//
// A hop keeps two accounts: what it did itself (Take), counted when the next
// hop acknowledged, and what the previous hop did for it (Check), counted when
// the hop itself has executed it. The driver keeps the second of the tail.
//
// It is safe for concurrent use. In, Truncate and Out are called in the order
// of the frames, each by one goroutine; hashing happens outside the lock.
type Spans struct {
	tokens bool // the receiver gets tokens: the hop is the tail, or this is the driver
	driver bool

	mu   sync.Mutex // guards below
	recv *account   // of the previous hop's work; nil on hop 0
	own  *account   // of this hop's work; nil at the driver
}

// NewSpans makes the collector of hop on a route of hops.
func NewSpans(session SessionID, hop, hops int) *Spans {
	s := &Spans{tokens: hop == hops-1, own: &account{session: session}}
	if hop > 0 {
		s.recv = &account{session: session}
	}
	return s
}

// NewDriverSpans makes the collector of a driver, for the tail's receipts.
func NewDriverSpans(session SessionID) *Spans {
	return &Spans{tokens: true, driver: true, recv: &account{session: session}}
}

// In notes a row frame on its way into the hop, before the stage can answer;
// at the driver a frame that it is about to send to hop 0. f is not kept.
// Codes: frame_invalid for a verify frame above MaxSpanPositions rows,
// stage_overloaded when too many frames wait for their acknowledgement.
func (s *Spans) In(f *Frame) error {
	if f.Kind == KindVerify && f.Rows > MaxSpanPositions {
		return Errorf(CodeFrameInvalid, "%d rows in a verify frame, a receipt covers at most %d", f.Rows, MaxSpanPositions)
	}
	sum := SumFrame(f)
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
		return s.recv.push(event{h: f.Header, outs: []Hash{sum}})
	}
	return nil
}

// Truncate notes a truncate frame, in order with the rows.
func (s *Spans) Truncate(f *Frame) error {
	sum := SumFrame(&Frame{Header: Header{Kind: KindTruncate, Epoch: f.Epoch, Pos: f.Pos}})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range []*account{s.own, s.recv} {
		if a == nil {
			continue
		}
		if err := a.push(event{h: Header{Kind: KindTruncate, Epoch: f.Epoch, Pos: f.Pos}, in: sum}); err != nil {
			return err
		}
	}
	return nil
}

// Executed notes that the stage has executed the rows at pos of epoch, before
// the hop acknowledges them; at the driver, that the tail's acknowledgement
// came. Rows before them that are still open belong to dead epochs. Code:
// batch_layout for rows that were never noted.
func (s *Spans) Executed(epoch, pos uint32) error {
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
func (s *Spans) Out(f *Frame) error {
	sum := SumFrame(f)
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
		return Errorf(CodeBatchLayout, "rows at position %d go out that did not come in", f.Pos)
	}
	s.own.events[i].outs = []Hash{sum}
	return nil
}

// Acked notes that the next hop acknowledged the rows at pos of epoch. Code:
// batch_layout for rows that were never sent.
func (s *Spans) Acked(epoch, pos uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own.commit(epoch, pos)
}

// Take returns the hop's own spans that closed since the last call, oldest
// first; nil mostly.
func (s *Spans) Take() []Span {
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
func (s *Spans) Mark() ReceiptMark {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recv == nil {
		return ReceiptMark{}
	}
	return ReceiptMark{Seq: s.recv.seq, Frames: uint32(len(s.recv.states))}
}

// End closes the hop's open span at the session's end and returns where it
// ended. A session may end with frames under way: mark is how far the receiver
// has come, and the span ends there, though never behind what was sent. Take
// returns the span; nothing may be noted any more.
func (s *Spans) End(mark ReceiptMark) ReceiptMark {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.own
	if a == nil {
		return ReceiptMark{}
	}
	if !s.tokens {
		a.catchUp(mark)
	}
	out := ReceiptMark{Seq: a.seq, Frames: uint32(len(a.states))}
	switch {
	case mark.Seq < out.Seq:
		return mark // its spans up to there are closed
	case mark.Seq == out.Seq:
		out.Frames = min(out.Frames, mark.Frames)
	}
	if out.Frames > 0 {
		sp := a.states[out.Frames-1]
		sp.Final = sp.Kind == SpanDecode
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
func (s *Spans) Check(sp Span) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.recv
	if a == nil {
		return Errorf(CodeReceiptConflict, "no hop comes before this one")
	}
	var want Span
	first := a.seq - uint32(len(a.closed))
	switch {
	case sp.Seq < first:
		return Errorf(CodeNotFound, "span %d is too long ago", sp.Seq)
	case sp.Seq < a.seq:
		want = a.closed[sp.Seq-first]
	case sp.Seq == a.seq && sp.Final:
		i := slices.IndexFunc(a.states, func(st Span) bool { return st.SameShape(&sp) })
		if i < 0 {
			return Errorf(CodeReceiptConflict, "span %d does not end where its sender says", sp.Seq)
		}
		want = a.states[i]
	default:
		return Errorf(CodeUnavailable, "span %d is still open here", sp.Seq)
	}
	if !want.SameShape(&sp) || want.Output != sp.Output {
		return Errorf(CodeReceiptConflict, "span %d is not what came over the seam", sp.Seq)
	}
	return nil
}

// CheckInput compares a span's input too; only for the driver of a route of
// one hop, which knows both. Call it after Check.
func (s *Spans) CheckInput(sp Span) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.recv
	for _, list := range [][]Span{a.closed, a.states} {
		for i := range list {
			if st := list[i]; st.Seq == sp.Seq && st.Rows == sp.Rows && st.Last == sp.Last && st.Input == sp.Input {
				return nil
			}
		}
	}
	return Errorf(CodeReceiptConflict, "span %d has another input than was sent", sp.Seq)
}
