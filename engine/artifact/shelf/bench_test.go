package shelf_test

import (
	"testing"

	"neuron/engine/protocol"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// BenchmarkPieces stages, reads back and commits a model of 100 MB in pieces of
// 4 MiB and chunks of 16 KiB, which is what a download does with the disk.
func BenchmarkPieces(b *testing.B) {
	p := publish(b, variant{shape: synth.Shape{
		Family: synth.FamilyLlama, Layers: 8, Embd: 1024, FF: 2816, Heads: 16, KVHeads: 4, HeadDim: 64, Vocab: 4000, Context: 2048,
	}, typ: gguf.TypeQ8_0, piece: 4 << 20})
	buf := make([]byte, 4<<20)
	b.SetBytes(int64(len(p.content)))
	for b.Loop() {
		s := open(b, p, b.TempDir())
		need := want(b, s, protocol.Range{First: 0, Last: p.m.Layers})
		for _, i := range pieces(need) {
			data := p.piece(i)
			for at := 0; at < len(data); at += 16 << 10 {
				if _, err := s.WriteAt(i, data[at:min(at+16<<10, len(data))], int64(at)); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := s.ReadAt(i, buf[:len(data)], 0); err != nil {
				b.Fatal(err)
			}
			if err := s.Commit(i); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer() // what follows are syncs, which a download does not wait for
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
