package protocol_test

import (
	"bytes"
	"testing"

	"neuron/engine/protocol"
)

// Everything about a frame counts but what belongs to one connection.
func TestSumFrame(t *testing.T) {
	t.Parallel()
	base := func() *protocol.Frame { return decodeFrame() }
	want := protocol.SumFrame(base())
	for name, change := range map[string]func(f *protocol.Frame){
		"kind": func(f *protocol.Frame) { f.Kind = protocol.KindVerify }, "dtype": func(f *protocol.Frame) { f.DType++ },
		"parts": func(f *protocol.Frame) { f.Parts ^= protocol.PartSideband }, "flags": func(f *protocol.Frame) { f.Flags ^= protocol.FlagSample },
		"epoch": func(f *protocol.Frame) { f.Epoch++ }, "pos": func(f *protocol.Frame) { f.Pos++ }, "rows": func(f *protocol.Frame) { f.Rows++ },
		"width": func(f *protocol.Frame) { f.Width++ }, "sideband": func(f *protocol.Frame) { f.Sideband++ },
		"payload": func(f *protocol.Frame) { f.Payload[len(f.Payload)-1] ^= 1 }, "length": func(f *protocol.Frame) { f.Payload = f.Payload[1:] },
	} {
		f := base()
		f.Payload = bytes.Clone(f.Payload)
		change(f)
		if protocol.SumFrame(f) == want {
			t.Errorf("%s does not change the sum", name)
		}
	}
	f := base()
	f.Slot += 5
	if protocol.SumFrame(f) != want {
		t.Error("the slot changes the sum")
	}
}

func BenchmarkSumFrame16K(b *testing.B) {
	f := &protocol.Frame{Header: protocol.Header{Kind: protocol.KindDecode, DType: protocol.DTypeF32, Parts: protocol.PartHidden, Rows: 1, Width: 4096}, Payload: make([]byte, 16<<10)}
	b.SetBytes(int64(len(f.Payload)))
	b.ReportAllocs()
	for b.Loop() {
		protocol.SumFrame(f)
	}
}
