package family_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/llama/family"
	"neuron/llama/gguf"
)

// keys are metadata under test: an architecture's own keys go without prefix.
type keys map[string]gguf.Value

// plain is a llama of 8 layers, width 256, 4 heads of 64 and 2 for the cache.
func plain() keys {
	return keys{
		"block_count": gguf.U32(8), "embedding_length": gguf.U32(256), "context_length": gguf.U32(2048),
		"attention.head_count": gguf.U32(4), "attention.head_count_kv": gguf.U32(2), "vocab_size": gguf.U32(512),
	}
}

func (k keys) with(more keys) keys {
	out := keys{}
	for _, m := range []keys{k, more} {
		for key, v := range m {
			out[key] = v
		}
	}
	return out
}

func (k keys) without(key string) keys {
	out := k.with(nil)
	delete(out, key)
	return out
}

func (k keys) header(arch string) *gguf.Header {
	h := &gguf.Header{Version: 3, Alignment: 32, KVs: []gguf.KV{{Key: gguf.ArchitectureKey, Value: gguf.String(arch)}}}
	for key, v := range k {
		if !strings.HasPrefix(key, "tokenizer.") && !strings.HasPrefix(key, "general.") {
			key = arch + "." + key
		}
		h.KVs = append(h.KVs, gguf.KV{Key: key, Value: v})
	}
	return h
}

