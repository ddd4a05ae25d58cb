package torch

import (
	"errors"
	"fmt"
	"math"

	"neuron/llama"
	"neuron/llama/exec"
	"neuron/llama/gguf"
)

// What is compared of a model: rows of the prompt's chunks, and each decode step.
const (
	chunk  = 64
	chunks = 2
	steps  = 48
	cells  = 256
)

// How a model is computed on our side.
type mode int

const (
	// exact keeps keys and values in float32 and attends without the fused
	// kernel, so that both sides differ by little but the order of sums.
	exact mode = iota
	// route computes as a stage does, which is what a one-hop route gives: AC-07
	// holds routes of real nodes against the same calls, bit by bit.
	route
)

// Tolerances, as parts of the logits' own spread (root mean square around their
// mean). Weights are the same float32 numbers on both sides.
//
//   - exact: what is left are orders of sums, about 1e-6 of each intermediate
//     value (0.00001 to 0.00004 of the spread were measured).
//   - Gemma, exact: the library looks its activation up in a table of half
//     precision, so that each value is off by up to 2^-12 (0.024 %); a layer adds a
//     row of them to the stream, which comes to 0.0015 to 0.002 in six layers.
//   - route: keys, values and attention's sums have half precision, so that each
//     element is off by up to 2^-11 (0.05 %) and every layer adds its part; the
//     largest of some ten thousand logits lies four to five deviations out. Eight
//     layers come to 0.5 %, with soft caps or a window to three times that.
//   - Q8_0: besides, the library rounds the rows that it multiplies with to 8 bits
//     per block of 32, 1/254 (0.4 %) of the block's largest, in each of seven
//     products per layer.
//
// Mixed experts are compared exactly alone: which experts a token gets is a step,
// and half precision may take it on the other side for a row. Of them a route has
// to choose the same best token nine times in ten.
//
// A mistake is far from all that: logits of the row before differ by more than
// their whole spread (see the test).
const (
	toleranceExact = 0.0002
	toleranceTable = 0.005
	toleranceRoute = 0.03
	toleranceQ8    = 0.25
)

// result is how two sets of logits differ.
type result struct {
	abs, rel float64 // largest difference, and over the spread
	rows     int
	agree    int // rows with the same best token
	// wrong are rows with another best token though the reference's gap between
	// its two best exceeds twice the largest difference.
	wrong int
}

// compare holds ours against the reference's, row by row.
func compare(ours, theirs [][]float32) (result, error) {
	r := result{rows: len(ours)}
	var spread float64
	for i := range ours {
		if len(ours[i]) != len(theirs[i]) {
			return r, fmt.Errorf("%d and %d logits", len(ours[i]), len(theirs[i]))
		}
		spread += deviation(theirs[i]) / float64(len(ours))
		for j := range ours[i] {
			d := math.Abs(float64(ours[i][j]) - float64(theirs[i][j]))
			if math.IsNaN(d) {
				return r, fmt.Errorf("logit %d of row %d is no number", j, i)
			}
			r.abs = max(r.abs, d)
		}
	}
	r.rel = r.abs / spread
	for i := range ours {
		best, gap := top(theirs[i])
		if b, _ := top(ours[i]); b == best {
			r.agree++
		} else if gap > 2*r.abs {
			r.wrong++
		}
	}
	return r, nil
}

func (r result) check(tolerance float64) error {
	switch {
	case r.wrong > 0:
		return fmt.Errorf("%d of %d greedy tokens differ beyond the error of the logits (%.3g)", r.wrong, r.rows, r.abs)
	case r.rel > tolerance:
		return fmt.Errorf("logits differ by up to %.3g, %.4f of their spread, %.4f are allowed", r.abs, r.rel, tolerance)
	}
	return nil
}

// mostly holds a run whose rows may be far apart to its tokens.
func (r result) mostly() error {
	if r.agree*10 < r.rows*9 {
		return fmt.Errorf("%d of %d greedy tokens agree, 9 in 10 have to", r.agree, r.rows)
	}
	return nil
}

// deviation is the root mean square around the mean.
func deviation(v []float32) float64 {
	var sum, square float64
	for _, x := range v {
		sum += float64(x)
		square += float64(x) * float64(x)
	}
	n := float64(len(v))
	return math.Sqrt(max(0, square/n-sum*sum/n/n))
}

// top is the best token and how far the next one is behind.
func top(v []float32) (best int, gap float64) {
	second := math.Inf(-1)
	for i, x := range v {
		switch {
		case x > v[best] || i == 0:
			if i > 0 {
				second = float64(v[best])
			}
			best = i
		case float64(x) > second:
			second = float64(x)
		}
	}
	return best, float64(v[best]) - second
}

