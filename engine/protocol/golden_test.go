package protocol_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/protocol/protocoltest"

	"github.com/google/go-cmp/cmp"
)

// goldenFrame describes a frame in words that a person can check. Exactly one
// of the payload fields is used.
type goldenFrame struct {
	Comment string `json:"comment"`
	Kind    string `json:"kind"`
	DType   string `json:"dtype,omitempty"`
	Flags   uint16 `json:"flags,omitempty"`
	Slot    uint32 `json:"slot,omitempty"`
	Epoch   uint32 `json:"epoch,omitempty"`
	Pos     uint32 `json:"pos,omitempty"`
	// Row frames.
	IDs      []int32     `json:"ids,omitempty"`
	Hidden   [][]float32 `json:"hidden,omitempty"`
	Sideband []string    `json:"sideband,omitempty"` // hex, one per row
	// Other frames.
	Token *goldenToken    `json:"token,omitempty"`
	Ack   *protocol.Ack   `json:"ack,omitempty"`
	Error *protocol.Error `json:"error,omitempty"`
	JSON  json.RawMessage `json:"json,omitempty"`
}

type goldenToken struct {
	ID      int32         `json:"id"`
	EOG     bool          `json:"eog,omitempty"`
	Piece   string        `json:"piece,omitempty"`
	Logprob *float32      `json:"logprob"` // null: NaN
	Top     []goldenToken `json:"top,omitempty"`
}

var kindByName = func() map[string]protocol.Kind {
	m := make(map[string]protocol.Kind)
	for k := protocol.Kind(1); !strings.HasPrefix(k.String(), "kind("); k++ {
		m[k.String()] = k
	}
	return m
}()

var dtypeByName = map[string]protocol.DType{"": 0, "f32": protocol.DTypeF32, "f16": protocol.DTypeF16}

// f16Of converts values that have an exact half precision form: zero and
// powers of two times small integers.
func f16Of(t *testing.T, v float32) uint16 {
	t.Helper()
	bits := math.Float32bits(v)
	sign := uint16(bits>>16) & 0x8000
	if v == 0 {
		return sign
	}
	e := int(bits>>23&0xff) - 127 + 15
	if e <= 0 || e >= 31 || bits&0x1fff != 0 {
		t.Fatalf("%v has no exact f16 form", v)
	}
	return sign | uint16(e)<<10 | uint16(bits>>13)&0x3ff
}

func (g *goldenFrame) frame(t *testing.T) *protocol.Frame {
	t.Helper()
	k, ok := kindByName[g.Kind]
	if !ok {
		t.Fatalf("unknown kind %q", g.Kind)
	}
	dt, ok := dtypeByName[g.DType]
	if !ok {
		t.Fatalf("unknown dtype %q", g.DType)
	}
	var f *protocol.Frame
	switch {
	case g.Token != nil:
		var err error
		if f, err = protocol.TokenFrame(g.Slot, g.Epoch, g.Pos, g.Token.token()); err != nil {
			t.Fatal(err)
		}
	case g.Ack != nil:
		f = protocol.AckFrame(protocol.Header{Slot: g.Slot, Epoch: g.Epoch, Pos: g.Pos}, *g.Ack)
	case g.Error != nil:
		f = protocol.ErrorFrame(g.Slot, g.Epoch, g.Error)
	case g.JSON != nil:
		var err error
		if f, err = protocol.JSONFrame(k, g.Slot, g.JSON); err != nil {
			t.Fatal(err)
		}
	case k.Rows():
		f = g.rows(t, k, dt)
	default:
		f = protocol.ControlFrame(k, g.Slot, g.Epoch, g.Pos)
	}
	if f.Kind != k {
		t.Fatalf("a %s frame described as %s", f.Kind, g.Kind)
	}
	f.Flags = protocol.Flags(g.Flags)
	return f
}