func describe(t *testing.T, arch string, k keys) *family.Model {
	t.Helper()
	m, err := family.Describe(k.header(arch))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	type figures struct {
		Name                                 string
		Layers, Embd, Vocab, Context, Window int
		Whole                                bool
		Cell                                 int64
	}
	base := figures{Name: "llama", Layers: 8, Embd: 256, Vocab: 512, Context: 2048, Cell: 8 * 2 * 128 * 2}
	with := func(change func(*figures)) figures {
		f := base
		change(&f)
		return f
	}
	tests := []struct {
		name string
		arch string
		keys keys
		want figures
	}{
		{"plain", "llama", plain(), base},
		{"named", "llama", plain().with(keys{"general.name": gguf.String("My model")}), with(func(f *figures) { f.Name = "My model" })},
		{"name of another type", "llama", plain().with(keys{"general.name": gguf.U8(1)}), base},
		{"token list before vocab_size", "llama", plain().with(keys{"tokenizer.ggml.tokens": gguf.Strings([]string{"a", "b", "c"})}),
			with(func(f *figures) { f.Vocab = 3 })},
		{"no vocabulary", "llama", plain().without("vocab_size"), with(func(f *figures) { f.Vocab = 0 })},
		{"any integer type", "llama", plain().with(keys{"block_count": gguf.I64(8), "embedding_length": gguf.U16(256)}), base},
		{"no key-value heads means all", "llama", plain().without("attention.head_count_kv"), with(func(f *figures) { f.Cell *= 2 })},
		{"heads per layer", "llama", plain().with(keys{"attention.head_count_kv": gguf.I32s([]int32{2, 2, 2, 2, 0, 0, 1, 1})}),
			with(func(f *figures) { f.Cell = (4*2 + 2) * 128 * 2 })},
		{"longer arrays have entries of other layers", "llama", plain().with(keys{"attention.head_count_kv": gguf.U32s(slices.Repeat([]uint32{1}, 9))}),
			with(func(f *figures) { f.Cell /= 2 })},
		{"head sizes", "llama", plain().with(keys{"attention.key_length": gguf.U32(128), "attention.value_length": gguf.U32(32)}),
			with(func(f *figures) { f.Cell = 8 * 2 * 160 * 2 })},
		{"no heads in the first layer", "llama", plain().with(keys{
			"attention.head_count": gguf.U32s([]uint32{0, 4, 4, 4, 4, 4, 4, 4}), "attention.key_length": gguf.U32(64), "attention.value_length": gguf.U32(64),
		}), base},
		{"experts", "llama", plain().with(keys{"expert_count": gguf.U32(8), "expert_used_count": gguf.U32(2)}), base},
		{"qwen2", "qwen2", plain(), with(func(f *figures) { f.Name = "qwen2" })},
		{"qwen3", "qwen3", plain(), with(func(f *figures) { f.Name = "qwen3" })},
		{"gemma3", "gemma3", plain().with(keys{"attention.sliding_window": gguf.U32(512)}), with(func(f *figures) { f.Name, f.Window = "gemma3", 512 })},
		{"gemma3 of 62 layers", "gemma3", plain().with(keys{"block_count": gguf.U32(62)}),
			with(func(f *figures) { f.Name, f.Layers, f.Whole, f.Cell = "gemma3", 62, true, 62*2*128*2 })},
		{"gemma3 with an array that the library ignores", "gemma3",
			plain().with(keys{"attention.sliding_window": gguf.U32(512), "attention.sliding_window_pattern": gguf.Bools(make([]bool, 8))}),
			with(func(f *figures) { f.Name, f.Window, f.Whole = "gemma3", 512, true })},
		{"gemma3 with an array of what the library does", "gemma3",
			plain().with(keys{"attention.sliding_window": gguf.U32(512), "attention.sliding_window_pattern": gguf.Bools([]bool{true, true, true, true, true, false, true, true})}),
			with(func(f *figures) { f.Name, f.Window = "gemma3", 512 })},
		{"unknown family", "gptj", plain(), with(func(f *figures) { f.Name, f.Whole, f.Cell = "gptj", true, 0 })},
		{"refused family without heads", "rwkv7", plain().without("attention.head_count"), with(func(f *figures) { f.Name, f.Whole, f.Cell = "rwkv7", true, 0 })},
		{"recurrent", "mamba2", plain().without("attention.head_count").without("attention.head_count_kv"),
			with(func(f *figures) { f.Name, f.Cell = "mamba2", 0 })},
		{"blocks that predict", "glm4moe", plain().with(keys{"block_count": gguf.U32(9), "nextn_predict_layers": gguf.U32(1)}),
			with(func(f *figures) { f.Name = "glm4moe" })},
		{"a size that the library knows by its layers", "deepseek2", plain().with(keys{"block_count": gguf.U32(27)}),
			with(func(f *figures) { f.Name, f.Layers, f.Whole, f.Cell = "deepseek2", 27, true, 27*2*128*2 })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := describe(t, tt.arch, tt.keys)
			got := figures{m.Name, m.Layers, m.Embd, m.Vocab, m.Context, m.Window, m.WholeOnly != "", m.KVBytesPerCell(0, m.Layers, 2)}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			if m.Arch != tt.arch {
				t.Errorf("architecture %q", m.Arch)
			}
		})
	}
}

func TestUnknownFamilyIsWholeOnlyWithASentence(t *testing.T) {
	t.Parallel()
	m := describe(t, "gptj", plain())
	for _, part := range []string{`"gptj"`, "not certified", fmt.Sprint(len(family.Certified()))} {
		if !strings.Contains(m.WholeOnly, part) {
			t.Errorf("%q does not mention %s", m.WholeOnly, part)
		}
	}
	if m.Family().Arch != "" {
		t.Errorf("family %q", m.Family().Arch)
	}
	if err := m.CheckRange(0, 8); err != nil {
		t.Errorf("the whole model: %v", err)
	}
	if err := m.CheckRange(0, 4); !errors.Is(err, family.ErrModel) || !strings.Contains(err.Error(), m.WholeOnly) {
		t.Errorf("a part: %v", err)
	}
	if got := m.Exits(0, 8); !slices.Equal(got, []int{8}) {
		t.Errorf("exits %v", got)
	}
}

