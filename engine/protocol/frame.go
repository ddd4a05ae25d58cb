package protocol

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// FrameMagic are the first four bytes of every frame, "NRNf" on the wire.
const FrameMagic uint32 = 0x664e524e

// FrameVersion is the version of the frame layout below.
const FrameVersion = 1

// HeaderSize is the fixed size of a frame's header, in bytes.
//
// Layout, little-endian:
//
//	 0 u32 magic          16 u32 epoch        36 u32 sideband bytes per row
//	 4 u8  version        20 u32 first pos    40 u32 CRC-32C over bytes 0..39
//	 5 u8  kind           24 u32 rows                and the payload
//	 6 u8  dtype          28 u32 width        44 u32 reserved, zero
//	 7 u8  parts          32 u32 payload length
//	 8 u16 flags
//	10 u16 reserved, zero
//	12 u32 slot
//
// The payload of a row frame is, in this order and without padding: ids (one
// i32 per row) if PartIDs, hidden states (rows x width x dtype) if PartHidden,
// sideband (rows x sideband bytes: i32 cell indices) if PartSideband. Other kinds carry bytes
// whose meaning the kind fixes, with rows, width and sideband zero.
const HeaderSize = 48

// Kind says what a frame is. The list is append-only.
type Kind uint8

// Frame kinds. Kinds from KindOpen on travel only between an engine and its
// stage process, never across a seam.
const (
	KindPrefill  Kind = 1  // rows of a prompt chunk
	KindDecode   Kind = 2  // one row
	KindVerify   Kind = 3  // one row plus drafted rows, checked in one pass
	KindToken    Kind = 4  // a sampled token, from the tail to the driver
	KindTruncate Kind = 5  // forget all positions from Pos on
	KindFork     Kind = 6  // copy a session's KV to another slot
	KindCancel   Kind = 7  // stop the running and the queued work of a session
	KindError    Kind = 8  // the session has ended; payload is an Error as JSON
	KindAck      Kind = 9  // rows of a frame were executed; payload is an Ack
	KindPing     Kind = 10 // sign of life
	KindClose    Kind = 11 // the session is over, in order
	KindOpen     Kind = 12 // pipe only: make a session; payload is JSON
	KindOpened   Kind = 13 // pipe only: answer to open, release and load; payload is JSON
	KindCall     Kind = 14 // pipe only: a question; payload is JSON
	KindReply    Kind = 15 // pipe only: its answer; payload is JSON
)

var kindNames = map[Kind]string{
	KindPrefill: "prefill", KindDecode: "decode", KindVerify: "verify", KindToken: "token",
	KindTruncate: "truncate", KindFork: "fork", KindCancel: "cancel", KindError: "error",
	KindAck: "ack", KindPing: "ping", KindClose: "close",
	KindOpen: "open", KindOpened: "opened", KindCall: "call", KindReply: "reply",
}

func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// PipeOnly reports whether k may not cross a seam.
func (k Kind) PipeOnly() bool { return k >= KindOpen }

// Rows reports whether frames of kind k carry rows for the model.
func (k Kind) Rows() bool { return k == KindPrefill || k == KindDecode || k == KindVerify }

// DType is the element type of hidden states.
type DType uint8

// Element types. F32 is bit-exact; F16 only by lease, where the family passed.
const (
	DTypeNone DType = 0
	DTypeF32  DType = 1
	DTypeF16  DType = 2
)

// Size is the number of bytes per element; 0 for DTypeNone and unknown ones.
func (d DType) Size() int {
	switch d {
	case DTypeF32:
		return 4
	case DTypeF16:
		return 2
	}
	return 0
}