// run is a model computed on our side.
type run struct {
	ids    []int32 // the prompt and the greedy tokens behind it
	rows   []int   // positions whose logits are kept
	logits [][]float32
}

// computer computes rows of a model and gives the logits of the last one.
type computer interface {
	compute(pos int, ids []int32) ([]float32, error)
	close()
}

// ours computes the prompt, chunk by chunk, and greedy tokens behind it.
func ours(path string, m mode, prompt []int32) (_ *run, err error) {
	c, err := newComputer(path, m)
	if err != nil {
		return nil, err
	}
	defer c.close()
	out := &run{ids: append([]int32{}, prompt...)}
	call := func(pos int) error {
		part := out.ids[pos:min(pos+chunk, len(out.ids))]
		l, err := c.compute(pos, part)
		if err != nil {
			return err
		}
		out.rows = append(out.rows, pos+len(part)-1)
		out.logits = append(out.logits, append([]float32{}, l...))
		return nil
	}
	for pos := 0; pos < len(prompt); pos += chunk {
		if err := call(pos); err != nil {
			return nil, err
		}
	}
	for range steps {
		best, _ := top(out.logits[len(out.logits)-1])
		out.ids = append(out.ids, int32(best))
		if err := call(len(out.ids) - 1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func newComputer(path string, m mode) (computer, error) {
	if m == route {
		return newStage(path)
	}
	return newContext(path)
}

// stage is a stage with the whole model, as a one-hop route has it.
type stage struct {
	stage *exec.Stage
	pool  *exec.Pool
}

func newStage(path string) (*stage, error) {
	m, err := gguf.OpenModel(path)
	if err != nil {
		return nil, err
	}
	v, _ := m.Meta().Get(m.Meta().Architecture() + ".block_count")
	layers, ok := v.Int()
	if err := m.Close(); err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("no block count")
	}
	s, err := exec.Load(exec.Config{Paths: []string{path}, Last: int(layers), Layers: int(layers), ExitNode: "l_out", Threads: 1, ChunkRows: chunk})
	if err != nil {
		return nil, err
	}
	p, err := s.NewPool(cells, 1, false)
	if err != nil {
		s.Close()
		return nil, err
	}
	return &stage{s, p}, nil
}

func (s *stage) close() {
	s.pool.Close()
	s.stage.Close()
}

func (s *stage) compute(pos int, ids []int32) ([]float32, error) {
	r, err := s.pool.Run(s.stage.Config().Last, []exec.Work{{Pos: int32(pos), IDs: ids, Logits: true}})
	if err != nil {
		return nil, err
	}
	return s.pool.Logits(r.Rows[0] + len(ids) - 1)
}

// bare is the library's own context with everything in float32.
type bare struct {
	model llama.Model
	ctx   llama.Context
	batch *llama.Batch
}

func newContext(path string) (_ *bare, err error) {
	b := new(bare)
	if b.model, err = llama.LoadModel([]string{path}, llama.ModelParams{}); err != nil {
		return nil, err
	}
	b.ctx, err = llama.NewContext(b.model, llama.ContextParams{
		NCtx: cells, NBatch: chunk, NUBatch: chunk, NSeqMax: 1, NOutputsMax: chunk, Threads: 1, ThreadsBatch: 1,
		FlashAttn: llama.FlashOff, TypeK: llama.KVTypeF32, TypeV: llama.KVTypeF32, NoPerf: true,
	})
	if err == nil {
		b.batch, err = llama.NewBatch(chunk, 0)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bare) close() {
	if b.batch != nil {
		b.batch.Free()
	}
	if b.ctx != 0 {
		b.ctx.Free()
	}
	b.model.Free()
}

func (b *bare) compute(pos int, ids []int32) ([]float32, error) {
	b.batch.Reset()
	for i, id := range ids {
		if err := b.batch.AddToken(id, int32(pos+i), 0, i == len(ids)-1); err != nil {
			return nil, err
		}
	}
	if err := b.ctx.Decode(b.batch); err != nil {
		return nil, err
	}
	return b.ctx.Logits(len(ids) - 1)
}

// against compares a run with the reference's logits of the same tokens.
func (o *run) against(r *reference) (result, error) {
	all, err := r.logits(o.ids)
	if err != nil {
		return result{}, err
	}
	theirs := make([][]float32, len(o.rows))
	for i, pos := range o.rows {
		theirs[i] = all[pos]
	}
	return compare(o.logits, theirs)
}

// loadLibrary loads libllama into this process.
func loadLibrary() error {
	dir, err := llama.NativeDir()
	if err != nil {
		return err
	}
	return llama.Load(dir)
}
