package publish_test

import (
	"testing"

	"neuron/internal/publish"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// BenchmarkBuild publishes some 500 MB; compare with sha256sum on a file of
// that size.
func BenchmarkBuild(b *testing.B) {
	s, err := synth.Preset("llama-1b")
	if err != nil {
		b.Fatal(err)
	}
	path := b.TempDir() + "/m.gguf"
	if err := synth.Write(path, s, synth.Options{Type: gguf.TypeQ4_0}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := publish.Build(b.Context(), []string{path}, publish.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(r.Manifest.Size())
	}
}
