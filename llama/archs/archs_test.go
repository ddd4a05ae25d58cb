package archs

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"neuron/llama"
	"neuron/llama/gguf"
)

func load(t *testing.T) {
	t.Helper()
	dir, err := llama.NativeDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := llama.Load(dir); err != nil {
		t.Fatal(err)
	}
}

func TestTableParses(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range table() {
		if seen[s.name] {
			t.Errorf("%s stands twice", s.name)
		}
		seen[s.name] = true
		kvs, err := s.metadata(gguf.TypeF32)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		keys := map[string]bool{}
		for _, kv := range kvs {
			if keys[kv.Key] {
				t.Errorf("%s: %s twice", s.name, kv.Key)
			}
			keys[kv.Key] = true
		}
		m := s.model()
		if m.Layers < 4 || m.Kind == "" || m.Arch == "" {
			t.Errorf("%+v", m)
		}
		if _, err := s.listed(m.Layers); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		// Whether a variant is another shape of a family that is there.
		if m.Name != m.Arch && !seen[m.Arch] {
			t.Errorf("%s is a variant of nothing", m.Name)
		}
	}
}

// TestAllArchitectures: what libllama knows is in the table or left out with a reason.
// It knows a name when it complains about something else than the name.
func TestAllArchitectures(t *testing.T) {
	load(t)
	has := map[string]bool{}
	for _, m := range List() {
		has[m.Arch] = true
	}
	for _, l := range LeftOut() {
		if has[l.Arch] || l.Reason == "" {
			t.Errorf("%s is in the table, too, or has no reason", l.Arch)
		}
		has[l.Arch] = true
	}
	for name := range has {
		if !known(t, name) {
			t.Errorf("libllama does not know %q", name)
		}
	}
	if known(t, "no-such-family") {
		t.Fatal("the question does not tell names apart")
	}
	for _, name := range namesIn(t) {
		if !has[name] && known(t, name) {
			t.Errorf("libllama knows %q, which is neither in the table nor left out", name)
		}
	}
}

// known asks libllama whether it knows an architecture: it reads the name first.
func known(t *testing.T, arch string) bool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	err := gguf.WriteFile(path, []gguf.KV{{Key: gguf.ArchitectureKey, Value: gguf.String(arch)}}, nil, nil, gguf.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.LoadModel([]string{path}, llama.ModelParams{VocabOnly: true})
	if err == nil {
		m.Free()
		return true
	}
	return !strings.Contains(err.Error(), "unknown model architecture")
}

