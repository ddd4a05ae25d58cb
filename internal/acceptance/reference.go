package acceptance

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"neuron/llama"
	"neuron/llama/cut"
	"neuron/llama/exec"
	"neuron/llama/gguf"
)

// Pinned settings of exactness: one thread, chunks of at least 64 rows, one
// sequence, equal cells.
const (
	pinThreads = 1
	pinChunk   = 64
	pinCells   = 512
	pinPrompt  = 128
	pinTokens  = 256
	pinTop     = 20
)

// chain is stages in this process, one behind the other.
type chain struct {
	stages []*exec.Stage
	pools  []*exec.Pool
}

func (c *chain) close() {
	for _, p := range c.pools {
		p.Close()
	}
	for _, s := range c.stages {
		s.Close()
	}
}

// add loads one more stage.
func (c *chain) add(paths []string, first, last, layers int, exit string) error {
	s, err := exec.Load(exec.Config{Paths: paths, First: first, Last: last, Layers: layers, ExitNode: exit, Threads: pinThreads, ChunkRows: pinChunk})
	if err != nil {
		return err
	}
	c.stages = append(c.stages, s)
	p, err := s.NewPool(pinCells, 1, !s.Tail())
	if err != nil {
		return err
	}
	c.pools = append(c.pools, p)
	return nil
}

// run sends rows through all stages; the result is the logits of the last row.
func (c *chain) run(pos int, ids []int32) ([]float32, error) {
	work := exec.Work{Pos: int32(pos), IDs: ids, Logits: true}
	for i, p := range c.pools {
		r, err := p.Run(c.stages[i].Config().Last, []exec.Work{work})
		if err != nil {
			return nil, fmt.Errorf("stage %d: %w", i, err)
		}
		if i == len(c.pools)-1 {
			l, err := p.Logits(r.Rows[0] + len(ids) - 1)
			return slices.Clone(l), err
		}
		work.IDs, work.Hidden = nil, slices.Clone(r.Hidden)
	}
	return nil, nil
}

// greedy is a greedy continuation with its logits, without end tokens.
type greedy struct {
	tokens []int32
	logits [][]float32 // before each token
}

func (c *chain) greedy(ids []int32, n int) (*greedy, error) {
	var g greedy
	var logits []float32
	var err error
	for pos := 0; pos < len(ids); pos += pinChunk {
		if logits, err = c.run(pos, ids[pos:min(pos+pinChunk, len(ids))]); err != nil {
			return nil, err
		}
	}
	v := c.stages[len(c.stages)-1].Model().Vocab()
	for i := range n {
		best := int32(-1)
		for id, x := range logits {
			if (best < 0 || x > logits[best]) && !v.IsEOG(int32(id)) {
				best = int32(id)
			}
		}
		g.tokens = append(g.tokens, best)
		g.logits = append(g.logits, logits)
		if i == n-1 {
			break
		}
		if logits, err = c.run(len(ids)+i, []int32{best}); err != nil {
			return nil, err
		}
	}
	return &g, nil
}

// diff is the largest difference of two runs' logits; it is infinite when they
// have other tokens.
func (g *greedy) diff(o *greedy) float64 {
	if !slices.Equal(g.tokens, o.tokens) {
		return math.Inf(1)
	}
	var most float64
	for i := range g.logits {
		for j := range g.logits[i] {
			most = max(most, math.Abs(float64(g.logits[i][j])-float64(o.logits[i][j])))
		}
	}
	return most
}

// reference is a model in this process, whole and as layer files.
type reference struct {
	store *cut.Store
	whole *greedy
	probs []*exec.Logprobs
	piece func(int32) ([]byte, error)
	chain *chain
}

func newReference(ctx context.Context, path, dir string) (_ *reference, err error) {
	native, err := llama.NativeDir()
	if err != nil {
		return nil, err
	}
	if err := llama.Load(native); err != nil {
		return nil, err
	}
	src, err := gguf.OpenModel(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	layers, _ := src.Get(src.Meta().Architecture() + ".block_count")
	n, ok := layers.Int()
	if !ok {
		return nil, fmt.Errorf("%s has no block count", path)
	}
	r := &reference{chain: &chain{}}
	if r.store, err = cut.Import(ctx, src, "reference", filepath.Join(dir, "reference"), 0, int(n), nil); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.chain.close()
		}
	}()
	if err := r.chain.add([]string{path}, 0, int(n), int(n), r.store.Model().Family().Exit); err != nil {
		return nil, err
	}
	if r.whole, err = r.chain.greedy(promptIDs(pinPrompt), pinTokens); err != nil {
		return nil, err
	}
	for _, l := range r.whole.logits {
		r.probs = append(r.probs, exec.NewLogprobs(l, pinTop))
	}
	v := r.chain.stages[0].Model().Vocab()
	r.piece = func(id int32) ([]byte, error) { return v.Piece(id, true) }
	return r, nil
}

func (r *reference) close() { r.chain.close() }

// cuts are all two-way cuts and two three-way ones, as boundaries.
func (r *reference) cuts() [][]int {
	m := r.store.Model()
	var out [][]int
	for e := 1; e < m.Layers; e++ {
		out = append(out, []int{e, m.Layers})
	}
	third := max(1, m.Layers/3)
	return append(out, []int{third, 2 * third, m.Layers}, []int{1, m.Layers - 1, m.Layers})
}

// inProcess runs the stages of a cut in this process and returns the largest
// difference of any logit of any step.
func (r *reference) inProcess(bounds []int) (float64, error) {
	c := &chain{}
	defer c.close()
	first := 0
	for _, last := range bounds {
		p, err := r.store.Prepare(first, last)
		if err != nil {
			return 0, err
		}
		err = c.add(p.Paths, first, last, r.store.Model().Layers, r.store.Model().Family().Exit)
		p.Release()
		if err != nil {
			return 0, err
		}
		first = last
	}
	g, err := c.greedy(promptIDs(pinPrompt), pinTokens)
	if err != nil {
		return 0, err
	}
	return r.whole.diff(g), nil
}