func (g *goldenFrame) rows(t *testing.T, k protocol.Kind, dt protocol.DType) *protocol.Frame {
	t.Helper()
	f := protocol.IDFrame(k, g.Pos, g.IDs)
	f.Slot, f.Epoch = g.Slot, g.Epoch
	if g.IDs == nil {
		f.Parts = 0
	}
	if g.Hidden != nil {
		f.Parts |= protocol.PartHidden
		f.DType, f.Rows, f.Width = dt, uint32(len(g.Hidden)), uint32(len(g.Hidden[0]))
		for _, row := range g.Hidden {
			if dt == protocol.DTypeF32 {
				f.Payload = append(f.Payload, protocol.F32Bytes(row)...)
				continue
			}
			for _, v := range row {
				h := f16Of(t, v)
				f.Payload = append(f.Payload, byte(h), byte(h>>8))
			}
		}
	}
	for _, s := range g.Sideband {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		f.Parts |= protocol.PartSideband
		f.Sideband = uint32(len(b))
		f.Payload = append(f.Payload, b...)
	}
	f.Length = uint32(len(f.Payload))
	return f
}

func (g goldenToken) token() protocol.Token {
	prob := func(p *float32) float32 {
		if p == nil {
			return float32(math.NaN())
		}
		return *p
	}
	tok := protocol.Token{ID: g.ID, EOG: g.EOG, Logprob: prob(g.Logprob)}
	if g.Piece != "" {
		tok.Piece = []byte(g.Piece)
	}
	for _, a := range g.Top {
		tok.Top = append(tok.Top, protocol.TokenProb{ID: a.ID, Logprob: prob(a.Logprob), Piece: []byte(a.Piece)})
	}
	return tok
}

// dump writes the wire form with a name for each field, so that a diff shows
// what moved.
func dump(b []byte) string {
	var s strings.Builder
	off := 0
	field := func(n int, name string) {
		fmt.Fprintf(&s, "%-12s %s\n", name, hex.EncodeToString(b[off:off+n]))
		off += n
	}
	field(4, "magic")
	field(1, "version")
	field(1, "kind")
	field(1, "dtype")
	field(1, "parts")
	field(2, "flags")
	field(2, "reserved")
	field(4, "slot")
	field(4, "epoch")
	field(4, "pos")
	field(4, "rows")
	field(4, "width")
	field(4, "length")
	field(4, "sideband")
	field(4, "crc")
	field(4, "reserved")
	for off < len(b) {
		field(min(32, len(b)-off), "payload")
	}
	return s.String()
}

func undump(t *testing.T, s string) []byte {
	t.Helper()
	var out []byte
	for line := range strings.Lines(s) {
		parts := strings.Fields(line)
		if len(parts) != 2 {
			t.Fatalf("bad golden line %q", line)
		}
		b, err := hex.DecodeString(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}

// TestGoldenFrames holds the bytes of every frame kind. A change here breaks
// nodes that are already out: it needs a new FrameVersion, not a new golden.
func TestGoldenFrames(t *testing.T) {
	paths, err := filepath.Glob("testdata/golden/frame-*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	seen := make(map[protocol.Kind]bool)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			input, _ := protocoltest.Split(t, path)
			dec := json.NewDecoder(strings.NewReader(input))
			dec.DisallowUnknownFields()
			var g goldenFrame
			if err := dec.Decode(&g); err != nil {
				t.Fatal(err)
			}
			f := g.frame(t)
			seen[f.Kind] = true
			wire, err := protocol.AppendFrame(nil, f, protocol.PipeLimits())
			if err != nil {
				t.Fatal(err)
			}
			want := protocoltest.Golden(t, path, input, dump(wire))
			back, err := protocol.NewFrameReader(bytes.NewReader(undump(t, want)), protocol.PipeLimits()).Read()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(f, back); d != "" {
				t.Errorf("read back (-want +got):\n%s", d)
			}
		})
	}
	for name, k := range kindByName {
		if !seen[k] {
			t.Errorf("no golden file for %s frames", name)
		}
	}
}