func TestDescribeRefusesHostileMetadata(t *testing.T) {
	t.Parallel()
	huge := gguf.U64(math.MaxUint64)
	tests := map[string]keys{
		"no layers":        plain().without("block_count"),
		"zero layers":      plain().with(keys{"block_count": gguf.U32(0)}),
		"too many layers":  plain().with(keys{"block_count": gguf.U32(513)}),
		"huge layers":      plain().with(keys{"block_count": huge}),
		"negative layers":  plain().with(keys{"block_count": gguf.I32(-1)}),
		"layers as text":   plain().with(keys{"block_count": gguf.String("8")}),
		"layers as float":  plain().with(keys{"block_count": gguf.F32(8)}),
		"layers as array":  plain().with(keys{"block_count": gguf.U32s([]uint32{8})}),
		"no width":         plain().without("embedding_length"),
		"huge width":       plain().with(keys{"embedding_length": gguf.U32(65537)}),
		"no context":       plain().without("context_length"),
		"huge context":     plain().with(keys{"context_length": huge}),
		"no heads":         plain().without("attention.head_count"),
		"huge heads":       plain().with(keys{"attention.head_count": huge}),
		"negative heads":   plain().with(keys{"attention.head_count_kv": gguf.I64(-2)}),
		"short array":      plain().with(keys{"attention.head_count_kv": gguf.I32s([]int32{1, 1})}),
		"empty array":      plain().with(keys{"attention.head_count": gguf.I32s(nil)}),
		"hostile entry":    plain().with(keys{"attention.head_count_kv": gguf.I64s([]int64{1, 1, 1, 1, 1, 1, 1, math.MinInt64})}),
		"array of floats":  plain().with(keys{"attention.head_count": gguf.F32s(make([]float32, 8))}),
		"array of text":    plain().with(keys{"attention.head_count": gguf.Strings(make([]string, 8))}),
		"heads as text":    plain().with(keys{"attention.head_count": gguf.String("4")}),
		"huge head":        plain().with(keys{"attention.key_length": huge}),
		"huge value head":  plain().with(keys{"attention.value_length": gguf.U32(4097)}),
		"huge vocabulary":  plain().with(keys{"vocab_size": huge}),
		"negative experts": plain().with(keys{"expert_count": gguf.I32(-1)}),
		"window as text":   plain().with(keys{"attention.sliding_window": gguf.String("x")}),
		"zero period":      plain().with(keys{"attention.sliding_window": gguf.U32(64), "attention.sliding_window_pattern": gguf.U32(0)}),
		"huge period":      plain().with(keys{"attention.sliding_window": gguf.U32(64), "attention.sliding_window_pattern": huge}),
		// What the library asserts, each
		// would end the process.
		"unused experts":     plain().with(keys{"expert_count": gguf.U32(8)}),
		"too many experts":   plain().with(keys{"expert_count": gguf.U32(1025), "expert_used_count": gguf.U32(2)}),
		"experts of nothing": plain().with(keys{"expert_used_count": gguf.U32(2)}),
		"more than all used": plain().with(keys{"expert_count": gguf.U32(8), "expert_used_count": gguf.U32(9)}),
		"odd groups": plain().with(keys{
			"expert_count": gguf.U32(8), "expert_used_count": gguf.U32(2), "expert_group_count": gguf.U32(3), "expert_group_used_count": gguf.U32(1),
		}),
		"groups like experts": plain().with(keys{"expert_count": gguf.U32(8), "expert_used_count": gguf.U32(2), "expert_group_count": gguf.U32(8)}),
		"unused groups":       plain().with(keys{"expert_count": gguf.U32(8), "expert_used_count": gguf.U32(2), "expert_group_count": gguf.U32(2)}),
		"groups of nothing":   plain().with(keys{"expert_group_count": gguf.U32(2)}),
		"all layers predict":  plain().with(keys{"nextn_predict_layers": gguf.U32(8)}),
		"heads do not divide": plain().with(keys{"attention.head_count_kv": gguf.U32(3)}),
		"odd rotation":        plain().with(keys{"rope.dimension_count": gguf.U32(63)}),
		"wide rotation":       plain().with(keys{"rope.dimension_count": gguf.U32(128)}),
		"period as text":      plain().with(keys{"attention.sliding_window": gguf.U32(64), "attention.sliding_window_pattern": gguf.String("x")}),
	}
	for name, k := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := family.Describe(k.header("gemma3"))
			if !errors.Is(err, family.ErrModel) {
				t.Errorf("error %v, want ErrModel (model %+v)", err, m)
			}
		})
	}
	if _, err := family.Describe(&gguf.Header{}); !errors.Is(err, family.ErrModel) {
		t.Errorf("empty header: %v", err)
	}
	if _, err := family.Describe(&gguf.Header{KVs: []gguf.KV{{Key: gguf.ArchitectureKey, Value: gguf.U8(1)}}}); !errors.Is(err, family.ErrModel) {
		t.Errorf("architecture of another type: %v", err)
	}
}

