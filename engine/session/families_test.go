package session_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"neuron/engine/protocol"
	"neuron/llama"
	"neuron/llama/archs"
	"neuron/llama/gguf"
)

// Routes of real stages behind real seams give the greedy tokens of the whole
// model, for families whose rows carry more than one stream, token ids, or
// choices of positions. The models are small and random; acceptance (AC-14) runs
// more of them over real nodes, and more cuts.
func TestFamiliesOverRealSeams(t *testing.T) {
	dir, err := llama.NativeDir()
	if err == nil {
		err = llama.Load(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arch  string
		cut   []int
		sides []string
	}{
		{"deepseek4", []int{1, 4}, []string{protocol.SidebandIDs}},
		{"glm-dsa", []int{3}, []string{protocol.SidebandTopK}},
	} {
		t.Run(c.arch, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.arch+".gguf")
			if err := archs.Write(path, c.arch, gguf.TypeF32, 7); err != nil {
				t.Fatal(err)
			}
			const tokens = 16
			prompt := make([]int32, 100)
			for i := range prompt {
				prompt[i] = int32(i*37%100) + 2
			}
			whole := newModelWorld(t, path, nil)
			w := newModelWorld(t, path, c.cut)
			if got := w.router.capab.Sidebands; !slices.Equal(got, c.sides) {
				t.Errorf("sidebands %v, want %v", got, c.sides)
			}
			// Two sessions at once: on each hop their rows share calls or not,
			// whatever they do on the others.
			other := slices.Clone(prompt[:70])
			refs := []*result{whole.must(greedy(prompt, tokens)), whole.must(greedy(other, tokens))}
			got, errs := make([]*result, 2), make([]error, 2)
			var both sync.WaitGroup
			for i, p := range [][]int32{prompt, other} {
				both.Go(func() { got[i], errs[i] = w.generate(greedy(p, tokens)) })
			}
			both.Wait()
			for i := range got {
				if errs[i] != nil {
					t.Fatal(errs[i])
				}
				same(t, fmt.Sprintf("session %d beside the other", i), refs[i].tokens, got[i].tokens)
			}
			// And alone, where every bit is the same.
			alone := w.must(greedy(prompt, tokens))
			for i, want := range refs[0].tokens {
				if got := alone.tokens[i]; got.ID != want.ID || got.Logprob != want.Logprob {
					t.Fatalf("token %d is %d (%g), the whole model's %d (%g)", i, got.ID, got.Logprob, want.ID, want.Logprob)
				}
			}
			w.empty()
		})
	}
}
