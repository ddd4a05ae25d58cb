package cut_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"neuron/llama/cut"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// BenchmarkVerify hashes a shard of about 1 GB that lies in memory, in turn
// with sha256sum over the same files, and reports both and the ratio.
func BenchmarkVerify(b *testing.B) {
	path := filepath.Join(b.TempDir(), "model.gguf")
	s := synth.Shape{
		Family: synth.FamilyLlama, Layers: 16, Embd: 2048, FF: 5632, Heads: 32, KVHeads: 4, HeadDim: 64, Vocab: 16000, Context: 2048,
	}
	if err := synth.Write(path, s, synth.Options{Type: gguf.TypeQ8_0, Seed: 1}); err != nil {
		b.Fatal(err)
	}
	store := imported(b, open(b, path), b.TempDir(), 0, s.Layers)
	var total int64
	var files []string
	for name, tensors := range store.Index().Files {
		files = append(files, filepath.Join(store.Dir(), name))
		total += cut.FileSize(tensors, store.Index().Alignment)
	}
	sha256sum, err := exec.LookPath("sha256sum")
	if err != nil {
		b.Skip("SKIPPED: sha256sum is not installed")
	}
	var ours, theirs []time.Duration
	for b.Loop() {
		start := time.Now()
		if bad, err := store.Verify(b.Context(), 0, s.Layers, cut.VerifyOptions{Again: true}); err != nil || len(bad) > 0 {
			b.Fatal(bad, err)
		}
		ours = append(ours, time.Since(start))
		start = time.Now()
		if out, err := exec.Command(sha256sum, files...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		theirs = append(theirs, time.Since(start))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	speed := func(d []time.Duration) float64 { return float64(total) / 1e9 / d[len(d)/2].Seconds() }
	b.ReportMetric(speed(ours), "GB/s")
	b.ReportMetric(speed(theirs), "sha256sum-GB/s")
	b.ReportMetric(speed(ours)/speed(theirs), "ratio")
}
