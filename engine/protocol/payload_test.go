package protocol_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"neuron/engine/protocol"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRowParts(t *testing.T) {
	t.Parallel()
	f := &protocol.Frame{
		Header: protocol.Header{
			Kind: protocol.KindVerify, DType: protocol.DTypeF32, Parts: protocol.PartIDs | protocol.PartHidden | protocol.PartSideband,
			Rows: 2, Width: 2, Sideband: 3,
		},
		Payload: append(append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 5), math.MaxUint32),
			protocol.F32Bytes([]float32{1, 2, 3, 4})...), "abcdef"...),
	}
	if d := cmp.Diff([]int32{5, -1}, f.IDs()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(protocol.F32Bytes([]float32{1, 2, 3, 4}), f.Hidden()); d != "" {
		t.Error(d)
	}
	if got := string(f.SidebandBytes()); got != "abcdef" {
		t.Errorf("sideband %q", got)
	}
	ids := protocol.IDFrame(protocol.KindDecode, 3, []int32{8})
	if ids.Hidden() != nil || ids.SidebandBytes() != nil || decodeFrame().IDs() != nil {
		t.Error("parts that a frame does not have are not nil")
	}
}

func TestCheckFinite(t *testing.T) {
	t.Parallel()
	row := func(dt protocol.DType, b []byte, width uint32) *protocol.Frame {
		rows := uint32(len(b)/dt.Size()) / width
		f := &protocol.Frame{Header: protocol.Header{Kind: protocol.KindPrefill, DType: dt, Parts: protocol.PartHidden, Rows: rows, Width: width, Pos: 10}, Payload: b}
		if _, err := protocol.AppendFrame(nil, f, protocol.SeamLimits()); err != nil {
			t.Fatal(err)
		}
		return f
	}
	f16 := func(v ...uint16) []byte {
		var b []byte
		for _, x := range v {
			b = binary.LittleEndian.AppendUint16(b, x)
		}
		return b
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, tc := range []struct {
		name string
		f    *protocol.Frame
		want string // part of the message; "" when finite
	}{
		{"largest f32", row(protocol.DTypeF32, protocol.F32Bytes([]float32{math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 0}), 2), ""},
		{"nan", row(protocol.DTypeF32, protocol.F32Bytes([]float32{0, 0, 0, nan}), 2), "position 11 is not finite at element 1"},
		{"inf", row(protocol.DTypeF32, protocol.F32Bytes([]float32{inf, 0}), 2), "position 10 is not finite at element 0"},
		{"negative inf", row(protocol.DTypeF32, protocol.F32Bytes([]float32{-inf, 0}), 2), "element 0"},
		{"largest f16", row(protocol.DTypeF16, f16(0x7bff, 0xfbff, 0x0001, 0x8000), 4), ""},
		{"f16 inf", row(protocol.DTypeF16, f16(0, 0, 0x7c00, 0), 2), "position 11 is not finite at element 0"},
		{"f16 nan", row(protocol.DTypeF16, f16(0, 0xfe01), 2), "element 1"},
		{"ids only", protocol.IDFrame(protocol.KindPrefill, 0, []int32{0x7f800000}), ""},
	} {
		err := tc.f.CheckFinite()
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if code(err) != protocol.CodeFrameNonFinite || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

var nanEqual = cmpopts.EquateNaNs()

func TestTokenRoundTrip(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	long := bytes.Repeat([]byte("x"), protocol.MaxPiece)
	top := make([]protocol.TokenProb, protocol.MaxTop)
	for i := range top {
		top[i] = protocol.TokenProb{ID: int32(i), Logprob: -float32(i), Piece: long[:i]}
	}
	for _, want := range []protocol.Token{
		{ID: 0, Logprob: nan},
		{ID: math.MaxInt32, EOG: true, Logprob: nan},
		{ID: -1, Piece: []byte{0xe2, 0x82}, Logprob: -0.25},
		{ID: 7, Piece: long, Logprob: float32(math.Inf(-1)), Top: top},
	} {
		f, err := protocol.TokenFrame(1, 2, 3, want)
		if err != nil {
			t.Fatal(err)
		}
		if f.Slot != 1 || f.Epoch != 2 || f.Pos != 3 || int(f.Length) != len(f.Payload) {
			t.Errorf("header %+v", f.Header)
		}
		got, err := f.Token()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, nanEqual, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
		for n := range f.Payload {
			cut := &protocol.Frame{Header: f.Header, Payload: f.Payload[:n]}
			if tok, err := cut.Token(); code(err) != protocol.CodeFrameInvalid {
				t.Fatalf("%d of %d bytes gave %+v, %v", n, len(f.Payload), tok, err)
			}
		}
		more := &protocol.Frame{Header: f.Header, Payload: append(bytes.Clone(f.Payload), 0)}
		if _, err := more.Token(); code(err) != protocol.CodeFrameInvalid {
			t.Errorf("a byte too many: %v", err)
		}
	}
}

// The largest token frame fits a control payload of the seam.
func TestLargestTokenFits(t *testing.T) {
	t.Parallel()
	tok := protocol.Token{Piece: make([]byte, protocol.MaxPiece)}
	for range protocol.MaxTop {
		tok.Top = append(tok.Top, protocol.TokenProb{Piece: make([]byte, protocol.MaxPiece)})
	}
	f, err := protocol.TokenFrame(0, 0, 0, tok)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := protocol.AppendFrame(nil, f, protocol.SeamLimits()); err != nil {
		t.Error(err)
	}
}

func TestTokenLimits(t *testing.T) {
	t.Parallel()
	long := make([]byte, protocol.MaxPiece+1)
	for name, tok := range map[string]protocol.Token{
		"piece":             {Piece: long},
		"alternatives":      {Top: make([]protocol.TokenProb, protocol.MaxTop+1)},
		"alternative piece": {Top: []protocol.TokenProb{{Piece: long}}},
	} {
		if _, err := protocol.TokenFrame(0, 0, 0, tok); code(err) != protocol.CodeFrameInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	f, err := protocol.TokenFrame(0, 0, 0, protocol.Token{Piece: []byte("ab"), Top: []protocol.TokenProb{{Piece: []byte("cd")}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(b []byte){
		"eog 2":                 func(b []byte) { b[4] = 2 },
		"21 alternatives":       func(b []byte) { b[5] = protocol.MaxTop + 1 },
		"2 alternatives":        func(b []byte) { b[5] = 2 },
		"piece too long":        func(b []byte) { b[6], b[7] = 0xff, 0xff },
		"alternative too long":  func(b []byte) { b[12+2+8], b[12+2+9] = 0xff, 0xff },
		"alternative too short": func(b []byte) { b[12+2+8] = 1 },
	} {
		b := bytes.Clone(f.Payload)
		edit(b)
		if tok, err := (&protocol.Frame{Header: f.Header, Payload: b}).Token(); code(err) != protocol.CodeFrameInvalid {
			t.Errorf("%s: %+v, %v", name, tok, err)
		}
	}
	if _, err := decodeFrame().Token(); code(err) != protocol.CodeFrameInvalid {
		t.Errorf("token of a decode frame: %v", err)
	}
}

func TestAck(t *testing.T) {
	t.Parallel()
	want := protocol.Ack{Rows: 512, Queue: 1, Compute: math.MaxUint32}
	f := protocol.AckFrame(protocol.Header{Kind: protocol.KindPrefill, Slot: 1, Epoch: 2, Pos: 3, Rows: 512}, want)
	if f.Kind != protocol.KindAck || f.Slot != 1 || f.Epoch != 2 || f.Pos != 3 || f.Rows != 0 {
		t.Errorf("header %+v", f.Header)
	}
	if got, err := f.Ack(); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	f.Payload = f.Payload[:11]
	if _, err := f.Ack(); code(err) != protocol.CodeFrameInvalid {
		t.Errorf("short ack: %v", err)
	}
	if _, err := decodeFrame().Ack(); code(err) != protocol.CodeFrameInvalid {
		t.Errorf("ack of a decode frame: %v", err)
	}
}

func TestErrorFrame(t *testing.T) {
	t.Parallel()
	want := protocol.Errorf(protocol.CodeKVBudget, "1000 cells asked").AtHop(2).InPhase(protocol.PhaseOpening).With("fits", "512")
	f := protocol.ErrorFrame(4, 5, want)
	if f.Slot != 4 || f.Epoch != 5 || int(f.Length) != len(f.Payload) {
		t.Errorf("header %+v", f.Header)
	}
	if d := cmp.Diff(want, f.Err(), cmpopts.IgnoreUnexported(protocol.Error{})); d != "" {
		t.Error(d)
	}
	// A code of a newer build survives.
	f.Payload = []byte(`{"code":"from_the_future","message":"m","new":1}`)
	if e := f.Err(); e.Code != "from_the_future" || e.Code.Known() {
		t.Errorf("%+v", e)
	}
	for _, bad := range []string{"", "null", "{}", "[]", `{"code":1}`, `{"code":"internal"`} {
		f.Payload = []byte(bad)
		if e := f.Err(); e.Code != protocol.CodeFrameInvalid {
			t.Errorf("%q: %+v", bad, e)
		}
	}
}

func TestJSONFrame(t *testing.T) {
	t.Parallel()
	f, err := protocol.JSONFrame(protocol.KindCall, 3, map[string]int{"a": 1})
	if err != nil || string(f.Payload) != `{"a":1}` || f.Slot != 3 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := protocol.JSONFrame(protocol.KindCall, 3, func() {}); code(err) != protocol.CodeInternal {
		t.Errorf("unencodable value: %v", err)
	}
}
