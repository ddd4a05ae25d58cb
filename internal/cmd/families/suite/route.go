package suite

import (
	"context"
	"errors"
	"math"
	"slices"

	"neuron/llama/exec"
)

// Settings of the routes here, the same for all that are compared.
const (
	routeChunk = 64
	routeCells = 512
)

// rows are what one run gave: the logits of every row and, behind the prompt, the
// token that is the likeliest after each.
type rows struct {
	logits [][]float32
	chosen []int32
}

// drive runs the prompt in chunks and then single steps over a route. The steps get the
// tokens of given, or without it the run's own choice.
func (v *vulkanRun) drive(ctx context.Context, hops []hop, ids, given []int32) (*rows, error) {
	r, err := v.open(hops)
	defer r.close()
	if err != nil {
		return nil, err
	}
	out := &rows{}
	pos := int32(0)
	step := func(part []int32) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		l, err := r.run(pos, part)
		pos += int32(len(part))
		out.logits = append(out.logits, l...)
		return err
	}
	for chunk := range slices.Chunk(ids, routeChunk) {
		if err := step(chunk); err != nil {
			return nil, err
		}
	}
	for i := range vulkanSteps {
		last := out.logits[len(out.logits)-1]
		out.chosen = append(out.chosen, int32(slices.Index(last, slices.Max(last))))
		next := out.chosen[i]
		if given != nil {
			next = given[i]
		}
		if err := step([]int32{next}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// route is a chain of loaded stages.
type route struct {
	stages []*exec.Stage
	pools  []*exec.Pool
}

func (r *route) close() {
	for _, p := range r.pools {
		p.Close()
	}
	for _, s := range r.stages {
		s.Close()
	}
}

// open loads the stages; what is open already comes back with the error.
func (v *vulkanRun) open(hops []hop) (*route, error) {
	r := &route{}
	first := 0
	for _, h := range hops {
		cfg := exec.Config{Threads: 1, ChunkRows: routeChunk}
		if h.gpu {
			cfg.Devices, cfg.GPULayers = v.dev, h.last-first
		}
		release := func() {}
		if first == 0 && h.last == v.m.Layers {
			st, err := v.m.Stage(0, h.last)
			if err != nil {
				return r, err
			}
			cfg.Paths, cfg.Plan = []string{v.path}, st.Plan
		} else {
			p, err := v.store.Prepare(first, h.last)
			if err != nil {
				return r, err
			}
			cfg.Paths, cfg.Plan, release = p.Paths, p.Plan, p.Release
		}
		s, err := exec.Load(cfg)
		release()
		if err != nil {
			return r, err
		}
		r.stages = append(r.stages, s)
		p, err := s.NewPool(routeCells, 1, !s.Tail())
		if err != nil {
			return r, err
		}
		r.pools = append(r.pools, p)
		first = h.last
	}
	return r, nil
}

// run sends rows of the one session through all stages, with the sidebands that they
// need, and gives the logits of each row.
func (r *route) run(pos int32, ids []int32) ([][]float32, error) {
	work := exec.Work{Pos: pos, IDs: ids, AllLogits: true}
	for i, p := range r.pools {
		s := r.stages[i]
		got, err := p.Run(s.Config().Last, []exec.Work{work})
		if err != nil {
			return nil, err
		}
		if s.Tail() {
			out := make([][]float32, len(ids))
			for j := range ids {
				l, err := p.Logits(got.Rows[0] + j)
				if err != nil {
					return nil, err
				}
				out[j] = slices.Clone(l)
			}
			return out, nil
		}
		work.IDs, work.Hidden, work.TopK = nil, slices.Clone(got.Hidden), nil
		if next := r.stages[i+1].Plan().In; next.IDs {
			work.IDs = ids
		} else if next.TopK > 0 {
			work.TopK = slices.Clone(got.TopK)
		}
	}
	return nil, errors.New("no stage is the tail")
}

// prompt is a fixed sequence of ids.
func prompt(n int) []int32 {
	ids := make([]int32, n)
	x := uint32(12345)
	for i := range ids {
		x = x*1664525 + 1013904223
		ids[i] = int32(x>>16) % 500
	}
	return ids
}

// maxDiff is the largest difference, infinite where one is no number.
func maxDiff(a, b [][]float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	var most float64
	for i := range a {
		for j := range a[i] {
			d := math.Abs(float64(a[i][j]) - float64(b[i][j]))
			if math.IsNaN(d) {
				return math.Inf(1)
			}
			most = max(most, d)
		}
	}
	return most
}

// spread is the largest distance of two logits of a row.
func spread(rows [][]float32) float64 {
	var most float64
	for _, r := range rows {
		most = max(most, float64(slices.Max(r))-float64(slices.Min(r)))
	}
	return most
}
