package exec_test

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"neuron/llama"
	"neuron/llama/cut"
	"neuron/llama/exec"
	"neuron/llama/gguf"
)

const (
	parityThreads = 1   // pinned: flash attention splits the cache by threads
	parityChunk   = 64  // pinned: 64 rows or more use one attention kernel
	parityCells   = 512 // pinned
)

// loadNative loads the pinned library or fails with how to get it.
func loadNative(t testing.TB) {
	t.Helper()
	dir, err := llama.NativeDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := llama.Load(dir); err != nil {
		t.Fatal(err)
	}
}

// chain is a route in one process: stages that hand rows on.
type chain struct {
	stages []*exec.Stage
	pools  []*exec.Pool
	exits  []int
}

func (c *chain) close() {
	for i := range c.stages {
		c.pools[i].Close()
		c.stages[i].Close()
	}
}

// run sends rows of one sequence through all stages and returns the tail's
// logits of every row.
func (c *chain) run(t testing.TB, seq, pos int, ids []int32) [][]float32 {
	t.Helper()
	return c.together(t, exec.Work{Seq: seq, Pos: int32(pos), IDs: ids})[0]
}

// together sends one call with parts of several sequences through all stages
// and returns the logits per part and row.
func (c *chain) together(t testing.TB, parts ...exec.Work) [][][]float32 {
	t.Helper()
	rows := make([]int, len(parts))
	for i := range parts {
		rows[i], parts[i].AllLogits = len(parts[i].IDs), true
	}
	for i, p := range c.pools {
		r, err := p.Run(c.exits[i], parts)
		if err != nil {
			t.Fatalf("stage %d: %v", i, err)
		}
		if i < len(c.pools)-1 {
			hidden := slices.Clone(r.Hidden)
			for j := range parts {
				n := rows[j] * c.stages[i].Width()
				parts[j].IDs, parts[j].Hidden = nil, hidden[:n:n]
				hidden = hidden[n:]
			}
			continue
		}
		out := make([][][]float32, len(parts))
		for j := range parts {
			for k := range rows[j] {
				l, err := p.Logits(r.Rows[j] + k)
				if err != nil {
					t.Fatal(err)
				}
				out[j] = append(out[j], slices.Clone(l))
			}
		}
		return out
	}
	return nil
}

func (c *chain) truncate(t testing.TB, seq, pos int) {
	t.Helper()
	for _, p := range c.pools {
		if err := p.Truncate(seq, int32(pos)); err != nil {
			t.Fatal(err)
		}
	}
}

// hop is a stage of a chain: what it loads and where it stops.
type hop struct{ first, last, exit int }

// hops are the stages that end at the given boundaries.
func hops(bounds ...int) []hop {
	out := make([]hop, len(bounds))
	first := 0
	for i, last := range bounds {
		out[i], first = hop{first, last, last}, last
	}
	return out
}

// whole loads the publisher's file as it is.
func whole(t testing.TB, path string, layers, seqs int) *chain {
	t.Helper()
	c := &chain{}
	c.add(t, exec.Config{Paths: []string{path}, Last: layers, Layers: layers, ExitNode: "l_out"}, layers, seqs)
	return c
}

// split loads stages of a shard folder.
func split(t testing.TB, store *cut.Store, route []hop, seqs int) *chain {
	t.Helper()
	c := &chain{}
	for _, h := range route {
		p, err := store.Prepare(h.first, h.last)
		if err != nil {
			t.Fatal(err)
		}
		c.add(t, exec.Config{
			Paths: p.Paths, Plan: p.Plan,
		}, h.exit, seqs)
		p.Release()
	}
	return c
}

// add loads one more stage with the pinned settings.
func (c *chain) add(t testing.TB, cfg exec.Config, exit, seqs int) {
	t.Helper()
	cfg.Threads, cfg.ChunkRows = parityThreads, parityChunk
	s, err := exec.Load(cfg)
	if err != nil {
		t.Fatalf("layers %d-%d: %v", cfg.First, cfg.Last, err)
	}
	p, err := s.NewPool(parityCells, seqs, exit != s.Config().Layers)
	if err != nil {
		s.Close()
		t.Fatalf("layers %d-%d: %v", cfg.First, cfg.Last, err)
	}
	c.stages, c.pools, c.exits = append(c.stages, s), append(c.pools, p), append(c.exits, exit)
}

func importAll(t testing.TB, path string) *cut.Store {
	t.Helper()
	src, err := gguf.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	layers, ok := src.Get(src.Meta().Architecture() + ".block_count")
	if !ok {
		t.Fatal("no block_count")
	}
	n, _ := layers.Int()
	store, err := cut.Import(context.Background(), src, "test-model", filepath.Join(t.TempDir(), "shard"), 0, int(n), nil)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func guidePath() string { return filepath.Join("..", "..", "assets", "model", "guide-q8_0.gguf") }

// prompt is a fixed sequence of ids that any vocabulary of 512 has.
func prompt(n int) []int32 {
	ids := make([]int32, n)
	x := uint32(12345)
	for i := range ids {
		x = x*1664525 + 1013904223
		ids[i] = int32(x>>16) % 500
	}
	return ids
}

// logitsOf runs a prompt in chunks and then greedy steps.
func logitsOf(t testing.TB, c *chain, seq int, ids []int32, steps int) (logits [][]float32, tokens []int32) {
	t.Helper()
	for pos := 0; pos < len(ids); pos += parityChunk {
		logits = append(logits, c.run(t, seq, pos, ids[pos:min(pos+parityChunk, len(ids))])...)
	}
	for i := range steps {
		next := argmax(logits[len(logits)-1])
		tokens = append(tokens, next)
		logits = append(logits, c.run(t, seq, len(ids)+i, []int32{next})...)
	}
	return logits, tokens
}

func argmax(v []float32) int32 {
	best := 0
	for i, x := range v {
		if x > v[best] {
			best = i
		}
	}
	return int32(best)
}

func maxDiff(a, b [][]float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	var most float64
	for i := range a {
		for j := range a[i] {
			if d := math.Abs(float64(a[i][j]) - float64(b[i][j])); d > most || math.IsNaN(d) {
				most = d
			}
		}
	}
	return most
}