func (d DType) String() string {
	switch d {
	case DTypeNone:
		return "none"
	case DTypeF32:
		return "f32"
	case DTypeF16:
		return "f16"
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Parts says what each row of a row frame consists of.
type Parts uint8

// The parts of a row.
const (
	PartIDs      Parts = 1
	PartHidden   Parts = 2
	PartSideband Parts = 4

	allParts = PartIDs | PartHidden | PartSideband
)

// Flags modify a frame.
type Flags uint16

// FlagSample asks the tail to sample a token after the frame's last row.
const FlagSample Flags = 1

// FlagMore on a token frame says that more token records follow for the
// same step (a verify frame answers with several).
const FlagMore Flags = 2

const allFlags = FlagSample | FlagMore

// Header is a frame's fixed part.
type Header struct {
	Kind     Kind
	DType    DType
	Parts    Parts
	Flags    Flags
	Slot     uint32 // session slot on this connection
	Epoch    uint32 // raised by each truncate or fork; frames of old epochs are dropped
	Pos      uint32 // position of the first row
	Rows     uint32
	Width    uint32 // elements per hidden row
	Sideband uint32 // bytes per sideband row
	Length   uint32 // payload bytes
}

// Frame is a header with its payload.
type Frame struct {
	Header
	Payload []byte
}

// Limits bound what a reader accepts; checked before anything is allocated.
type Limits struct {
	MaxRows    uint32 // rows of a row frame
	MaxWidth   uint32 // elements per row
	MaxPayload uint32 // payload bytes of any frame
	MaxControl uint32 // payload bytes of frames that carry no rows
	MaxPos     uint32 // exclusive upper bound of positions
}

// MaxChunkRows is the largest prefill chunk, in rows.
const MaxChunkRows = 512

// MaxRowPayload bounds the payload of a row frame, in bytes: a chunk of wide rows
// has fewer of them (SeamRows). 64 rows of the widest stream (65536 elements in
// F32) fit, and so do 512 rows of 8192 elements.
const MaxRowPayload = 16 << 20

// MaxContext is the cap on positions of a session (128K).
const MaxContext = 128 * 1024

// SeamLimits fits the widest residual stream in the catalogue (4 x 7168); frames
// are bounded by bytes, see MaxRowPayload.
func SeamLimits() Limits {
	return Limits{
		MaxRows: MaxChunkRows, MaxWidth: 65536, MaxPayload: MaxRowPayload,
		MaxControl: 64 << 10, MaxPos: MaxContext,
	}
}

// PipeLimits are SeamLimits with room for prompts and vocabulary answers.
func PipeLimits() Limits {
	l := SeamLimits()
	l.MaxControl = 16 << 20
	return l
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendFrame appends the wire form of f to dst and returns it. Length and
// checksum are computed; the header is checked as a reader would, so that we
// never send what we would refuse.
func AppendFrame(dst []byte, f *Frame, l Limits) ([]byte, error) {
	h := f.Header
	if uint64(len(f.Payload)) > uint64(l.MaxPayload) {
		return dst, Errorf(CodeFrameInvalid, "payload of %d bytes exceeds %d", len(f.Payload), l.MaxPayload)
	}
	h.Length = uint32(len(f.Payload))
	if err := h.check(l); err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	b := dst[start:]
	le := binary.LittleEndian
	le.PutUint32(b[0:], FrameMagic)
	b[4], b[5], b[6], b[7] = FrameVersion, byte(h.Kind), byte(h.DType), byte(h.Parts)
	le.PutUint16(b[8:], uint16(h.Flags))
	le.PutUint32(b[12:], h.Slot)
	le.PutUint32(b[16:], h.Epoch)
	le.PutUint32(b[20:], h.Pos)
	le.PutUint32(b[24:], h.Rows)
	le.PutUint32(b[28:], h.Width)
	le.PutUint32(b[32:], h.Length)
	le.PutUint32(b[36:], h.Sideband)
	crc := crc32.Update(crc32.Checksum(b[:40], castagnoli), castagnoli, f.Payload)
	le.PutUint32(b[40:], crc)
	return append(dst, f.Payload...), nil
}

// ParseHeader checks and decodes the HeaderSize bytes in b. The returned sum
// is the checksum that CheckPayload needs.
func ParseHeader(b []byte, l Limits) (h Header, sum uint32, err error) {
	if len(b) < HeaderSize {
		return h, 0, Errorf(CodeFrameInvalid, "header of %d bytes, want %d", len(b), HeaderSize)
	}
	le := binary.LittleEndian
	if m := le.Uint32(b); m != FrameMagic {
		return h, 0, Errorf(CodeFrameInvalid, "bad magic %#08x", m)
	}
	if b[4] != FrameVersion {
		return h, 0, Errorf(CodeProtocolVersion, "frame version %d, this build speaks %d", b[4], FrameVersion)
	}
	if le.Uint16(b[10:]) != 0 || le.Uint32(b[44:]) != 0 {
		return h, 0, Errorf(CodeFrameInvalid, "reserved bytes are not zero")
	}
	h = Header{
		Kind: Kind(b[5]), DType: DType(b[6]), Parts: Parts(b[7]), Flags: Flags(le.Uint16(b[8:])),
		Slot: le.Uint32(b[12:]), Epoch: le.Uint32(b[16:]), Pos: le.Uint32(b[20:]), Rows: le.Uint32(b[24:]),
		Width: le.Uint32(b[28:]), Length: le.Uint32(b[32:]), Sideband: le.Uint32(b[36:]),
	}
	if err := h.check(l); err != nil {
		return h, 0, err
	}
	return h, le.Uint32(b[40:]), nil
}

// CheckPayload verifies the checksum of a frame whose raw header is hdr.
func CheckPayload(hdr []byte, sum uint32, payload []byte) error {
	if got := crc32.Update(crc32.Checksum(hdr[:40], castagnoli), castagnoli, payload); got != sum {
		return Errorf(CodeFrameInvalid, "checksum %08x, want %08x", got, sum)
	}
	return nil
}

// check holds every rule that a header alone can break.
func (h Header) check(l Limits) error {
	if _, ok := kindNames[h.Kind]; !ok {
		return Errorf(CodeFrameInvalid, "unknown frame kind %d", uint8(h.Kind))
	}
	if h.Flags&^allFlags != 0 || h.Parts&^allParts != 0 || h.DType > DTypeF16 {
		return Errorf(CodeFrameInvalid, "unknown flags, parts or dtype in a %s frame", h.Kind)
	}
	if h.Length > l.MaxPayload {
		return Errorf(CodeFrameInvalid, "payload of %d bytes exceeds %d", h.Length, l.MaxPayload)
	}
	if h.Flags&FlagSample != 0 && !h.Kind.Rows() || h.Flags&FlagMore != 0 && h.Kind != KindToken {
		return Errorf(CodeFrameInvalid, "flags %#x do not belong to a %s frame", uint16(h.Flags), h.Kind)
	}
	if h.Pos > l.MaxPos {
		return Errorf(CodeFrameInvalid, "position %d exceeds %d", h.Pos, l.MaxPos)
	}
	if !h.Kind.Rows() {
		if h.Rows != 0 || h.Width != 0 || h.Sideband != 0 || h.Parts != 0 || h.DType != DTypeNone {
			return Errorf(CodeFrameInvalid, "a %s frame carries no rows", h.Kind)
		}
		if h.Length > l.MaxControl {
			return Errorf(CodeFrameInvalid, "%s payload of %d bytes exceeds %d", h.Kind, h.Length, l.MaxControl)
		}
		return nil
	}
	if h.Rows == 0 || h.Rows > l.MaxRows || (h.Kind == KindDecode && h.Rows != 1) {
		return Errorf(CodeFrameInvalid, "%d rows in a %s frame", h.Rows, h.Kind)
	}
	if uint64(h.Pos)+uint64(h.Rows) > uint64(l.MaxPos) {
		return Errorf(CodeFrameInvalid, "positions %d+%d exceed %d", h.Pos, h.Rows, l.MaxPos)
	}
	if h.Parts&(PartIDs|PartHidden) == 0 {
		return Errorf(CodeFrameInvalid, "a %s frame without ids or hidden states", h.Kind)
	}
	hidden := h.Parts&PartHidden != 0
	if hidden != (h.Width != 0) || hidden != (h.DType != DTypeNone) || h.Width > l.MaxWidth {
		return Errorf(CodeFrameInvalid, "width %d, dtype %s and parts %d do not agree", h.Width, h.DType, h.Parts)
	}
	if (h.Parts&PartSideband != 0) != (h.Sideband != 0) || h.Sideband > MaxTopK*TopKSize {
		return Errorf(CodeFrameInvalid, "sideband of %d bytes per row and parts %d do not agree", h.Sideband, h.Parts)
	}
	if want := h.rowBytes() * uint64(h.Rows); want != uint64(h.Length) {
		return Errorf(CodeFrameInvalid, "payload of %d bytes, rows need %d", h.Length, want)
	}
	return nil
}

// rowBytes cannot overflow: width and sideband are 32 bits wide.
func (h Header) rowBytes() uint64 {
	n := uint64(h.Sideband)
	if h.Parts&PartIDs != 0 {
		n += 4
	}
	if h.Parts&PartHidden != 0 {
		n += uint64(h.Width) * uint64(h.DType.Size())
	}
	return n
}

// IDs decodes the frame's token ids, nil without PartIDs.
func (f *Frame) IDs() []int32 {
	if f.Parts&PartIDs == 0 {
		return nil
	}
	out := make([]int32, f.Rows)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(f.Payload[4*i:]))
	}
	return out
}

// Hidden is the part of the payload that holds hidden states, rows x width
// elements of DType in little-endian order; nil without PartHidden.
func (f *Frame) Hidden() []byte {
	if f.Parts&PartHidden == 0 {
		return nil
	}
	off := 0
	if f.Parts&PartIDs != 0 {
		off = 4 * int(f.Rows)
	}
	return f.Payload[off : off+int(f.Rows)*int(f.Width)*f.DType.Size()]
}

// SidebandBytes is the part of the payload behind ids and hidden states.
func (f *Frame) SidebandBytes() []byte {
	if f.Parts&PartSideband == 0 {
		return nil
	}
	return f.Payload[len(f.Payload)-int(f.Rows)*int(f.Sideband):]
}

// CheckFinite refuses NaN and Inf in F32 or F16 hidden states: both have all
// exponent bits set.
func (f *Frame) CheckFinite() error {
	b := f.Hidden()
	switch f.DType {
	case DTypeF32:
		const exp, one = 0x7f800000_7f800000, 0x00800000_00800000
		return f.firstFull(b, 4, exp, one)
	case DTypeF16:
		const exp, one = 0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400
		return f.firstFull(b, 2, exp, one)
	}
	return nil
}

// firstFull finds the first element of size bytes whose exponent is full. It
// looks at eight bytes at a time: one, the lowest bit of each exponent, added
// to the exponents of a word carries into an element's sign bit exactly where
// the exponent was full, and never beyond.
func (f *Frame) firstFull(b []byte, size int, exp, one uint64) error {
	signs := ^uint64(0) / (1<<(8*size) - 1) << (8*size - 1)
	le := binary.LittleEndian
	i := 0
	for ; i+32 <= len(b); i += 32 {
		w := b[i : i+32 : i+32]
		full := (le.Uint64(w)&exp + one) | (le.Uint64(w[8:])&exp + one) | (le.Uint64(w[16:])&exp + one) | (le.Uint64(w[24:])&exp + one)
		if full&signs != 0 {
			break
		}
	}
	for ; i+size <= len(b); i += size {
		e := exp & (1<<(8*size) - 1)
		v := uint64(le.Uint16(b[i:]))
		if size == 4 {
			v = uint64(le.Uint32(b[i:]))
		}
		if v&e == e {
			return f.nonFinite(i / size)
		}
	}
	return nil
}

func (f *Frame) nonFinite(elem int) error {
	row := elem / int(f.Width)
	return Errorf(CodeFrameNonFinite, "hidden state of position %d is not finite at element %d", int(f.Pos)+row, elem%int(f.Width))
}

// IDFrame makes a row frame of token ids.
func IDFrame(k Kind, pos uint32, ids []int32) *Frame {
	p := make([]byte, 4*len(ids))
	for i, id := range ids {
		binary.LittleEndian.PutUint32(p[4*i:], uint32(id))
	}
	return &Frame{Header: Header{Kind: k, Parts: PartIDs, Pos: pos, Rows: uint32(len(ids)), Length: uint32(len(p))}, Payload: p}
}

// F32Bytes is the wire form of v.
func F32Bytes(v []float32) []byte {
	out := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(x))
	}
	return out
}