// namesIn gives texts of the library's file that look like names of architectures: short
// ones of small letters, digits and dashes around those that are known to be there.
func namesIn(t *testing.T) []string {
	t.Helper()
	dir, err := llama.NativeDir()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*llama*"))
	if err != nil || len(files) == 0 {
		t.Skipf("no library in %s: %v", dir, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	from, to := bytes.Index(b, []byte("\x00starcoder\x00")), bytes.Index(b, []byte("\x00general.type\x00"))
	if from < 0 || to < from || to-from > 1<<16 {
		t.Skip("the library's texts lie otherwise here")
	}
	var out []string
	for text := range bytes.SplitSeq(b[from:to], []byte{0}) {
		name := string(text)
		if len(name) > 1 && len(name) < 24 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if len(out) < 50 {
		t.Errorf("only %d names found", len(out))
	}
	return out
}

// TestWrite: the same seed gives the same bytes, types are what was asked for, ids are
// experts, and weights have the spread that keeps activations in bounds.
func TestWrite(t *testing.T) {
	load(t)
	dir := t.TempDir()
	write := func(name string, typ gguf.Type, seed uint64) (string, []byte) {
		t.Helper()
		path := filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+typ.String())
		if err := Write(path, name, typ, seed); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return path, b
	}
	_, a := write("qwen2", gguf.TypeQ4_0, 1)
	_, again := write("qwen2", gguf.TypeQ4_0, 1)
	_, other := write("qwen2", gguf.TypeQ4_0, 2)
	if !bytes.Equal(a, again) || bytes.Equal(a, other) {
		t.Error("the bytes do not follow the seed")
	}
	path, _ := write("deepseek4", gguf.TypeQ4_K, 1)
	m, err := gguf.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for name, want := range map[string]gguf.Type{
		"blk.0.ffn_gate_tid2eid.weight": gguf.TypeI32, "blk.0.ffn_gate_exps.weight": gguf.TypeQ4_K,
		"blk.3.ffn_gate_inp.weight": gguf.TypeF32, "blk.2.attn_norm.weight": gguf.TypeF32,
	} {
		if mt, ok := m.Tensor(name); !ok || mt.Type != want {
			t.Errorf("%s: %v %v, want %v", name, ok, mt.Type, want)
		}
	}
	mt, _ := m.Tensor("blk.0.ffn_gate_tid2eid.weight")
	ids := m.Data(mt)
	for i := 0; i < len(ids); i += 8 {
		if x, y := ids[i], ids[i+4]; x > 3 || y > 3 || x == y {
			t.Fatalf("token %d goes to experts %d and %d", i/8, x, y)
		}
	}
	if _, ok := m.Tensor("blk.3.ffn_gate_tid2eid.weight"); ok {
		t.Error("layer 3 has a table of ids")
	}
	for _, bad := range []func() error{
		func() error { return Write(filepath.Join(dir, "x"), "no-such-family", gguf.TypeF32, 1) },
		func() error { return Write(filepath.Join(dir, "x"), "llama", gguf.TypeIQ1_S, 1) },
		func() error { return Write(filepath.Join(dir, "none", "x"), "llama", gguf.TypeF32, 1) },
	} {
		if bad() == nil {
			t.Error("no error")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("a file in spite of an error")
	}
}

// TestPredictingLayer: a model with a layer that only predicts has its tensors, and
// loads.
func TestPredictingLayer(t *testing.T) {
	load(t)
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := Write(path, "glm4moe/mtp", gguf.TypeQ4_0, 1); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mt, ok := f.Tensor("blk.8.nextn.eh_proj.weight")
	if !ok || !slices.Equal(mt.Dims, []uint64{512, 256}) {
		t.Errorf("%v %v", ok, mt.Dims)
	}
	m, err := llama.LoadModel([]string{path}, llama.ModelParams{})
	if err != nil {
		t.Fatal(err)
	}
	m.Free()
}

func TestParseValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]gguf.Value{
		"12": gguf.U32(12), "0.5": gguf.F32(0.5), "true": gguf.Bool(true), "'yarn'": gguf.String("yarn"),
		"[1,0]*2": gguf.I32s([]int32{1, 0, 1, 0}), "[0.5,1]": gguf.F32s([]float32{0.5, 1}), "[u64:7]": gguf.U64s([]uint64{7}),
	} {
		if got, err := parseValue(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "-1", "[", "[a]", "[1]*0", "[1]*x", "1.2.3"} {
		if v, err := parseValue(text); err == nil {
			t.Errorf("%q gives %v", text, v)
		}
	}
	for _, with := range []string{"a=1 -b", "a", "=1", "a="} {
		if _, err := (spec{name: "x", with: with}).keys(); err == nil {
			t.Errorf("%q: no error", with)
		}
	}
	kvs, err := spec{name: "x", with: "a=1 b=2 a='two words' -b"}.keys()
	if err != nil || len(kvs) != 9 || kvs[8].Key != "a" || !kvs[8].Value.Equal(gguf.String("two words")) {
		t.Errorf("%v, %v", kvs, err)
	}
	if _, err := layersOf("2-9", 8); err == nil {
		t.Error("layer 9 of 8")
	}
	if in, err := layersOf("0,2-3", 8); err != nil || !slices.Equal(in, []int{0, 2, 3}) {
		t.Errorf("%v, %v", in, err)
	}
}

func TestDraw(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]float64{
		"blk.0.attn_q.weight": {0, 1.0 / 16}, "blk.7.attn_norm.weight": {1, 0.1}, "output.weight": {0, 4.0 / 16}, "token_embd.weight": {0, 1},
	} {
		v := make([]float32, 1<<16)
		d := drawer{lastNorm: "output_norm.weight"}
		d.draw(gguf.TensorInfo{Name: name, Dims: []uint64{256, 256}}, &source{state: 1}, v)
		var mean, sq float64
		for _, x := range v {
			mean += float64(x) / float64(len(v))
			sq += float64(x) * float64(x) / float64(len(v))
		}
		if std := math.Sqrt(sq - mean*mean); math.Abs(mean-want[0]) > 0.02 || math.Abs(std/want[1]-1) > 0.03 {
			t.Errorf("%s: mean %g, spread %g", name, mean, std)
		}
	}
}
