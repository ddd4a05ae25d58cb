package artifact_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"neuron/engine/artifact"
	"neuron/engine/manifest"
	"neuron/engine/planner"
	"neuron/engine/protocol"
	"neuron/llama"
	"neuron/llama/archs"
	"neuron/llama/exec"
	"neuron/llama/gguf"
)

// within is how far a prediction may be off; printed is what the library's own
// figures are rounded by, in up to eight lines.
const (
	within  = 0.05
	printed = 8 * (1 << 20) / 100
)

// What a report says that sessions take is what the library takes for them: of
// the whole model and of parts, pads included, for a family of each kind of
// memory. What the planner expects before there is a file is the same for the
// whole model.
func TestMemoryIsWhatTheLibraryTakes(t *testing.T) {
	dir, err := llama.NativeDir()
	if err == nil {
		err = llama.Load(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arch  string
		kind  protocol.MemoryKind
		parts []protocol.Range
	}{
		{"llama", protocol.MemoryFull, []protocol.Range{{First: 2, Last: 5}}},
		{"gemma3", protocol.MemorySliding, []protocol.Range{{First: 0, Last: 3}, {First: 5, Last: 6}}},
		{"deepseek2", protocol.MemoryMLA, []protocol.Range{{First: 3, Last: 8}}},
		{"glm-dsa", protocol.MemoryIndexer, []protocol.Range{{First: 3, Last: 6}, {First: 6, Last: 10}}},
		{"qwen35moe", protocol.MemoryRecurrent, []protocol.Range{{First: 0, Last: 2}, {First: 3, Last: 4}}},
		{"mamba2", protocol.MemoryRecurrent, []protocol.Range{{First: 1, Last: 4}}},
		{"deepseek4", protocol.MemoryCompressed, []protocol.Range{{First: 0, Last: 1}, {First: 3, Last: 8}}},
	} {
		t.Run(c.arch, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, c.arch+".gguf")
			if err := archs.Write(path, c.arch, gguf.TypeQ8_0, 3); err != nil {
				t.Fatal(err)
			}
			src, err := artifact.Inspect(t.Context(), path, "", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			whole := protocol.Range{Last: src.Model.Layers}
			for _, r := range append([]protocol.Range{whole}, c.parts...) {
				compare(t, src, r, c.kind, dir)
			}
			expected(t, src, whole)
		})
	}
}

const memoryRows = 128

// compare loads a stage and makes pools of it.
func compare(t *testing.T, src *artifact.Source, r protocol.Range, kind protocol.MemoryKind, dir string) {
	t.Helper()
	s, err := src.Shard(t.Context(), r, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	paths, release, err := s.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	st, err := exec.Load(exec.Config{Paths: paths, Plan: plan, Threads: 1, ChunkRows: memoryRows})
	release()
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	report := s.Capability(memoryRows)
	if r.Len() == src.Model.Layers && !report.Memory.Has(kind) {
		t.Errorf("%s memory is missing: %+v", kind, report.Memory)
	}
	if pads := plan.Front + plan.Back; (pads > 0) != (report.Memory.PadBytes(256) > 0) {
		t.Errorf("layers %s: %d pads take %d bytes", r, pads, report.Memory.PadBytes(256))
	}
	for _, cells := range []int{256, 1024, 8192} {
		for _, seqs := range []int{1, 2} {
			p, err := st.NewPool(cells, seqs, !st.Tail())
			if err != nil {
				t.Fatal(err)
			}
			got := p.Memory().KV
			p.Close()
			want := int64(seqs) * report.KVBytes(cells)
			if off := float64(got - want); off > within*float64(want)+printed || off < -within*float64(want)-printed {
				t.Errorf("layers %s, %d sessions of %d cells: %d bytes predicted, %d taken (%+.1f %%)", r, seqs, cells, want, got, 100*off/float64(want))
			}
			if seqs == 1 {
				t.Logf("layers %s, %d cells: %d predicted, %d taken, pads %d, states %d", r, cells, want, got, report.Memory.PadBytes(cells), report.Memory.StateBytes())
			}
		}
	}
}

// expected asks the planner, which knows no file.
func expected(t *testing.T, src *artifact.Source, r protocol.Range) {
	t.Helper()
	m := src.Model
	x := &planner.Model{
		ID: src.ID, Name: src.Name, Layers: m.Layers, Width: m.Width(), KV: m.KVLayerBytes(0, m.Layers, 2), Window: m.Window,
		Parts: planner.Parts{Layers: make([]int64, m.Layers)}, Ends: [][]manifest.Span{},
	}
	for i := range m.Layers {
		l := m.LayerMemory(i, 2)
		x.KVWindow, x.KVState = append(x.KVWindow, l.Window), append(x.KVState, l.State)
	}
	// Below this length compressed rows are rounded up to 256 of them, which the
	// planner, who counts by position, does not know.
	const tokens = 32768
	p := planner.New(planner.Limits{Memory: 64 << 30, Disk: 64 << 30, ChunkRows: memoryRows, Conversations: 3, Context: tokens}, nil)
	a := p.Check(x, planner.Assignment{Model: src.ID, Range: r})
	if a.Refused != nil {
		t.Fatal(a.Refused)
	}
	want := 3 * artifact.MemoryOf(m, r, memoryRows).Bytes(tokens)
	if off := float64(a.Cost.KV-want) / float64(want); off > within || off < -within {
		t.Errorf("the planner expects %d bytes of conversations, the report says %d (%+.1f %%)", a.Cost.KV, want, 100*off)
	}
}
