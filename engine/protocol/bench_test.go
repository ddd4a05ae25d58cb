package protocol_test

import (
	"bytes"
	"io"
	"testing"

	"neuron/engine/protocol"
)

// rowsOf is a row frame of a 1B model's width.
func rowsOf(k protocol.Kind, rows int) *protocol.Frame {
	const width = 2048
	return &protocol.Frame{Header: protocol.Header{
		Kind: k, Parts: protocol.PartHidden, DType: protocol.DTypeF32, Rows: uint32(rows), Width: width, Length: uint32(4 * rows * width),
	}, Payload: make([]byte, 4*rows*width)}
}

var benchFrames = map[string]*protocol.Frame{
	"decode":  rowsOf(protocol.KindDecode, 1),
	"prefill": rowsOf(protocol.KindPrefill, 256),
}

func BenchmarkFrameWrite(b *testing.B) {
	for name, f := range benchFrames {
		b.Run(name, func(b *testing.B) {
			w := protocol.NewFrameWriter(io.Discard, protocol.SeamLimits())
			b.SetBytes(int64(len(f.Payload)))
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Write(f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFrameRead(b *testing.B) {
	for name, f := range benchFrames {
		b.Run(name, func(b *testing.B) {
			raw, err := protocol.AppendFrame(nil, f, protocol.SeamLimits())
			if err != nil {
				b.Fatal(err)
			}
			r := protocol.NewFrameReader(endless{bytes.NewReader(raw)}, protocol.SeamLimits())
			b.SetBytes(int64(len(f.Payload)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// endless reads the same bytes again and again.
type endless struct{ *bytes.Reader }

func (e endless) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		e.Seek(0, io.SeekStart)
		n, err = e.Reader.Read(p)
	}
	return n, err
}

func BenchmarkCheckFinite(b *testing.B) {
	for name, f := range benchFrames {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(f.Payload)))
			for b.Loop() {
				if err := f.CheckFinite(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
