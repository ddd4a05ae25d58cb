package bench

import (
	"os"
	"testing"
)

// BenchmarkSwarm needs a built engine: NEURON_BENCH_BIN is its folder.
func BenchmarkSwarm(b *testing.B) {
	bin := os.Getenv("NEURON_BENCH_BIN")
	if bin == "" {
		b.Skip("SKIPPED: NEURON_BENCH_BIN does not name the folder of neuron-engine")
	}
	for b.Loop() {
		f, err := Swarm(b.Context(), SwarmOptions{Bin: bin, Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		for i := range f.Ours {
			b.Logf("%d MB: ours %s, aria2c %s", f.Bytes>>20, f.Ours[i], f.Aria2[i])
		}
		b.ReportMetric(f.Ratio(), "ratio")
		b.ReportMetric(float64(f.Bytes)/middle(f.Ours).Seconds()/1e6, "MB/s")
	}
}
