package parity

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"neuron/llama/cut"
	"neuron/llama/family"
	"neuron/llama/gguf"
)

// The pinned settings: what changes them moves logits in the last digits.
const (
	threads   = 1   // flash attention splits the cache by threads
	chunkRows = 64  // fewer rows use another attention kernel
	cells     = 512 // the cache's size decides how far kernels read
)

const (
	defaultPrompt = 150 // three chunks, the last one short
	defaultSteps  = 8
)

// checker is one check.
type checker struct {
	ctx   context.Context
	o     Options
	path  string
	store *cut.Store
	m     *family.Model
	r     *Report
}

func check(ctx context.Context, path string, o Options) (*Report, error) {
	if o.Prompt == 0 {
		o.Prompt = defaultPrompt
	}
	if o.Steps == 0 {
		o.Steps = defaultSteps
	}
	cutPath := path
	if o.Stages != "" {
		cutPath = o.Stages
	}
	src, err := gguf.OpenModel(cutPath)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	defer src.Close()
	m, err := family.Describe(src.Meta())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	mem := m.RangeMemory(0, m.Layers, 2)
	r := &Report{
		Arch: m.Arch, Layers: m.Layers, Width: m.Width(), WholeOnly: m.WholeOnly,
		KVBytesPerCell: mem.Cell(), StateBytes: mem.State,
	}
	if m.WholeOnly != "" {
		return r, nil
	}
	dir, err := os.MkdirTemp(o.Dir, "parity-")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	defer os.RemoveAll(dir)
	store, err := cut.Import(ctx, src, "parity", filepath.Join(dir, "shard"), 0, m.Layers, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	c := &checker{ctx: ctx, o: o, path: path, store: store, m: m, r: r}
	return r, c.run()
}

func (c *checker) failf(format string, args ...any) {
	c.r.Failures = append(c.r.Failures, fmt.Sprintf(format, args...))
}

// run compares all routes.
func (c *checker) run() error {
	for b := 1; b < c.m.Layers; b++ {
		c.noteSidebands(b)
	}
	routes := c.routes()
	want, err := c.reference()
	if err != nil {
		return err
	}
	for i, route := range routes {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		c.r.Routes++
		c.compare(route, want, !c.o.Quick && c.thorough(i, len(routes)))
	}
	return nil
}

func (c *checker) noteSidebands(b int) {
	s := c.m.Sideband(b)
	note := func(name string, is bool) {
		if is && !slices.Contains(c.r.Sidebands, name) {
			c.r.Sidebands = append(c.r.Sidebands, name)
		}
	}
	note("ids", s.IDs)
	note("top_k", s.TopK > 0)
}

// thorough reports whether sessions, truncation and state are tried on a route:
// on those in three and four, and a few in two.
func (c *checker) thorough(i, n int) bool {
	return i >= len(c.r.Cuts) || i == 0 || i == len(c.r.Cuts)/2 || i == len(c.r.Cuts)-1
}

// routes are all cuts in two, or some, and several in three and four. What may
// not be a stage is a failure: a certified family is cut at every layer, unless
// its table names a reason, which then stands in the report's figures.
func (c *checker) routes() [][]int {
	n := c.m.Layers
	var out [][]int
	legal := func(bounds ...int) bool {
		first := 0
		for _, b := range bounds {
			if b <= first || c.m.CheckRange(first, b) != nil {
				return false
			}
			first = b
		}
		return true
	}
	step := 1
	if c.o.Cuts > 0 && n-1 > c.o.Cuts {
		step = (n - 2 + c.o.Cuts) / c.o.Cuts
	}
	for b := 1; b < n; b += step {
		if err := c.m.CheckRange(0, b); err != nil {
			c.failf("cut at %d: %v", b, err)
			continue
		}
		if err := c.m.CheckRange(b, n); err != nil {
			c.failf("cut at %d: %v", b, err)
			continue
		}
		c.r.Cuts = append(c.r.Cuts, b)
		out = append(out, []int{b, n})
	}
	more := [][]int{{1, n - 1, n}, {n / 3, 2 * n / 3, n}, {1, 2, n}, {2, 3, n}, {1, 2, 3, n}, {n / 4, n / 2, 3 * n / 4, n}, {2, n - 2, n - 1, n}}
	for _, route := range more {
		known := slices.ContainsFunc(out, func(o []int) bool { return slices.Equal(o, route) })
		if legal(route...) && !known {
			out = append(out, route)
		}
	}
	return out
}

// prompt is a fixed sequence of ids that lie within the vocabulary.
func (c *checker) prompt(n int, seed uint32) []int32 {
	ids := make([]int32, n)
	x := seed
	for i := range ids {
		x = x*1664525 + 1013904223
		ids[i] = int32(x>>16) % int32(max(1, min(c.m.Vocab, 500)))
	}
	return ids
}

// results are logits by the part of the check that gave them.
type results struct {
	single   [][]float32 // prompt and decode of one session
	sessions [][]float32 // two interleaved
	resumed  [][]float32 // after truncation
	restored [][]float32 // after saving and restoring
	rewinds  bool
}

// reference runs the whole model.
func (c *checker) reference() (*results, error) {
	w, err := c.whole()
	if err != nil {
		return nil, fmt.Errorf("%w: the whole model does not load: %w", ErrModel, err)
	}
	defer w.close()
	out, err := c.drive(w, !c.o.Quick)
	if err != nil {
		return nil, fmt.Errorf("%w: the whole model does not run: %w", ErrModel, err)
	}
	c.r.Rewinds = out.rewinds
	for _, row := range out.single {
		for _, v := range row {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, fmt.Errorf("%w: the whole model gives %v", ErrModel, v)
			}
		}
	}
	return out, nil
}

// compare runs one route and notes what differs.
func (c *checker) compare(bounds []int, want *results, all bool) {
	route, err := c.cut(bounds)
	if err != nil {
		c.failf("stages %v do not load: %v", bounds, err)
		return
	}
	defer route.close()
	got, err := c.drive(route, all)
	if err != nil {
		c.failf("stages %v do not run: %v", bounds, err)
		return
	}
	c.differ(bounds, "prompt and decode", want.single, got.single)
	if !all {
		return
	}
	c.differ(bounds, "two sessions", want.sessions, got.sessions)
	c.differ(bounds, "saved and restored state", want.restored, got.restored)
	if want.rewinds != got.rewinds {
		c.failf("stages %v: rewinding possible %v, of the whole model %v", bounds, got.rewinds, want.rewinds)
		return
	}
	if want.rewinds {
		c.differ(bounds, "truncated and continued", want.resumed, got.resumed)
	}
}

func (c *checker) differ(bounds []int, what string, want, got [][]float32) {
	d := maxDiff(want, got)
	c.r.MaxDiff = max(c.r.MaxDiff, d)
	if d != 0 {
		c.failf("stages %v, %s: logits differ by %g", bounds, what, d)
	}
}

// maxDiff is the largest difference, infinite where there is a NaN or a row
// more.
func maxDiff(a, b [][]float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	var most float64
	for i := range a {
		if len(a[i]) != len(b[i]) {
			return math.Inf(1)
		}
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
