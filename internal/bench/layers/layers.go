// Package layers measures real-size layers of large models with random weights
// on this machine: the time of a decode step and of a chunk of 512 rows in one
// layer, and the KV memory that the library really takes. internal/cmd/shapes
// is its only user.
package layers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"neuron/engine/probe"
	"neuron/internal/shapes"
	"neuron/internal/stopwatch"
	"neuron/llama"
)

// What a run does.
const (
	chunk   = shapes.ChunkRows
	threads = 1
	steps   = 24 // decode steps of a run
	cells   = 4096
)

// Options of Measure.
type Options struct {
	Shape  *shapes.Shape
	Recipe shapes.Recipe
	Dir    string // for the file of weights, which is removed again; some 10 GB
	Runs   int    // the best one counts
	// Before is what an earlier call of the same day has measured here; it is
	// completed. Save keeps what there is after each kind of layer.
	Before *shapes.Measured
	Save   func(*shapes.Measured) error
	Out    io.Writer
}

// Measure times the kinds of layers of a shape: models of a few layers are
// computed whole, and what they differ by is a layer. What counts is the time
// that the processor spends on a call, of steps the lower quartile, and the best
// of all runs: other work on the machine only makes them slower.
func Measure(ctx context.Context, o Options) (*shapes.Measured, error) {
	if err := load(); err != nil {
		return nil, err
	}
	h, err := probe.Read()
	if err != nil {
		return nil, err
	}
	m := &shapes.Measured{
		Recipe: o.Recipe.Name, Date: time.Now().UTC().Format(time.DateOnly), Machine: h.String(), Llama: llama.Version(), CPU: llama.CPUVariant(),
		Threads: threads, Runs: o.Runs, Layers: map[string]shapes.LayerTime{},
	}
	if old := o.Before; old != nil && old.Date == m.Date && old.Machine == m.Machine && old.Llama == m.Llama && old.CPU == m.CPU && old.Threads == m.Threads {
		m.Layers, m.Runs = old.Layers, min(old.Runs, m.Runs)
	}
	for _, g := range o.Shape.Groups() {
		if _, ok := m.Layers[g.Kind]; ok {
			continue
		}
		t, err := o.group(ctx, g.Layers)
		if err != nil {
			return nil, fmt.Errorf("layers %v: %w", g.Layers, err)
		}
		known := shapes.LayerTime{}
		for _, k := range g.Known {
			known = known.Plus(m.Layers[k])
		}
		m.Layers[g.Kind] = t.Minus(known).Over(g.Times)
		fmt.Fprintf(o.Out, "%s %s, %s: step %s, chunk of %d %s\n", o.Shape.Name, o.Recipe.Name, g.Kind, m.Layers[g.Kind].Step, chunk, m.Layers[g.Kind].Chunk)
		if err := o.Save(m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func load() error {
	dir, err := llama.NativeDir()
	if err != nil {
		return err
	}
	llama.SetLog(func(llama.LogLevel, string) {})
	return llama.Load(dir)
}

// group times a model of the given layers, all together.
func (o *Options) group(ctx context.Context, list []int) (best shapes.LayerTime, err error) {
	path := filepath.Join(o.Dir, o.Shape.Name+".gguf")
	if err := o.Shape.WriteLayers(ctx, path, o.Recipe, list, 1); err != nil {
		return best, err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	c, err := newComputer(path)
	if err != nil {
		return best, err
	}
	defer c.close()
	want := int64(0)
	for _, i := range list {
		want += o.Shape.KV(i, cells, chunk)
	}
	best.KV, best.KVComputed = c.ctx.Buffers().KV, want
	for range o.Runs {
		t, err := c.run(ctx)
		if err != nil {
			return best, err
		}
		fmt.Fprintf(o.Out, "  layers %v: step %s, chunk %s, KV %d (computed %d)\n", list, t.Step, t.Chunk, best.KV, want)
		if best.Step == 0 || t.Step < best.Step {
			best.Step = t.Step
		}
		if best.Chunk == 0 || t.Chunk < best.Chunk {
			best.Chunk = t.Chunk
		}
	}
	return best, nil
}

// computer is a model as a stage computes it (llama/exec), but that all rows of a
// chunk leave it, as they do in the middle of a route: in its last layer the
// library computes only the rows that are asked for.
type computer struct {
	model llama.Model
	ctx   llama.Context
	batch *llama.Batch
	pos   int32
}

func newComputer(path string) (_ *computer, err error) {
	c := new(computer)
	if c.model, err = llama.LoadModel([]string{path}, llama.ModelParams{}); err != nil {
		return nil, err
	}
	c.ctx, err = llama.NewContext(c.model, llama.ContextParams{
		NCtx: cells, NBatch: chunk, NUBatch: chunk, NSeqMax: 1, NOutputsMax: chunk, Threads: threads, ThreadsBatch: threads, NoPerf: true,
	})
	if err == nil {
		c.batch, err = llama.NewBatch(chunk, 0)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *computer) close() {
	if c.batch != nil {
		c.batch.Free()
	}
	if c.ctx != 0 {
		c.ctx.Free()
	}
	c.model.Free()
}

// call computes rows behind those before and says how long it took.
func (c *computer) call(ctx context.Context, ids []int32) (time.Duration, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	c.batch.Reset()
	for _, id := range ids {
		if err := c.batch.AddToken(id, c.pos, 0, true); err != nil {
			return 0, err
		}
		c.pos++
	}
	watch, before := stopwatch.Start(), cpuTime()
	if err := c.ctx.Decode(c.batch); err != nil {
		return 0, err
	}
	took := watch.Elapsed()
	if cpu := cpuTime() - before; cpu > 0 {
		took = min(took, cpu)
	}
	return took, nil
}

// run makes two chunks, of which the second has something to look back at, and
// decode steps behind them.
func (c *computer) run(ctx context.Context) (t shapes.LayerTime, err error) {
	c.ctx.Memory().SeqRm(0, -1, -1)
	c.pos = 0
	ids := make([]int32, chunk)
	for i := range ids {
		ids[i] = int32((i*37 + 11) % 64)
	}
	for range 2 {
		if t.Chunk, err = c.call(ctx, ids); err != nil {
			return t, err
		}
	}
	var times []time.Duration
	for i := range steps {
		d, err := c.call(ctx, []int32{int32(i*29+7) % 64})
		if err != nil {
			return t, err
		}
		times = append(times, d)
	}
	slices.Sort(times)
	t.Step = times[len(times)/4]
	return t, nil
}
