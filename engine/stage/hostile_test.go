package stage_test

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"neuron/engine/artifact"
	"neuron/engine/protocol"
	"neuron/engine/seam/seamtest"
	"neuron/engine/stage"
	"neuron/engine/stage/wire"
	"neuron/llama"
	"neuron/llama/archs"
	"neuron/llama/family"
	"neuron/llama/gguf"
)

// odd is a model that the library would end the process over, or must refuse.
type odd struct {
	arch   string
	change map[string]*gguf.Value // by key, without the architecture; nil drops it
}

func set(v gguf.Value) *gguf.Value { return &v }

// odds are what section 4.9 of the seam catalogue lists, as far as a file can
// bring it about.
var odds = map[string]odd{
	"no layers":                        {"llama", map[string]*gguf.Value{"block_count": set(gguf.U32(0))}},
	"more layers than the library has": {"llama", map[string]*gguf.Value{"block_count": set(gguf.U32(513))}},
	"only layers that predict":         {"glm-dsa", map[string]*gguf.Value{"nextn_predict_layers": set(gguf.U32(10))}},
	"more predicting layers":           {"glm-dsa", map[string]*gguf.Value{"nextn_predict_layers": set(gguf.U32(11))}},
	"too many experts":                 {"qwen3moe", map[string]*gguf.Value{"expert_count": set(gguf.U32(1025))}},
	"no expert in use":                 {"qwen3moe", map[string]*gguf.Value{"expert_used_count": set(gguf.U32(0))}},
	"more in use than there are":       {"qwen3moe", map[string]*gguf.Value{"expert_used_count": set(gguf.U32(5))}},
	"groups that do not divide":        {"qwen3moe", map[string]*gguf.Value{"expert_group_count": set(gguf.U32(3)), "expert_group_used_count": set(gguf.U32(1))}},
	"as many groups as experts":        {"qwen3moe", map[string]*gguf.Value{"expert_group_count": set(gguf.U32(4)), "expert_group_used_count": set(gguf.U32(1))}},
	"no layer attends":                 {"qwen35moe", map[string]*gguf.Value{"full_attention_interval": set(gguf.U32(512))}},
	"every layer attends":              {"qwen35moe", map[string]*gguf.Value{"full_attention_interval": set(gguf.U32(1))}},
	"no indexer":                       {"glm-dsa", map[string]*gguf.Value{"attention.indexer.types": set(gguf.Bools(make([]bool, 10)))}},
	"the first indexer is another's":   {"glm-dsa", map[string]*gguf.Value{"attention.indexer.types": set(gguf.Bools([]bool{false, true, true, false, false, false, true, false, false, false}))}},
	"no compressed layer with indexer": {"deepseek4", map[string]*gguf.Value{"attention.compress_ratios": set(gguf.I32s([]int32{0, 0, 128, 128, 128, 128, 128, 128}))}},
}

// change writes path again with other metadata.
func (o odd) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	plain, path := filepath.Join(dir, "plain.gguf"), filepath.Join(dir, "odd.gguf")
	if err := archs.Write(plain, o.arch, gguf.TypeQ8_0, 5); err != nil {
		t.Fatal(err)
	}
	m, err := gguf.OpenModel(plain)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	left := map[string]*gguf.Value{}
	for k, v := range o.change {
		left[o.arch+"."+k] = v
	}
	var kvs []gguf.KV
	for _, kv := range m.Meta().KVs {
		if v, ok := left[kv.Key]; ok {
			delete(left, kv.Key)
			kv.Value = *v
		}
		kvs = append(kvs, kv)
	}
	for k, v := range left {
		kvs = append(kvs, gguf.KV{Key: k, Value: *v})
	}
	var infos []gguf.TensorInfo
	for _, x := range m.Tensors() {
		infos = append(infos, x.TensorInfo)
	}
	data := func(i int, w io.Writer) error {
		_, err := w.Write(m.Data(m.Tensors()[i]))
		return err
	}
	if err := gguf.WriteFile(path, kvs, infos, data, gguf.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return path
}

// loadNative is for tests that write models.
func loadNative(t *testing.T) {
	t.Helper()
	if err := llama.Load(nativeDir(t)); err != nil {
		t.Fatal(err)
	}
}

// Every such model is refused, with a code, before the library sees it. That it
// had to be is shown by a stage process that gets it all the same: it dies or
// refuses, and its parent lives and says which.
func TestOddModelsAreRefused(t *testing.T) {
	loadNative(t)
	var died []string
	for name, o := range odds {
		t.Run(name, func(t *testing.T) {
			path := o.write(t)
			src, err := artifact.Inspect(within(t), path, "", slog.New(slog.DiscardHandler))
			if c := code(err); c != protocol.CodeModelInvalid {
				t.Errorf("taken as %+v, %v; want code %s", src, err, protocol.CodeModelInvalid)
			}
			died = append(died, forced(t, path, name)...)
		})
	}
	if len(died) < 3 {
		t.Errorf("only %v end the library: the list shows little", died)
	}
	slices.Sort(died)
	t.Logf("%d of %d would have ended the process: %s", len(died), len(odds), strings.Join(died, ", "))
}

