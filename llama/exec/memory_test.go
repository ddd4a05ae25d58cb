package exec_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"neuron/llama/cut"
	"neuron/llama/exec"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// TestPoolMemory compares the formula of each family, sliding layers included,
// with the size of the cache that the library makes.
func TestPoolMemory(t *testing.T) {
	loadNative(t)
	for _, fam := range families {
		t.Run(fam, func(t *testing.T) {
			store := importAll(t, writeSynth(t, small(fam), gguf.TypeQ8_0))
			m := store.Model()
			c := split(t, store, []hop{{0, 3, 3}}, 1)
			defer c.close()
			stage := c.stages[0]
			for _, cells := range []int{256, 1024, 4096} {
				p, err := stage.NewPool(cells, 2, true)
				if err != nil {
					t.Fatal(err)
				}
				window := m.KVWindowBytes(0, 3, 2)
				want := 2 * ((m.KVBytesPerCell(0, 3, 2)-window)*int64(cells) + window*int64(min(cells, m.WindowCells(stage.Config().ChunkRows))))
				// The library prints hundredths of a MiB, for each of two caches.
				if got := p.Memory(); got.KV < want-2*11<<10 || got.KV > want+2*11<<10 || got.Compute <= 0 {
					t.Errorf("%d cells: %+v, want %d bytes of KV", cells, got, want)
				}
				p.Close()
			}
		})
	}
}

// TestReleaseFiles loads a model that is repacked whole and looks at how much
// of its files stays resident.
func TestReleaseFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only Linux tells file memory exactly")
	}
	loadNative(t)
	shape, err := synth.Preset("tiny-llama")
	if err != nil {
		t.Fatal(err)
	}
	shape.Embd, shape.FF, shape.Heads, shape.HeadDim = 1024, 2048, 16, 64
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := synth.Write(path, shape, synth.Options{Type: gguf.TypeQ4_0}); err != nil {
		t.Fatal(err)
	}
	src, err := gguf.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	store, err := cut.Import(context.Background(), src, "m", filepath.Join(t.TempDir(), "shard"), 2, 8, nil)
	src.Close()
	if err != nil {
		t.Fatal(err)
	}
	p, err := store.Prepare(2, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	before := fileMemory(t)
	s, err := exec.Load(exec.Config{Paths: p.Paths, First: 2, Last: 8, Layers: 8, ExitNode: "l_out", Threads: 1, ChunkRows: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	loaded := fileMemory(t)
	n, err := s.ReleaseFiles()
	if err != nil {
		t.Fatal(err)
	}
	released := fileMemory(t)
	weights := int64(s.Model().Size())
	t.Logf("weights %d, still mapped %d; file memory before %d, loaded %d, released %d", weights, n, before, loaded, released)
	// The library itself unmaps what lies before and behind the tensors that it
	// uses from the file; here the norms keep the matrices between them.
	if n < weights/8 || loaded-before < n/2 {
		t.Errorf("%d bytes of %d are mapped, %d of them resident: the library behaves otherwise than known", n, weights, loaded-before)
	}
	if kept := released - before; kept > weights/20 {
		t.Errorf("%d bytes of the files stay resident of %d", kept, weights)
	}
	// What is needed comes back: the stage runs.
	pool, err := s.NewPool(256, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Run(8, []exec.Work{{Hidden: make([]float32, 4*s.Width()), Logits: true}}); err != nil {
		t.Fatal(err)
	}
	if again := fileMemory(t) - before; again > weights/10 {
		t.Errorf("running brought %d bytes of files back of %d", again, weights)
	}
}

// fileMemory is what this process has of mapped files, in bytes.
func fileMemory(t *testing.T) int64 {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	figure := map[string]int64{}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) == 3 {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			figure[f[0]] = n << 10
		}
	}
	return figure["Rss:"] - figure["Anonymous:"]
}
