package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"neuron/llama"
	"neuron/llama/cut"
	"neuron/llama/exec"
	"neuron/llama/gguf"
)

// chain is the whole model in two stages of this process, of which one hands its
// rows to the other: what a cut costs without seams and processes.
type chain struct {
	dir    string
	stages [2]*exec.Stage
	pools  [2]*exec.Pool
	greedy llama.Sampler
	pos    int32
	next   [1]int32
}

// loadChain cuts the model in the middle, into a folder that close removes, and
// makes room for so many cells.
func (r *run) loadChain(ctx context.Context, cells int) (_ *chain, err error) {
	defer r.starting()()
	c := &chain{dir: filepath.Join(r.o.Dir, "chain"), greedy: llama.NewChain()}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if err := c.greedy.Add(llama.Greedy()); err != nil {
		return nil, err
	}
	m, err := gguf.OpenModel(r.model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	layers := r.s.shape.Layers
	store, err := cut.Import(ctx, m, "bench", c.dir, 0, layers, nil)
	if err != nil {
		return nil, err
	}
	for i, at := range [2][2]int{{0, layers / 2}, {layers / 2, layers}} {
		p, err := store.Prepare(at[0], at[1])
		if err != nil {
			return nil, err
		}
		c.stages[i], err = exec.Load(exec.Config{
			Paths: p.Paths, Plan: p.Plan, First: at[0], Last: at[1], Layers: layers, ExitNode: "l_out", Threads: r.s.threads, ChunkRows: r.s.chunk,
		})
		p.Release()
		if err != nil {
			return nil, err
		}
		if c.pools[i], err = c.stages[i].NewPool(cells, 1, i == 0); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *chain) close() error {
	c.greedy.Free()
	for i := range c.stages {
		if c.pools[i] != nil {
			c.pools[i].Close()
		}
		if c.stages[i] != nil {
			c.stages[i].Close()
		}
	}
	return os.RemoveAll(c.dir)
}

// run is one call of each stage.
func (c *chain) run(ids []int32) error {
	head, err := c.pools[0].Run(c.stages[0].Config().Last, []exec.Work{{Pos: c.pos, IDs: ids}})
	if err != nil {
		return err
	}
	tail, err := c.pools[1].Run(c.stages[1].Config().Last, []exec.Work{{Pos: c.pos, Hidden: head.Hidden, Logits: true}})
	if err != nil {
		return err
	}
	c.pos += int32(len(ids))
	c.next[0], err = c.greedy.Sample(c.pools[1].Context(), tail.Rows[0]+len(ids)-1)
	return err
}

// prefill starts over with a prompt.
func (c *chain) prefill(ids []int32, chunk int) error {
	for _, p := range c.pools {
		if err := p.Clear(0); err != nil {
			return err
		}
	}
	c.pos = 0
	for part := range slices.Chunk(ids, chunk) {
		if err := c.run(part); err != nil {
			return err
		}
	}
	return nil
}

// decode makes so many steps and says how long they took.
func (c *chain) decode(steps int) (time.Duration, error) {
	defer bare()()
	began := time.Now()
	for range steps {
		if err := c.run(c.next[:]); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