// forced gives a model to a stage process without asking anybody.
func forced(t *testing.T, path, name string) []string {
	t.Helper()
	h, err := gguf.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := h.Get(h.Meta().Architecture() + ".block_count")
	h.Close()
	n, _ := v.Int()
	layers := int(max(1, n))
	p, err := stage.Start(within(t), spawn(), wire.Load{
		NativeDir: nativeDir(t), Paths: []string{path}, Last: layers, Layers: layers, ExitNode: "l_out",
		Threads: 1, ChunkRows: chunkRows, MaxContext: 256, MaxSessions: 1, KVBytesPerCell: 1 << 16, KVBudget: 1 << 26,
	}, protocol.Capability{Layers: layers, Loaded: protocol.Range{Last: layers}, Head: true, Tail: true})
	if err == nil {
		p.Stop()
		return nil
	}
	switch code(err) {
	case protocol.CodeStageLost:
		return []string{name}
	case protocol.CodeModelInvalid, protocol.CodeFrameInvalid, protocol.CodeKVBudget, protocol.CodeDecodeFailed:
		return nil
	}
	t.Errorf("the stage process ended with %v", err)
	return nil
}

// A part that lacks a kind of layer gets it as a pad, so it never meets those
// assertions; where there is none, it is refused.
func TestPartsHaveWhatTheLibraryInsistsOn(t *testing.T) {
	loadNative(t)
	for _, arch := range []string{"qwen35moe", "glm-dsa", "deepseek4", "gemma3", "minimax-m3", "llama4"} {
		path := filepath.Join(t.TempDir(), arch+".gguf")
		if err := archs.Write(path, arch, gguf.TypeQ8_0, 5); err != nil {
			t.Fatal(err)
		}
		src, err := artifact.Inspect(within(t), path, "", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		needs := src.Model.Family().Needs
		for first := range src.Model.Layers {
			st, err := src.Model.Stage(first, first+1)
			if err != nil {
				if c := code(func() error {
					_, err := src.Shard(within(t), protocol.Range{First: first, Last: first + 1}, t.TempDir(), nil)
					return err
				}()); c != protocol.CodeRangeInvalid {
					t.Errorf("%s: layer %d alone: code %q", arch, first, c)
				}
				continue
			}
			var have family.Kind
			for _, s := range st.Slots {
				have |= src.Model.Kinds(s.Layer)
			}
			for _, k := range needs {
				if have&k == 0 {
					t.Errorf("%s: layer %d alone lacks a kind of layer", arch, first)
				}
			}
		}
	}
}

// A model over which the library ends the process again and again is given up
// with its reason, and a stage beside it does not notice.
func TestAStageThatKeepsDyingIsGivenUp(t *testing.T) {
	loadNative(t)
	path := odds["the first indexer is another's"].write(t)
	good := start(t, layers(t, guidePath(), 0, 0), nil)
	session := mustOpen(t, good, nil)

	var mu sync.Mutex // guards starts
	starts := 0
	h := stage.NewHost(stage.HostOptions{
		Spawn: spawn(), Logger: slog.New(slog.DiscardHandler),
		Report: protocol.Capability{Layers: 10, Loaded: protocol.Range{Last: 10}, Head: true, Tail: true},
		Load: wire.Load{
			NativeDir: nativeDir(t), Last: 10, Layers: 10, ExitNode: "l_out", Threads: 1, ChunkRows: chunkRows,
			MaxContext: 256, MaxSessions: 1, KVBytesPerCell: 1 << 16, KVBudget: 1 << 26,
		},
		Prepare: func(context.Context) ([]string, func(), error) {
			mu.Lock()
			defer mu.Unlock()
			starts++
			return []string{path}, func() {}, nil
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	defer running.Wait()
	defer stop()
	until(t, 2*patience, "the model is given up", func() bool {
		r := h.Report()
		return r.State == protocol.ShardFailed && r.Error != nil && r.Error.Code == protocol.CodeStageCrashes
	})
	mu.Lock()
	n := starts
	mu.Unlock()
	if n != 5 || h.Process() != nil {
		t.Errorf("%d starts, process %v", n, h.Process())
	}
	if got := answer(t, []*seamtest.Session{session}, []int32{1, 2, 3}, 4); len(got) == 0 {
		t.Error("the stage beside it says nothing")
	}
	if r := h.Report(); !strings.Contains(r.Error.Message, "died") {
		t.Errorf("the reason is %q", r.Error.Message)
	}
}
