package parity

import (
	"errors"
	"fmt"
	"slices"

	"neuron/llama/exec"
)

// sessions is how many sequences a route has.
const sessions = 2

// chain is a route in one process: stages that hand rows on.
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

// whole loads the publisher's file.
func (c *checker) whole() (*chain, error) {
	st, err := c.m.Stage(0, c.m.Layers)
	if err != nil {
		return nil, err
	}
	out := &chain{}
	if err := out.add(exec.Config{Paths: []string{c.path}, Plan: st.Plan}); err != nil {
		out.close()
		return nil, err
	}
	return out, nil
}

// cut loads stages that end at the given boundaries.
func (c *checker) cut(bounds []int) (*chain, error) {
	out := &chain{}
	first := 0
	for _, last := range bounds {
		p, err := c.store.Prepare(first, last)
		if err != nil {
			out.close()
			return nil, err
		}
		c.r.Pads = max(c.r.Pads, p.Plan.Front+p.Plan.Back)
		err = out.add(exec.Config{Paths: p.Paths, Plan: p.Plan})
		p.Release()
		if err != nil {
			out.close()
			return nil, fmt.Errorf("layers %d-%d: %w", first, last, err)
		}
		first = last
	}
	return out, nil
}

// add loads one more stage with the pinned settings.
func (c *chain) add(cfg exec.Config) error {
	cfg.Threads, cfg.ChunkRows = threads, chunkRows
	s, err := exec.Load(cfg)
	if err != nil {
		return err
	}
	c.stages = append(c.stages, s)
	p, err := s.NewPool(cells, sessions, !s.Tail())
	if err != nil {
		return err
	}
	c.pools = append(c.pools, p)
	return nil
}

// run sends one call with parts of several sequences through all stages and
// returns the logits of each row.
func (c *chain) run(parts ...exec.Work) ([][]float32, error) {
	ids := make([][]int32, len(parts))
	for i := range parts {
		ids[i], parts[i].AllLogits = parts[i].IDs, true
	}
	for i, p := range c.pools {
		s := c.stages[i]
		r, err := p.Run(s.Config().Last, parts)
		if err != nil {
			return nil, fmt.Errorf("stage %d: %w", i, err)
		}
		if s.Tail() {
			return logits(p, r, ids)
		}
		hidden, chosen := slices.Clone(r.Hidden), slices.Clone(r.TopK)
		next := c.stages[i+1].Plan().In
		for j := range parts {
			n := len(ids[j])
			w := n * s.Width()
			parts[j].IDs, parts[j].Hidden, hidden = nil, hidden[:w:w], hidden[w:]
			if next.IDs {
				parts[j].IDs = ids[j]
			}
			if k := n * next.TopK; k > 0 {
				if len(chosen) < k {
					return nil, errors.New("the sender gave no choice of positions")
				}
				parts[j].TopK, chosen = chosen[:k:k], chosen[k:]
			} else {
				parts[j].TopK = nil
			}
		}
	}
	return nil, errors.New("no stage is the tail")
}

func logits(p *exec.Pool, r *exec.Result, ids [][]int32) ([][]float32, error) {
	var out [][]float32
	for j := range ids {
		for k := range ids[j] {
			l, err := p.Logits(r.Rows[j] + k)
			if err != nil {
				return nil, err
			}
			out = append(out, slices.Clone(l))
		}
	}
	return out, nil
}

// truncate forgets positions on all stages; not ok when the memory cannot.
func (c *chain) truncate(seq, pos int) (ok bool) {
	for _, p := range c.pools {
		if p.Truncate(seq, int32(pos)) != nil {
			return false
		}
	}
	return true
}

func (c *chain) clear(seq int) error {
	for _, p := range c.pools {
		if err := p.Clear(seq); err != nil {
			return err
		}
	}
	return nil
}

// save takes the state of a sequence out of all stages.
func (c *chain) save(seq int) ([][]byte, error) {
	out := make([][]byte, len(c.pools))
	for i, p := range c.pools {
		buf := make([]byte, p.Context().SeqStateSize(int32(seq)))
		n, err := p.Context().SeqStateGet(int32(seq), buf)
		if err != nil {
			return nil, fmt.Errorf("save stage %d: %w", i, err)
		}
		out[i] = buf[:n]
	}
	return out, nil
}

func (c *chain) restore(seq int, state [][]byte) error {
	for i, p := range c.pools {
		if err := p.Context().SeqStateSet(int32(seq), state[i]); err != nil {
			return fmt.Errorf("restore stage %d: %w", i, err)
		}
	}
	return nil
}