// TestLibraryEndsTheProcess: models with which nothing is wrong but the library.
func TestLibraryEndsTheProcess(t *testing.T) {
	t.Parallel()
	_, err := family.Describe(plain().header("plm"))
	if !errors.Is(err, family.ErrModel) || !errors.Is(err, family.ErrLibrary) || !strings.Contains(err.Error(), "flash attention") {
		t.Errorf("plm: %v", err)
	}
	for _, arch := range []string{"codeshell", "llama"} {
		m := describe(t, arch, plain())
		if err := m.CheckTensors(func(string) bool { return true }); err != nil {
			t.Errorf("%s with all tensors: %v", arch, err)
		}
		err := m.CheckTensors(func(name string) bool { return name != "token_embd.weight" })
		if bad := arch == "codeshell"; bad != errors.Is(err, family.ErrLibrary) || bad != errors.Is(err, family.ErrModel) {
			t.Errorf("%s without an embedding: %v", arch, err)
		}
	}
}

// TestWholeModelsThatNoNodeTakes: what only a whole model shows is found by all
// who have one, a publisher among them.
func TestWholeModelsThatNoNodeTakes(t *testing.T) {
	t.Parallel()
	indexers := func(first uint32) keys {
		return plain().with(keys{
			"attention.indexer.types": gguf.U32s([]uint32{first, 1, 0, 0, 1, 0, 0, 0}), "attention.indexer.top_k": gguf.U32(16), "attention.indexer.key_length": gguf.U32(32),
		})
	}
	full := keys{"attention.sliding_window": gguf.U32(0)}
	for name, tt := range map[string]struct {
		arch string
		keys keys
		want string // of the refusal, "" for none
	}{
		"an indexer first":         {"glm-dsa", indexers(1), ""},
		"another's choice first":   {"glm-dsa", indexers(0), "the first layer of this glm-dsa model"},
		"eight layers":             {"gemma4", plain().with(full), ""},
		"one layer":                {"gemma4", plain().with(full).with(keys{"block_count": gguf.U32(1)}), "1 layers, gemma4 models have at least 2"},
		"one layer of any other":   {"llama", plain().with(keys{"block_count": gguf.U32(1)}), ""},
		"a family that is not cut": {"other", plain().with(keys{"block_count": gguf.U32(1)}), ""},
		"metadata":                 {"llama", plain().without("block_count"), "block_count"},
	} {
		m, err := family.DescribeWhole(tt.keys.header(tt.arch), func(string) bool { return true })
		if (tt.want == "") != (err == nil) || err != nil && (!errors.Is(err, family.ErrModel) || m != nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if _, err := family.DescribeWhole(plain().header("codeshell"), func(string) bool { return false }); !errors.Is(err, family.ErrLibrary) {
		t.Errorf("without its embedding: %v", err)
	}
}

func TestCheckRangeAndExits(t *testing.T) {
	t.Parallel()
	m := describe(t, "llama", plain())
	for a := -1; a <= 9; a++ {
		for b := -1; b <= 9; b++ {
			err := m.CheckRange(a, b)
			if legal := 0 <= a && a < b && b <= 8; (err == nil) != legal || err != nil && !errors.Is(err, family.ErrModel) {
				t.Errorf("%d-%d: %v", a, b, err)
			}
		}
	}
	if got := m.Exits(4, 8); !slices.Equal(got, []int{5, 6, 7, 8}) {
		t.Errorf("exits %v", got)
	}
	if got := m.KVBytesPerCell(4, 6, 1); got != 2*2*128 {
		t.Errorf("%d bytes per cell", got)
	}
	// A stage that the library would take for another size gets pads.
	long := describe(t, "gemma3", plain().with(keys{"block_count": gguf.U32(70), "attention.sliding_window": gguf.U32(64)}))
	for _, g := range [][2]int{{0, 62}, {1, 63}, {8, 70}} {
		st, err := long.Stage(g[0], g[1])
		if err != nil || len(st.Slots) <= 62 {
			t.Errorf("gemma3 stage of layers %v: %d layers, %v", g, len(st.Slots), err)
		}
	}
}

// pads is how many a stage has before and behind, and what a key says.
func pads(t *testing.T, m *family.Model, first, last int, key string) (front, back int, v gguf.Value) {
	t.Helper()
	st, err := m.Stage(first, last)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range st.Set {
		if kv.Key == m.Arch+"."+key {
			v = kv.Value
		}
	}
	return st.Plan.Front, st.Plan.Back, v
}

// TestSlidingStages looks at stages of a Gemma 3 with 14 layers, of which 5 and
// 11 see everything: the library takes the pattern from a period alone.
func TestSlidingStages(t *testing.T) {
	t.Parallel()
	m := describe(t, "gemma3", plain().with(keys{"block_count": gguf.U32(14), "attention.sliding_window": gguf.U32(64)}))
	for i := range 14 {
		if m.Sliding(i) != (i != 5 && i != 11) {
			t.Errorf("layer %d slides: %v", i, m.Sliding(i))
		}
	}
	const pattern = "attention.sliding_window_pattern"
	for _, tt := range []struct{ first, last, front, back, period int }{
		{0, 14, 0, 0, 6}, {0, 6, 0, 0, 6}, {6, 12, 0, 0, 6}, {0, 3, 0, 0, 4}, {2, 7, 0, 0, 4}, {12, 14, 0, 0, 3},
		{5, 6, 1, 0, 2}, {11, 14, 1, 0, 6}, {4, 14, 4, 0, 6},
	} {
		front, back, v := pads(t, m, tt.first, tt.last, pattern)
		period, _ := v.Int()
		st, err := m.Stage(tt.first, tt.last)
		if err != nil {
			t.Fatal(err)
		}
		for at, s := range st.Slots {
			if !s.Pad && (at%int(period) < int(period)-1) != m.Sliding(s.Layer) {
				t.Errorf("layers %d-%d: layer %d slides otherwise with period %d", tt.first, tt.last, s.Layer, period)
			}
		}
		if tt.front == 0 && (front > 0 || back != tt.back || int(period) != tt.period) {
			t.Errorf("layers %d-%d: %d pads before, %d behind, period %d; want %+v", tt.first, tt.last, front, back, period, tt)
		}
	}
	other := describe(t, "gemma3", plain().with(keys{"attention.sliding_window": gguf.U32(64), pattern: gguf.U32(2)}))
	if other.Sliding(1) || !other.Sliding(2) {
		t.Error("the stated period is not used")
	}
	none := describe(t, "gemma3", plain())
	if front, back, v := pads(t, none, 5, 6, pattern); none.Sliding(0) || front+back != 0 || v.Type() != gguf.ValueU8 {
		t.Error("a model without a window has no sliding layers, and any cut")
	}
}

// TestStagesOfOtherFamilies looks at what pads are for, one family each.
func TestStagesOfOtherFamilies(t *testing.T) {
	t.Parallel()
	t.Run("rotation by index", func(t *testing.T) {
		m := describe(t, "smollm3", plain())
		for first := range 8 {
			if front, back, _ := pads(t, m, first, 8, ""); front != first%4 || back != 0 {
				t.Errorf("from layer %d: %d pads before, %d behind", first, front, back)
			}
		}
	})
	t.Run("both kinds of memory", func(t *testing.T) {
		m := describe(t, "qwen35moe", plain().with(keys{"full_attention_interval": gguf.U32(4), "ssm.inner_size": gguf.U32(64), "ssm.state_size": gguf.U32(16)}))
		front, back, v := pads(t, m, 0, 2, "attention.recurrent_layers")
		if list, _ := v.Bools(); front != 0 || back != 1 || !slices.Equal(list, []bool{true, true, false}) {
			t.Errorf("head: %d pads before, %d behind, %v", front, back, list)
		}
		if front, back, _ = pads(t, m, 7, 8, ""); front != 1 || back != 0 {
			t.Errorf("tail: %d pads before, %d behind", front, back)
		}
		if front, back, _ = pads(t, m, 2, 4, ""); front+back != 0 {
			t.Errorf("a stage with both kinds has %d pads", front+back)
		}
		if m.KVStateBytes(0, 1) != 64*16*4 || m.KVBytesPerCell(2, 4, 2) != 2*128*2 {
			t.Errorf("%d bytes of state, %d per cell", m.KVStateBytes(0, 1), m.KVBytesPerCell(2, 4, 2))
		}
	})
	t.Run("streams and ids", func(t *testing.T) {
		m := describe(t, "deepseek4", plain().with(keys{
			"attention.head_count_kv": gguf.U32(1), "attention.sliding_window": gguf.U32(128), "attention.compress_ratios": gguf.U32s([]uint32{0, 0, 4, 128, 4, 128, 4, 128}),
			"hyper_connection.count": gguf.U32(4), "hash_layer_count": gguf.U32(3), "attention.indexer.key_length": gguf.U32(32),
		}))
		if m.Width() != 4*256 || m.Sideband(2) != (family.Sideband{IDs: true}) || m.Sideband(3) != (family.Sideband{}) {
			t.Errorf("width %d, needs %+v and %+v", m.Width(), m.Sideband(2), m.Sideband(3))
		}
		st, err := m.Stage(1, 2)
		if err != nil || st.Plan.Entry != "hc_init" || st.Plan.ExitNode(2) != "l_last-0" || st.Plan.Back != 1 || !st.Plan.In.IDs {
			t.Errorf("plan %+v, %v", st.Plan, err)
		}
		if _, _, v := pads(t, m, 1, 4, "hash_layer_count"); v.Type() != gguf.ValueU32 {
			t.Error("the hash layers are not stated")
		} else if n, _ := v.Int(); n != 2 {
			t.Errorf("%d hash layers in layers 1-4", n)
		}
	})
	t.Run("shared choices", func(t *testing.T) {
		m := describe(t, "glm-dsa", plain().with(keys{
			"attention.indexer.types": gguf.U32s([]uint32{1, 1, 1, 0, 0, 0, 1, 0}), "attention.indexer.top_k": gguf.U32(16), "attention.indexer.key_length": gguf.U32(32),
		}))
		for b, want := range map[int]int{1: 0, 3: 16, 5: 16, 6: 0, 7: 16} {
			if m.Sideband(b).TopK != want {
				t.Errorf("boundary %d needs %d positions", b, m.Sideband(b).TopK)
			}
		}
		st, err := m.Stage(4, 7)
		if err != nil {
			t.Fatal(err)
		}
		// A pad with an indexer, layers 4 and 5 that share, layer 6 with its own.
		if st.Plan.Front != 1 || st.Plan.Entry != "l_out-0" || st.Plan.TopKIn != "top_k-2" || st.Plan.TopKOut[5] != "top_k-2" || st.Plan.TopKOut[7] != "top_k-3" || st.Plan.TopKOut[6] != "" {
			t.Errorf("plan %+v", st.Plan)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for arch, part := range map[string]string{"kimi-k3": "residual stream", "minicpm3": "number of layers", "talkie": "embedding"} {
			if m := describe(t, arch, plain()); !strings.Contains(m.WholeOnly, part) || m.CheckRange(0, 4) == nil || m.CheckRange(0, 8) != nil {
				t.Errorf("%s: %q", arch, m.WholeOnly)
			}
		}
	})
}

func TestCertifiedIsSortedAndComplete(t *testing.T) {
	t.Parallel()
	list := family.Certified()
	if !slices.IsSorted(list) || len(list) == 0 {
		t.Errorf("certified %v", list)
	}
	for _, arch := range list {
		f, ok := family.Lookup(arch)
		if !ok || f.Arch != arch || f.Exit == "" {
			t.Errorf("%s: %+v, %v", arch, f, ok)
		}
		if f.Whole != "" {
			t.Errorf("%s is certified and refused", arch)
		}
	}
	for _, arch := range family.Known() {
		f, _ := family.Lookup(arch)
		special := f.Sliding != nil || f.Recurrent != 0 || f.Index != nil || f.Indexers != nil || f.Entry != "" || len(f.Needs)+len(f.Lengths)+len(f.Set)+len(f.Lead) > 0
		if special && f.Why == "" {
			t.Errorf("%s is special without a reason", arch)
		}
		for _, l := range f.WholeIf {
			if l.Why == "" || l.Least > l.Most {
				t.Errorf("%s: limit %+v", arch, l)
			}
		}
	}
}

// FuzzDescribe reads arbitrary files: whatever a header holds, the answer is an
// error or a model within the limits, whose methods hold for every range.
func FuzzDescribe(f *testing.F) {
	for _, seed := range []struct {
		arch string
		keys keys
	}{
		{"llama", plain()},
		{"gemma3", plain().with(keys{"attention.sliding_window": gguf.U32(64), "attention.sliding_window_pattern": gguf.U32(3)})},
		{"qwen2", plain().with(keys{"attention.head_count_kv": gguf.I32s([]int32{2, 2, 2, 2, 0, 0, 1, 1})})},
		{"other", plain()},
		{"deepseek4", plain().with(keys{"attention.compress_ratios": gguf.U32s([]uint32{0, 0, 4, 128, 4, 128, 4, 128}), "hyper_connection.count": gguf.U32(4), "attention.indexer.key_length": gguf.U32(32)})},
		{"glm-dsa", plain().with(keys{"attention.indexer.types": gguf.U32s([]uint32{1, 0, 0, 1, 0, 0, 1, 0}), "attention.indexer.top_k": gguf.U32(16), "attention.indexer.key_length": gguf.U32(32)})},
		{"nemotron_h", plain().with(keys{"attention.head_count_kv": gguf.I32s([]int32{0, 2, 0, 0, 2, 0, 0, 0}), "feed_forward_length": gguf.I32s([]int32{0, 0, 9, 0, 0, 9, 0, 0})})},
		{"llama4", plain().with(keys{"interleave_moe_layer_step": gguf.U32(2)})},
		{"gemma4", plain().with(keys{"attention.sliding_window": gguf.U32(64), "attention.sliding_window_pattern": gguf.Bools([]bool{true, true, false, true, true, false, true, true})})},
	} {
		f.Add(encode(f, seed.keys.header(seed.arch)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := gguf.ReadHeader(bytes.NewReader(raw), int64(len(raw)), gguf.DefaultLimits())
		if err != nil {
			return
		}
		m, err := family.Describe(h)
		if err != nil {
			if !errors.Is(err, family.ErrModel) || m != nil {
				t.Fatalf("error %v with model %v", err, m)
			}
			return
		}
		if m.Layers < 1 || m.Layers > 512 || m.Embd < 1 || m.Embd > 65536 || m.Context < 1 || m.Vocab < 0 || m.Window < 0 || m.Name == "" {
			t.Fatalf("model %+v", m)
		}
		if m.CheckRange(0, m.Layers) != nil {
			t.Fatal("the whole model is not legal")
		}
		for _, r := range [][2]int{{0, m.Layers}, {0, (m.Layers + 1) / 2}, {m.Layers / 2, m.Layers}, {m.Layers - 1, m.Layers}} {
			if n := m.KVBytesPerCell(r[0], r[1], 2); n < 0 || n > 1<<40 {
				t.Fatalf("%d bytes per cell", n)
			}
			if e := m.Exits(r[0], r[1]); len(e) == 0 || e[len(e)-1] != r[1] {
				t.Fatalf("exits %v of %v", e, r)
			}
			if err := m.CheckRange(r[0], r[1]); err == nil && r[1]-r[0] < m.Layers && m.WholeOnly != "" {
				t.Fatal("a whole-only model was cut")
			}
		}
	})
}

func encode(tb testing.TB, h *gguf.Header) []byte {
	tb.Helper()
	slices.SortFunc(h.KVs, func(a, b gguf.KV) int { return strings.Compare(a.Key, b.Key) })
	raw, err := gguf.EncodeHeader(h.KVs, nil, gguf.WriteOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// TestCorpus writes the committed corpus when asked to and checks else that it
// is there: hostile headers of this file as fuzzing seeds.
func TestCorpus(t *testing.T) {
	t.Parallel()
	hostile := map[string]keys{
		"huge-layers":  plain().with(keys{"block_count": gguf.U64(math.MaxUint64)}),
		"short-array":  plain().with(keys{"attention.head_count_kv": gguf.I32s([]int32{1, 1})}),
		"text-heads":   plain().with(keys{"attention.head_count": gguf.String("4")}),
		"bool-pattern": plain().with(keys{"attention.sliding_window": gguf.U32(8), "attention.sliding_window_pattern": gguf.Bools([]bool{true})}),
		"zero-heads":   plain().with(keys{"attention.head_count": gguf.U32(0)}),
		"no-heads":     plain().without("attention.head_count"),
		"many-experts": plain().with(keys{"expert_count": gguf.U32(8)}),
		"sixty-two":    plain().with(keys{"block_count": gguf.U32(62)}),
	}
	for name, k := range hostile {
		path := filepath.Join("testdata", "fuzz", "FuzzDescribe", name)
		want := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", encode(t, k.header("gemma3")))
		if os.Getenv("NEURON_UPDATE") != "" {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v, or another content (NEURON_UPDATE=1 writes it)", path, err)
		}
	}
}

// TestWindowMemory: sliding layers keep the window and one call's rows, padded
// to 256.
func TestWindowMemory(t *testing.T) {
	t.Parallel()
	m := describe(t, "gemma3", plain().with(keys{"attention.sliding_window": gguf.U32(512)}))
	if got := []int{m.WindowCells(1), m.WindowCells(256), m.WindowCells(257)}; !slices.Equal(got, []int{768, 768, 1024}) {
		t.Errorf("cells %v", got)
	}
	layer := int64(2 * 2 * 128 / 2)
	if got := m.KVLayerBytes(4, 7, 2); !slices.Equal(got, []int64{2 * layer, 2 * layer, 2 * layer}) {
		t.Errorf("layers cost %v", got)
	}
	// Of layers 4, 5 and 6 the middle one sees everything.
	if got := m.KVWindowBytes(4, 7, 2); got != 4*layer {
		t.Errorf("window costs %d", got)
	}
	p := describe(t, "llama", plain())
	if p.WindowCells(256) != 0 || p.KVWindowBytes(0, 8, 2) != 0 || !slices.Equal(p.Cuts(), []int{1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("a model without a window: %d %d %v", p.WindowCells(256), p.KVWindowBytes(0, 8, 2), p.Cuts())
	}
	if u := describe(t, "gptj", plain()); u.KVLayerBytes(0, 8, 2) != nil || len(u.Cuts()) != 0 {
		t.Errorf("an unknown family: %v %v", u.KVLayerBytes(0, 8, 2), u.Cuts())
	}
}
