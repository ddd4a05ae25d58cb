package protocol_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"testing"
	"testing/iotest"

	"neuron/engine/protocol"
	"neuron/engine/protocol/rowbytes"

	"github.com/google/go-cmp/cmp"
)

// decodeFrame is a valid frame for tests to break.
func decodeFrame() *protocol.Frame {
	return &protocol.Frame{
		Header: protocol.Header{
			Kind: protocol.KindDecode, DType: protocol.DTypeF32, Parts: protocol.PartHidden,
			Flags: protocol.FlagSample, Slot: 1, Epoch: 2, Pos: 9, Rows: 1, Width: 4, Length: 16,
		},
		Payload: protocol.F32Bytes([]float32{1, 2, 3, 4}),
	}
}

func mustAppend(t *testing.T, f *protocol.Frame) []byte {
	t.Helper()
	b, err := protocol.AppendFrame(nil, f, protocol.PipeLimits())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reseal gives a broken header a right checksum, so that only the rule under
// test can refuse it.
func reseal(b []byte) []byte {
	tab := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(crc32.Checksum(b[:40], tab), tab, b[protocol.HeaderSize:])
	binary.LittleEndian.PutUint32(b[40:], sum)
	return b
}

func code(err error) protocol.Code {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// TestHeaderRules breaks one rule of the header at a time, on the writer's side
// and on the reader's: what we would refuse is never sent.
func TestHeaderRules(t *testing.T) {
	t.Parallel()
	lim := protocol.Limits{MaxRows: 8, MaxWidth: 16, MaxPayload: 256, MaxControl: 32, MaxPos: 100}
	rows := func(k protocol.Kind, parts protocol.Parts, dt protocol.DType, n, width, side uint32, size int) *protocol.Frame {
		return &protocol.Frame{
			Header:  protocol.Header{Kind: k, Parts: parts, DType: dt, Rows: n, Width: width, Sideband: side, Length: uint32(size)},
			Payload: make([]byte, size),
		}
	}
	control := func(k protocol.Kind, edit func(*protocol.Frame)) *protocol.Frame {
		f := protocol.ControlFrame(k, 0, 0, 0)
		if edit != nil {
			edit(f)
		}
		return f
	}
	const (
		ids, hid, side = protocol.PartIDs, protocol.PartHidden, protocol.PartSideband
		f32, f16, none = protocol.DTypeF32, protocol.DTypeF16, protocol.DTypeNone
		pre, dec, ver  = protocol.KindPrefill, protocol.KindDecode, protocol.KindVerify
	)
	at := func(pos uint32, f *protocol.Frame) *protocol.Frame { f.Pos = pos; return f }
	flags := func(fl protocol.Flags, f *protocol.Frame) *protocol.Frame { f.Flags = fl; return f }
	for _, tc := range []struct {
		name string
		f    *protocol.Frame
		ok   bool
	}{
		{"ids", rows(pre, ids, none, 8, 0, 0, 32), true},
		{"hidden f32", rows(pre, hid, f32, 2, 16, 0, 128), true},
		{"hidden f16", rows(pre, hid, f16, 8, 16, 0, 256), true},
		{"all parts", rows(ver, ids|hid|side, f32, 2, 4, 5, 2*(4+16+5)), true},
		{"sideband with ids", rows(ver, ids|side, none, 2, 0, 64, 2*(4+64)), true},
		{"last position", at(99, rows(dec, ids, none, 1, 0, 0, 4)), true},
		{"last chunk", at(92, rows(pre, ids, none, 8, 0, 0, 32)), true},
		{"known flags", flags(protocol.FlagSample, rows(dec, ids, none, 1, 0, 0, 4)), true},
		{"truncate at the end", at(100, control(protocol.KindTruncate, nil)), true},
		{"control payload at the limit", control(protocol.KindError, func(f *protocol.Frame) { f.Payload = make([]byte, 32) }), true},

		{"kind 0", rows(0, ids, none, 1, 0, 0, 4), false},
		{"unknown kind", rows(200, ids, none, 1, 0, 0, 4), false},
		{"first free kind", rows(protocol.KindReply+1, ids, none, 1, 0, 0, 4), false},
		{"unknown part", rows(pre, ids|8, none, 1, 0, 0, 4), false},
		{"unknown dtype", rows(pre, hid, 3, 1, 4, 0, 16), false},
		{"unknown flag", flags(4, rows(dec, ids, none, 1, 0, 0, 4)), false},
		{"no rows", rows(pre, ids, none, 0, 0, 0, 0), false},
		{"too many rows", rows(pre, ids, none, 9, 0, 0, 36), false},
		{"decode of two rows", rows(dec, ids, none, 2, 0, 0, 8), false},
		{"no parts", rows(pre, 0, none, 1, 0, 0, 0), false},
		{"hidden without width", rows(pre, hid, f32, 1, 0, 0, 0), false},
		{"hidden without dtype", rows(pre, hid, none, 1, 4, 0, 16), false},
		{"width and dtype without hidden", rows(pre, ids, f32, 1, 4, 0, 4), false},
		{"too wide", rows(pre, hid, f32, 1, 17, 0, 68), false},
		{"sideband without size", rows(pre, ids|side, none, 1, 0, 0, 4), false},
		{"size without sideband", rows(pre, ids, none, 1, 0, 4, 8), false},
		{"sideband too wide", rows(pre, ids|side, none, 1, 0, 4*protocol.MaxTopK+4, 4*protocol.MaxTopK+8), false},
		{"payload too short", rows(pre, hid, f32, 2, 16, 0, 124), false},
		{"payload too long", rows(pre, ids, none, 1, 0, 0, 8), false},
		{"payload above the limit", rows(pre, hid, f32, 5, 16, 0, 320), false},
		{"rows cross the last position", at(93, rows(pre, ids, none, 8, 0, 0, 32)), false},
		{"position behind the end", at(100, rows(dec, ids, none, 1, 0, 0, 4)), false},
		{"position out of range", at(math.MaxUint32, rows(dec, ids, none, 1, 0, 0, 4)), false},
		{"control position out of range", at(101, control(protocol.KindTruncate, nil)), false},
		{"control frame with rows", control(protocol.KindPing, func(f *protocol.Frame) { f.Rows = 1 }), false},
		{"control frame with width", control(protocol.KindPing, func(f *protocol.Frame) { f.Width = 1 }), false},
		{"control frame with sideband", control(protocol.KindPing, func(f *protocol.Frame) { f.Sideband = 1 }), false},
		{"control frame with parts", control(protocol.KindPing, func(f *protocol.Frame) { f.Parts = ids }), false},
		{"control frame with dtype", control(protocol.KindPing, func(f *protocol.Frame) { f.DType = f32 }), false},
		{"control payload too long", control(protocol.KindError, func(f *protocol.Frame) { f.Payload = make([]byte, 33) }), false},
	} {
		wide := protocol.Limits{MaxRows: 1 << 20, MaxWidth: 1 << 20, MaxPayload: 1 << 20, MaxControl: 1 << 20, MaxPos: math.MaxUint32}
		b, err := protocol.AppendFrame([]byte("before"), tc.f, lim)
		if tc.ok {
			if err != nil {
				t.Errorf("%s: writer: %v", tc.name, err)
				continue
			}
			b = b[len("before"):]
		} else {
			if code(err) != protocol.CodeFrameInvalid || string(b) != "before" {
				t.Errorf("%s: writer gave %v and %d bytes", tc.name, err, len(b))
			}
			b = rawFrame(tc.f)
		}
		for _, l := range []protocol.Limits{lim, wide} {
			_, err := protocol.NewFrameReader(bytes.NewReader(b), l).Read()
			if tc.ok && err != nil {
				t.Errorf("%s: reader: %v", tc.name, err)
			}
			if !tc.ok && l == lim && code(err) != protocol.CodeFrameInvalid {
				t.Errorf("%s: reader: %v", tc.name, err)
			}
		}
	}
}

// rawFrame writes f without any check.
func rawFrame(f *protocol.Frame) []byte {
	le := binary.LittleEndian
	b := make([]byte, protocol.HeaderSize)
	le.PutUint32(b, protocol.FrameMagic)
	b[4], b[5], b[6], b[7] = protocol.FrameVersion, byte(f.Kind), byte(f.DType), byte(f.Parts)
	le.PutUint16(b[8:], uint16(f.Flags))
	for i, v := range []uint32{f.Slot, f.Epoch, f.Pos, f.Rows, f.Width, uint32(len(f.Payload)), f.Sideband} {
		le.PutUint32(b[12+4*i:], v)
	}
	return reseal(append(b, f.Payload...))
}

// TestRawFrame keeps the helper above honest.
func TestRawFrame(t *testing.T) {
	t.Parallel()
	f := decodeFrame()
	if d := cmp.Diff(mustAppend(t, f), rawFrame(f)); d != "" {
		t.Error(d)
	}
}

func TestHeaderBytes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		edit func(b []byte)
		want protocol.Code
	}{
		{"magic", func(b []byte) { b[0] ^= 1 }, protocol.CodeFrameInvalid},
		{"older version", func(b []byte) { b[4] = 0 }, protocol.CodeProtocolVersion},
		{"newer version", func(b []byte) { b[4] = 2 }, protocol.CodeProtocolVersion},
		{"reserved u16", func(b []byte) { b[11] = 1 }, protocol.CodeFrameInvalid},
		{"reserved u32", func(b []byte) { b[47] = 1 }, protocol.CodeFrameInvalid},
	} {
		b := mustAppend(t, decodeFrame())
		tc.edit(b)
		_, err := protocol.NewFrameReader(bytes.NewReader(reseal(b)), protocol.SeamLimits()).Read()
		if code(err) != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
	if _, _, err := protocol.ParseHeader(make([]byte, protocol.HeaderSize-1), protocol.SeamLimits()); code(err) != protocol.CodeFrameInvalid {
		t.Errorf("short header: %v", err)
	}
}

// Every single bit that flips on the way is noticed.
func TestEveryBitCounts(t *testing.T) {
	t.Parallel()
	good := mustAppend(t, decodeFrame())
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			f, err := protocol.NewFrameReader(bytes.NewReader(b), protocol.SeamLimits()).Read()
			if err == nil {
				t.Fatalf("bit %d of byte %d flipped, read %+v", bit, i, f.Header)
			}
		}
	}
}

