package families

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"neuron/engine/artifact"
	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/stage"
	"neuron/engine/stage/wire"
	"neuron/llama/archs"
	"neuron/llama/family"
)

// checker starts stages of one program.
type checker struct{ bin, native, data string }

const (
	atOnce    = 2 // families
	chunkRows = 64
	cells     = 1024
)

// allReports checks two stages of each certified family for which there is a
// small model.
func allReports(ctx context.Context, bin, native, data string) (string, error) {
	c := &checker{bin: bin, native: native, data: data}
	have := map[string]bool{}
	for _, m := range archs.List() {
		have[m.Name] = true
	}
	var list, without []string
	for _, arch := range family.Certified() {
		if have[arch] {
			list = append(list, arch)
		} else {
			without = append(without, arch)
		}
	}
	var mu sync.Mutex // guards the next three
	var failed []error
	kinds, next := map[protocol.MemoryKind]int{}, 0
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for {
				mu.Lock()
				if next == len(list) || len(failed) > 0 || ctx.Err() != nil {
					mu.Unlock()
					return
				}
				arch := list[next]
				next++
				mu.Unlock()
				m, err := c.family(ctx, arch)
				mu.Lock()
				if err != nil {
					failed = append(failed, fmt.Errorf("%s: %w", arch, err))
				}
				for _, k := range m {
					kinds[k]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if err := errors.Join(append(failed, ctx.Err())...); err != nil {
		return "", err
	}
	figure := fmt.Sprintf("families=%d with complete reports and right budgets (full %d, sliding %d, mla %d, indexer %d, compressed %d, recurrent %d)", len(list),
		kinds[protocol.MemoryFull], kinds[protocol.MemorySliding], kinds[protocol.MemoryMLA], kinds[protocol.MemoryIndexer],
		kinds[protocol.MemoryCompressed], kinds[protocol.MemoryRecurrent])
	if len(without) > 0 {
		figure += fmt.Sprintf(" (no model of %v: not checked)", without)
	}
	return figure, nil
}

// family cuts a model in the middle and runs both parts; it returns the kinds of
// memory.
func (c *checker) family(ctx context.Context, arch string) ([]protocol.MemoryKind, error) {
	dir := filepath.Join(c.data, arch)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	path, err := write(dir, arch)
	if err != nil {
		return nil, err
	}
	src, err := artifact.Inspect(ctx, path, "", slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	cuts := src.Model.Cuts()
	if len(cuts) == 0 {
		return nil, errors.New("a certified family without a cut")
	}
	at := cuts[len(cuts)/2]
	var kinds []protocol.MemoryKind
	var reports []protocol.Capability
	for _, r := range []protocol.Range{{Last: at}, {First: at, Last: src.Model.Layers}} {
		report, err := c.part(ctx, src, r, dir)
		if err != nil {
			return nil, fmt.Errorf("layers %s: %w", r, err)
		}
		reports = append(reports, *report)
		for _, p := range report.Memory {
			if !slices.Contains(kinds, p.Kind) {
				kinds = append(kinds, p.Kind)
			}
		}
	}
	if err := reports[0].SameSeams(&reports[1]); err != nil {
		return nil, err
	}
	return kinds, os.RemoveAll(dir)
}

// part runs a stage with the budget of one session, and checks its report and
// what it refuses.
func (c *checker) part(ctx context.Context, src *artifact.Source, r protocol.Range, dir string) (*protocol.Capability, error) {
	s, err := src.Shard(ctx, r, dir, nil)
	if err != nil {
		return nil, err
	}
	plan, err := s.Plan()
	if err != nil {
		return nil, err
	}
	paths, release, err := s.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	static := s.Capability(chunkRows)
	unknown := int64(0)
	if len(static.Memory) == 0 {
		unknown = 64 << 20
	}
	p, err := stage.Start(ctx, stage.Spawn{Exe: filepath.Join(c.bin, "neuron-engine"), Args: []string{"stage"}, Logger: slog.New(slog.DiscardHandler)}, wire.Load{
		NativeDir: c.native, Paths: paths, First: r.First, Last: r.Last, Layers: static.Layers, Plan: plan, Memory: static.Memory,
		Threads: 1, ChunkRows: chunkRows, MaxContext: 4 * cells, MaxSessions: 4,
		KVBudget: max(static.KVBytes(cells), unknown), KVBytesPerCell: static.KVBytesPerCell,
	}, static)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	report := p.Capability()
	switch {
	case report.Width != static.Width || report.Width < 1:
		return nil, fmt.Errorf("rows of %d elements, its file promises %d", report.Width, static.Width)
	case report.Vocab < 1 || report.WholeOnly != "" || len(report.Cuts) == 0 || len(report.Exits) != r.Len() || len(report.DTypes) == 0 || report.Sidebands == nil:
		return nil, fmt.Errorf("an incomplete report: %+v", report)
	case report.Build.Llama == "" || report.CPUVariant == "" || report.WeightBytes < 1 || report.ComputeBytes < 1 || report.InFlightBytes < 1:
		return nil, errors.New("the report leaves out what only a running stage knows")
	case len(static.Memory) == 0 && static.KVLayerBytes == nil && report.KVBytes(cells) > 0:
		return &report, nil // a family whose memory is measured by the stage
	case len(static.Memory) == 0:
		return nil, errors.New("the memory of sessions is not known")
	case !slices.Equal(report.Memory, static.Memory):
		return nil, fmt.Errorf("sessions take %+v, its file promises %+v", report.Memory, static.Memory)
	}
	return &report, refusals(ctx, p, &report)
}

// refusals opens the largest session that fits, and asks for more than that.
func refusals(ctx context.Context, p *stage.Process, c *protocol.Capability) error {
	o := seam.StageOpen{Session: protocol.NewSessionID(), Use: c.Loaded, Context: cells, In: c.Needs(c.Loaded.First)}
	if c.Tail {
		o.Sampler = &protocol.Sampler{}
	}
	open := func(context int, want protocol.Code, detail string) error {
		o.Session, o.Context = protocol.NewSessionID(), context
		s, err := p.Open(ctx, o)
		if err == nil {
			err = s.Close()
		}
		var got protocol.Code
		if err != nil {
			got = protocol.AsError(err).Code
		}
		if got != want || want != "" && protocol.AsError(err).Detail["fits"] != detail {
			return fmt.Errorf("a session of %d cells: %w, want code %q", context, err, want)
		}
		return nil
	}
	if err := open(cells, "", ""); err != nil {
		return err
	}
	if err := open(4*cells+1, protocol.CodeContextExceeded, strconv.Itoa(4*cells)); err != nil {
		return err
	}
	if c.KVBytes(2*cells) <= c.KVBudget {
		return open(2*cells, "", "") // windows and states do not grow
	}
	return open(cells+1, protocol.CodeKVBudget, strconv.Itoa(cells))
}
