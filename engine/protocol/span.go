package protocol

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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

// SpanRoot begins the chain over the frames of a span: the hash of domain,
// session and first position. Each frame takes it on by ChainRoot.
func SpanRoot(session SessionID, first uint32) Hash {
	return sha256.Sum256(binary.LittleEndian.AppendUint32(append([]byte(spanRootDomain), session...), first))
}

// ChainRoot takes a root on by the sum of the next frame.
func ChainRoot(root, sum Hash) Hash {
	var b [2 * sha256.Size]byte
	copy(b[:], root[:])
	copy(b[sha256.Size:], sum[:])
	return sha256.Sum256(b[:])
}