// A stream that ends between frames is a clean end, one inside a frame is not;
// the size of the reads does not matter.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	one := mustAppend(t, decodeFrame())
	for n := range len(one) + 1 {
		data := append(bytes.Clone(one), one[:n]...)
		r := protocol.NewFrameReader(iotest.OneByteReader(bytes.NewReader(data)), protocol.SeamLimits())
		if _, err := r.Read(); err != nil {
			t.Fatal(err)
		}
		_, err := r.Read()
		switch {
		case n == 0 && !errors.Is(err, io.EOF), n > 0 && n < len(one) && !errors.Is(err, io.ErrUnexpectedEOF), n == len(one) && err != nil:
			t.Errorf("after %d of %d bytes: %v", n, len(one), err)
		}
		if got := r.Bytes(); got != int64(len(one)+n) {
			t.Errorf("counted %d bytes of %d", got, len(one)+n)
		}
	}
}

// countingWriter counts calls.
type countingWriter struct {
	bytes.Buffer
	calls int
}

func (c *countingWriter) Write(b []byte) (int, error) { c.calls++; return c.Buffer.Write(b) }

func TestOneWritePerFrame(t *testing.T) {
	t.Parallel()
	var w countingWriter
	fw := protocol.NewFrameWriter(&w, protocol.SeamLimits())
	var want []*protocol.Frame
	for pos := range uint32(5) {
		f := decodeFrame()
		f.Pos = pos
		want = append(want, f)
		if err := fw.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	bad := decodeFrame()
	bad.Rows = 2
	if err := fw.Write(bad); code(err) != protocol.CodeFrameInvalid {
		t.Errorf("bad frame: %v", err)
	}
	if w.calls != 5 || fw.Bytes() != int64(w.Len()) {
		t.Errorf("%d writes, counted %d of %d bytes", w.calls, fw.Bytes(), w.Len())
	}
	fr := protocol.NewFrameReader(&w, protocol.SeamLimits())
	var got []*protocol.Frame
	for {
		f, err := fr.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A payload that was given back is used for the next frame that fits, and for no
// other; frames that were not given back keep theirs.
func TestRecycledPayloads(t *testing.T) {
	t.Parallel()
	var w bytes.Buffer
	fw := protocol.NewFrameWriter(&w, protocol.SeamLimits())
	ids := func(n, id int32) []int32 { return slices.Repeat([]int32{id}, int(n)) }
	for i, n := range []int32{64, 64, 64, 8, 200, 64} {
		if err := fw.Write(protocol.IDFrame(protocol.KindPrefill, 0, ids(n, int32(i)+1))); err != nil {
			t.Fatal(err)
		}
	}
	fr := protocol.NewFrameReader(&w, protocol.SeamLimits())
	read := func(n, id int32) *protocol.Frame {
		t.Helper()
		f, err := fr.Read()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(f.IDs(), ids(n, id)) {
			t.Fatalf("ids %v, want %d times %d", f.IDs(), n, id)
		}
		return f
	}
	kept, back := read(64, 1), read(64, 2)
	room := &back.Payload[0]
	fr.Recycle(back)
	f := read(64, 3)
	if &f.Payload[0] != room {
		t.Error("the payload was not used again")
	}
	fr.Recycle(f)
	f = read(8, 4)
	if &f.Payload[0] != room {
		t.Error("the payload was not used for a smaller frame")
	}
	fr.Recycle(f)
	read(200, 5) // does not fit
	read(64, 6)
	if back.Payload != nil || !slices.Equal(kept.IDs(), ids(64, 1)) {
		t.Errorf("given back: %d bytes; kept: %v", len(back.Payload), kept.IDs())
	}
}

// The writer computes the payload length; a stale one in the header is not sent.
func TestLengthIsComputed(t *testing.T) {
	t.Parallel()
	f := decodeFrame()
	f.Length = 7
	b := mustAppend(t, f)
	if n := binary.LittleEndian.Uint32(b[32:]); n != 16 {
		t.Errorf("length %d on the wire, want 16", n)
	}
}

func TestSeamFitsItsLimits(t *testing.T) {
	t.Parallel()
	seam, pipe := protocol.SeamLimits(), protocol.PipeLimits()
	for name, c := range map[string]struct {
		width int
		d     protocol.DType
		side  protocol.Sideband
		rows  int
	}{
		"a plain stream":                {4096, protocol.DTypeF32, protocol.Sideband{}, 512},
		"a wide one":                    {4 * 4096, protocol.DTypeF32, protocol.Sideband{}, 256},
		"a wide one with ids":           {4 * 4096, protocol.DTypeF32, protocol.Sideband{IDs: true}, 192},
		"a wide one in halves":          {4 * 4096, protocol.DTypeF16, protocol.Sideband{}, 512},
		"the widest of the catalogue":   {4 * 7168, protocol.DTypeF32, protocol.Sideband{IDs: true}, 128},
		"indices of cells":              {6144, protocol.DTypeF32, protocol.Sideband{TopK: 2048}, 512},
		"the widest that may be":        {65536, protocol.DTypeF32, protocol.Sideband{}, 64},
		"the widest, with all sideband": {65536, protocol.DTypeF32, protocol.Sideband{IDs: true, TopK: protocol.MaxTopK}, 56},
	} {
		rows := protocol.SeamRows(protocol.MaxChunkRows, c.width, c.d, c.side)
		if rows != c.rows {
			t.Errorf("%s: %d rows in a chunk, want %d", name, rows, c.rows)
		}
		p := rowbytes.Parts{DType: c.d, Width: c.width, Hidden: make([]byte, rows*c.width*c.d.Size())}
		if c.side.IDs {
			p.IDs = make([]int32, rows)
		}
		if c.side.TopK > 0 {
			p.TopK = make([]int32, rows*c.side.TopK)
		}
		if _, err := protocol.AppendFrame(nil, rowbytes.Frame(protocol.Header{Kind: protocol.KindPrefill}, rows, p), seam); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if pipe.MaxControl <= seam.MaxControl || pipe.MaxPayload != seam.MaxPayload || pipe.MaxPos != protocol.MaxContext {
		t.Errorf("pipe limits %+v against %+v", pipe, seam)
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for name, k := range kindByName {
		wantRows := name == "prefill" || name == "decode" || name == "verify"
		wantPipe := name == "open" || name == "opened" || name == "call" || name == "reply"
		if k.Rows() != wantRows || k.PipeOnly() != wantPipe {
			t.Errorf("%s: Rows %t, PipeOnly %t", name, k.Rows(), k.PipeOnly())
		}
	}
	if len(kindByName) < 15 {
		t.Errorf("only %d kinds: the numbers must be dense", len(kindByName))
	}
	for got, want := range map[string]string{
		protocol.Kind(99).String(): "kind(99)", protocol.DType(9).String(): "dtype(9)",
		protocol.DTypeNone.String(): "none", protocol.DTypeF32.String(): "f32", protocol.DTypeF16.String(): "f16",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if protocol.DTypeNone.Size() != 0 || protocol.DTypeF32.Size() != 4 || protocol.DTypeF16.Size() != 2 || protocol.DType(9).Size() != 0 {
		t.Error("dtype sizes")
	}
}

// A decode frame costs one hidden state, whatever the position (invariant 4).
func TestDecodeSizeIsConstant(t *testing.T) {
	t.Parallel()
	for _, pos := range []uint32{0, 16, 1500, protocol.MaxContext - 1} {
		f := decodeFrame()
		f.Pos = pos
		if n := len(mustAppend(t, f)); n != protocol.HeaderSize+4*4 {
			t.Errorf("%d bytes at position %d", n, pos)
		}
	}
}
