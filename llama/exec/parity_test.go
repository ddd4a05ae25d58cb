package exec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"neuron/llama/cut"
	"neuron/llama/exec"
	"neuron/llama/family"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// The tests of this file hold the claims of family's table: a route of stages
// gives bit for bit the logits of the whole model, with pinned settings.

const (
	parityPrompt = 150 // three chunks, the last one short
	paritySteps  = 8
)

// routes are the ways to cut a model that its family allows: in two at every
// layer, and in three.
func routes(m *family.Model) [][]hop {
	var out [][]hop
	for e := 1; e < m.Layers; e++ {
		out = append(out, hops(e, m.Layers))
	}
	third := max(1, m.Layers/3)
	out = append(out, hops(third, 2*third, m.Layers), hops(1, m.Layers-1, m.Layers))
	return slices.DeleteFunc(out, func(route []hop) bool {
		return slices.ContainsFunc(route, func(h hop) bool { return m.CheckRange(h.first, h.last) != nil })
	})
}

// checkParity compares the whole model with stages on all its routes and
// returns how many there were.
func checkParity(t *testing.T, path string) int {
	t.Helper()
	loadNative(t)
	store := importAll(t, path)
	m := store.Model()
	ref := whole(t, path, m.Layers, 1)
	ids := prompt(parityPrompt)
	want, _ := logitsOf(t, ref, 0, ids, paritySteps)
	ref.close()
	all := routes(m)
	for _, route := range all {
		c := split(t, store, route, 1)
		got, _ := logitsOf(t, c, 0, ids, paritySteps)
		c.close()
		if d := maxDiff(want, got); d != 0 {
			t.Errorf("stages %v: largest logit difference %g, want 0", route, d)
		}
	}
	return len(all)
}

// families are those that package synth writes; package parity has all others.
var families = []string{synth.FamilyGemma3, synth.FamilyLlama, synth.FamilyQwen2, synth.FamilyQwen3}

func TestParityGuideModelAtEveryCut(t *testing.T) {
	if n := checkParity(t, guidePath()); n != 9 { // 7 cuts of 8 layers, 2 in three
		t.Errorf("%d routes", n)
	}
}

// small is a model of a family that is large enough for its kernels: rows of
// 256 for the K-quants, two heads per key-value head.
func small(fam string) synth.Shape {
	s := synth.Shape{
		Family: fam, Layers: 5, Embd: 256, FF: 256, Heads: 4, KVHeads: 2, HeadDim: 64, Vocab: 512, Context: 2048,
	}
	if fam == synth.FamilyGemma3 {
		// Seven layers, so that both kinds of attention are in the model: five
		// of six slide.
		s.Layers, s.Tied, s.SlidingWindow = 7, true, 48
	}
	return s
}

func writeSynth(t testing.TB, s synth.Shape, typ gguf.Type) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), s.Family+".gguf")
	if err := synth.Write(path, s, synth.Options{Type: typ, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestParityOfFamilies(t *testing.T) {
	type variant struct {
		name   string
		change func(*synth.Shape)
		types  []gguf.Type
	}
	plain := []gguf.Type{gguf.TypeF32, gguf.TypeQ4_0, gguf.TypeQ8_0}
	tied := variant{"tied", func(s *synth.Shape) { s.Tied = true }, []gguf.Type{gguf.TypeQ8_0}}
	same := variant{"", func(*synth.Shape) {}, plain}
	variants := map[string][]variant{
		synth.FamilyLlama: {
			{"", func(*synth.Shape) {}, append(plain, gguf.TypeQ4_K)}, tied,
			{"llama3", func(s *synth.Shape) { s.RopeFreqs = true }, []gguf.Type{gguf.TypeQ4_0}},
		},
		synth.FamilyQwen2:  {same, tied},
		synth.FamilyQwen3:  {same, tied},
		synth.FamilyGemma3: {same, {"long", func(s *synth.Shape) { s.Layers = 13 }, []gguf.Type{gguf.TypeQ8_0}}},
	}
	for _, fam := range families {
		if variants[fam] == nil {
			t.Errorf("%s has no parity test", fam)
		}
		for _, v := range variants[fam] {
			for _, typ := range v.types {
				t.Run(fam+v.name+"/"+typ.String(), func(t *testing.T) {
					shape := small(fam)
					v.change(&shape)
					if n := checkParity(t, writeSynth(t, shape, typ)); n < shape.Layers {
						t.Errorf("only %d routes were legal", n)
					}
				})
			}
		}
	}
}

// TestParityOfEarlyExits stops stages before the end of what they loaded; the
// next one goes on there.
func TestParityOfEarlyExits(t *testing.T) {
	loadNative(t)
	for _, fam := range families {
		t.Run(fam, func(t *testing.T) {
			path := writeSynth(t, small(fam), gguf.TypeQ8_0)
			store := importAll(t, path)
			n := store.Model().Layers
			ref := whole(t, path, n, 1)
			ids := prompt(parityPrompt)
			want, _ := logitsOf(t, ref, 0, ids, paritySteps)
			ref.close()
			for _, route := range [][]hop{
				{{0, n, 2}, {2, n, n}},                // a tail that stops early
				{{0, 4, 1}, {1, n - 1, 3}, {3, n, n}}, // twice in a row
				{{0, 3, 1}, {1, n, n}},
			} {
				for _, h := range route {
					if !slices.Contains(store.Model().Exits(h.first, h.last), h.exit) {
						t.Fatalf("%v is not an exit", h)
					}
				}
				c := split(t, store, route, 1)
				got, _ := logitsOf(t, c, 0, ids, paritySteps)
				c.close()
				if d := maxDiff(want, got); d != 0 {
					t.Errorf("stages %v: largest logit difference %g, want 0", route, d)
				}
			}
		})
	}
}

// TestParityOfTwoSessionsInOnePool interleaves two sessions, then decodes both
// in one call, in the whole model and in stages: the same batches, so no
// difference. Alone, each session's rows up to the common call are the same too.
func TestParityOfTwoSessionsInOnePool(t *testing.T) {
	loadNative(t)
	for _, fam := range families {
		t.Run(fam, func(t *testing.T) {
			path := writeSynth(t, small(fam), gguf.TypeQ4_0)
			store := importAll(t, path)
			n := store.Model().Layers
			first, second := prompt(170), prompt(171)[1:101]
			run := func(c *chain) (a, b, both [][]float32) {
				defer c.close()
				a = append(a, c.run(t, 0, 0, first[:64])...)
				b = append(b, c.run(t, 1, 0, second[:64])...)
				a = append(a, c.run(t, 0, 64, first[64:128])...)
				b = append(b, c.run(t, 1, 64, second[64:])...)
				a = append(a, c.run(t, 0, 128, first[128:])...)
				b = append(b, c.run(t, 1, 100, []int32{7})...)
				for i := range 4 {
					r := c.together(t,
						exec.Work{Seq: 0, Pos: int32(170 + i), IDs: []int32{int32(11 + i)}},
						exec.Work{Seq: 1, Pos: int32(101 + i), IDs: []int32{int32(31 + i)}})
					both = append(both, r[0][0], r[1][0])
				}
				return a, b, both
			}
			wantA, wantB, wantBoth := run(whole(t, path, n, 2))
			gotA, gotB, gotBoth := run(split(t, store, hops(2, 4, n), 2))
			for name, d := range map[string]float64{
				"first": maxDiff(wantA, gotA), "second": maxDiff(wantB, gotB), "common calls": maxDiff(wantBoth, gotBoth),
			} {
				if d != 0 {
					t.Errorf("%s: largest logit difference %g, want 0", name, d)
				}
			}
			alone := whole(t, path, n, 2)
			defer alone.close()
			got, _ := logitsOf(t, alone, 0, first, 0)
			if d := maxDiff(wantA, got); d != 0 {
				t.Errorf("a session beside another one differs from itself alone by %g", d)
			}
		})
	}
}

// TestKVBytesPerCell compares what the planner counts with what the library
// keeps for a position: its state grows by the rows of keys and values, and by
// at most 16 bytes for the position itself.
func TestKVBytesPerCell(t *testing.T) {
	loadNative(t)
	for _, fam := range families {
		t.Run(fam, func(t *testing.T) {
			store := importAll(t, writeSynth(t, small(fam), gguf.TypeQ8_0))
			c := split(t, store, []hop{{0, 3, 3}}, 1)
			defer c.close()
			grow := func(pos, n int) int {
				if _, err := c.pools[0].Run(3, []exec.Work{{Pos: int32(pos), IDs: prompt(n)}}); err != nil {
					t.Fatal(err)
				}
				return c.pools[0].Context().SeqStateSize(0)
			}
			before := grow(0, 8)
			const more = 24 // within the window of gemma3
			perCell := (grow(8, more) - before) / more
			want := int(store.Model().KVBytesPerCell(0, 3, 2))
			if over := perCell - want; over < 0 || over > 2*16 { // two caches with sliding layers
				t.Errorf("%d bytes per position, planned %d", perCell, want)
			}
		})
	}
}

// TestTruncateAndContinue forgets an answer and says something else: as if the
// forgotten part had never been.
func TestTruncateAndContinue(t *testing.T) {
	loadNative(t)
	for _, fam := range families {
		t.Run(fam, func(t *testing.T) {
			path := writeSynth(t, small(fam), gguf.TypeQ8_0)
			store := importAll(t, path)
			n := store.Model().Layers
			ids := prompt(200)
			fresh := whole(t, path, n, 1)
			logitsOf(t, fresh, 0, ids[:128], 0)
			want := fresh.run(t, 0, 128, ids[150:190])
			want = append(want, fresh.run(t, 0, 168, []int32{9})...)
			fresh.close()

			c := split(t, store, hops(2, n), 1)
			defer c.close()
			logitsOf(t, c, 0, ids[:140], 5)
			c.truncate(t, 0, 128)
			got := c.run(t, 0, 128, ids[150:190])
			got = append(got, c.run(t, 0, 168, []int32{9})...)
			if d := maxDiff(want, got); d != 0 {
				t.Errorf("largest logit difference %g, want 0", d)
			}
		})
	}
}

// TestTruncateBehindTheWindowIsRefused: a sliding layer keeps only its window
// (swa_full is false), so going back further would attend to nothing, without
// an error of the library.
func TestTruncateBehindTheWindowIsRefused(t *testing.T) {
	loadNative(t)
	shape := small(synth.FamilyGemma3)
	path := writeSynth(t, shape, gguf.TypeQ8_0)
	c := whole(t, path, shape.Layers, 1)
	defer c.close()
	ids := prompt(500)
	logitsOf(t, c, 0, ids, 0)
	if err := c.pools[0].Truncate(0, 128); !errors.Is(err, exec.ErrWindow) {
		t.Fatalf("error %v, want ErrWindow", err)
	}
	// Within what the window still holds it works.
	c.truncate(t, 0, 448)
	c.run(t, 0, 448, ids[:20])
	// And to the beginning, where nothing is needed.
	c.truncate(t, 0, 0)
	got, _ := logitsOf(t, c, 0, ids[:128], 0)
	fresh := whole(t, path, shape.Layers, 1)
	defer fresh.close()
	want, _ := logitsOf(t, fresh, 0, ids[:128], 0)
	if d := maxDiff(want, got); d != 0 {
		t.Errorf("after a restart: largest logit difference %g, want 0", d)
	}
}

func sharedFile(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("NEURON_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(dir, "testdata", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("NOT TESTED: no %s (set NEURON_SHARED)", path)
	}
	return path
}

// TestStories260K is a trained model of another author with greedy answers
// that were computed elsewhere.
func TestStories260K(t *testing.T) {
	path := sharedFile(t, "gguf/stories260K.gguf")
	raw, err := os.ReadFile(sharedFile(t, "gguf/stories260K.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Greedy []struct {
			Prompt    string  `json:"prompt"`
			PromptIDs []int32 `json:"prompt_ids"`
			OutputIDs []int32 `json:"output_ids"`
		} `json:"greedy"`
	}
	if err := json.Unmarshal(raw, &golden); err != nil || len(golden.Greedy) == 0 {
		t.Fatalf("golden file: %v, %d answers", err, len(golden.Greedy))
	}
	if n := checkParity(t, path); n < 4 {
		t.Errorf("%d routes", n)
	}
	store := importAll(t, path)
	c := split(t, store, hops(2, 3, 5), 1)
	defer c.close()
	for _, g := range golden.Greedy {
		c.truncate(t, 0, 0)
		_, got := logitsOf(t, c, 0, g.PromptIDs, len(g.OutputIDs))
		if !slices.Equal(got, g.OutputIDs) {
			t.Errorf("%.40q: got %v, want %v", g.Prompt, got, g.OutputIDs)
		}
	}
}

// TestLoadRefusesWhatItCannotRun covers the checks in front of the library.
func TestLoadRefusesWhatItCannotRun(t *testing.T) {
	loadNative(t)
	good := exec.Config{Paths: []string{guidePath()}, Last: 8, Layers: 8, ExitNode: "l_out", Threads: 1, ChunkRows: 64}
	for name, change := range map[string]func(*exec.Config){
		"no threads":       func(c *exec.Config) { c.Threads = 0 },
		"no chunk":         func(c *exec.Config) { c.ChunkRows = 0 },
		"no paths":         func(c *exec.Config) { c.Paths = nil },
		"empty range":      func(c *exec.Config) { c.First = 8 },
		"behind the model": func(c *exec.Config) { c.Last = 9 },
		"other layers":     func(c *exec.Config) { c.Layers, c.Last = 12, 12 },
		"missing file":     func(c *exec.Config) { c.Paths = []string{filepath.Join(t.TempDir(), "no.gguf")} },
	} {
		c := good
		change(&c)
		if s, err := exec.Load(c); err == nil {
			s.Close()
			t.Errorf("%s: loaded", name)
		}
	}
	s, err := exec.Load(good)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, a := range map[string]struct{ cells, seqs int }{"no cells": {0, 1}, "no sequences": {256, 0}, "many sequences": {256, 257}} {
		if p, err := s.NewPool(a.cells, a.seqs, false); !errors.Is(err, exec.ErrBatch) {
			if err == nil {
				p.Close()
			}
			t.Errorf("pool with %s: error %v", name, err)
		}
	}
}

// TestRunRefusesIllegalCalls: what libllama would abort on, reorder or misread
// never reaches it, and the pool works on.
func TestRunRefusesIllegalCalls(t *testing.T) {
	c := guideChain(t, 3)
	defer c.close()
	p := c.pools[0]
	row := func(seq int, pos int32, ids ...int32) exec.Work { return exec.Work{Seq: seq, Pos: pos, IDs: ids} }
	for name, a := range map[string]struct {
		exit int
		work []exec.Work
	}{
		"nothing":           {8, nil},
		"no rows":           {8, []exec.Work{row(0, 0)}},
		"gap":               {8, []exec.Work{row(0, 0, 1), row(2, 0, 1)}},
		"descending":        {8, []exec.Work{row(1, 0, 1), row(0, 0, 1)}},
		"unequal":           {8, []exec.Work{row(0, 0, 1), row(1, 0, 1, 2)}},
		"too many rows":     {8, []exec.Work{row(0, 0, make([]int32, 65)...)}},
		"unknown sequence":  {8, []exec.Work{row(3, 0, 1)}},
		"negative sequence": {8, []exec.Work{row(-1, 0, 1)}},
		"negative position": {8, []exec.Work{row(0, -1, 1)}},
		"behind the cells":  {8, []exec.Work{row(0, parityCells, 1)}},
		"unknown token":     {8, []exec.Work{row(0, 0, 1<<30)}},
		"negative token":    {8, []exec.Work{row(0, 0, -1)}},
		"hidden for a head": {8, []exec.Work{{Hidden: make([]float32, c.stages[0].Width())}}},
		"exit of a tail":    {4, []exec.Work{row(0, 0, 1)}},
		"exit behind":       {9, []exec.Work{row(0, 0, 1)}},
	} {
		if _, err := p.Run(a.exit, a.work); !errors.Is(err, exec.ErrBatch) {
			t.Errorf("%s: error %v, want ErrBatch", name, err)
		}
	}
	if err := p.Clear(3); !errors.Is(err, exec.ErrBatch) {
		t.Errorf("clear of an unknown sequence: %v", err)
	}
	if err := p.Truncate(-1, 0); !errors.Is(err, exec.ErrBatch) {
		t.Errorf("truncate of an unknown sequence: %v", err)
	}
	if _, err := p.Run(8, []exec.Work{row(0, 0, 1, 2, 3)}); err != nil {
		t.Errorf("a good call after bad ones: %v", err)
	}
}

// TestAbortInterrupts: an armed abort ends a call with its own error, and after
// it is lifted and the positions are forgotten, the sequence works again.
func TestAbortInterrupts(t *testing.T) {
	c := guideChain(t, 1)
	defer c.close()
	p := c.pools[0]
	ids := prompt(64)
	want, _ := logitsOf(t, c, 0, ids, 0)
	c.truncate(t, 0, 0)
	p.Abort(true)
	if _, err := p.Run(8, []exec.Work{{IDs: ids}}); !errors.Is(err, exec.ErrAborted) {
		t.Fatalf("error %v, want ErrAborted", err)
	}
	p.Abort(false)
	c.truncate(t, 0, 0)
	got, _ := logitsOf(t, c, 0, ids, 0)
	if d := maxDiff(want, got); d != 0 {
		t.Errorf("after an abort: largest logit difference %g, want 0", d)
	}
}

func guideChain(t *testing.T, seqs int) *chain {
	t.Helper()
	loadNative(t)
	return whole(t, guidePath(), 8, seqs)
}

// TestTwoStagesOfOneFolderLoadTogether: one folder, two roles at once, which
// share layer files but not headers: the second load waits for the first.
func TestTwoStagesOfOneFolderLoadTogether(t *testing.T) {
	loadNative(t)
	store := importAll(t, guidePath())
	var fromTwo, fromThree *chain
	done := make(chan struct{})
	go func() {
		defer close(done)
		fromThree = tryChain(store, hop{3, 8, 8})
	}()
	fromTwo = tryChain(store, hop{2, 7, 7})
	<-done
	if fromTwo == nil || fromThree == nil {
		t.Fatal("a stage did not load")
	}
	fromTwo.close()
	fromThree.close()
}

// tryChain is split without a testing.TB, for other goroutines.
func tryChain(store *cut.Store, h hop) *chain {
	p, err := store.Prepare(h.first, h.last)
	if err != nil {
		return nil
	}
	defer p.Release()
	s, err := exec.Load(exec.Config{
		Paths: p.Paths, First: h.first, Last: h.last, Layers: 8, ExitNode: "l_out", Threads: parityThreads, ChunkRows: parityChunk,
	})
	if err != nil {
		return nil
	}
	pool, err := s.NewPool(256, 1, h.exit != 8)
	if err != nil {
		s.Close()
		return nil
	}
	return &chain{stages: []*exec.Stage{s}, pools: []*exec.Pool{pool}, exits: []int{h.exit}}
}

func (h hop) String() string { return fmt.Sprintf("[%d,%d)->%d", h.first, h.last, h.exit) }
