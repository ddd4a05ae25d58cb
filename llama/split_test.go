package llama

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/llama/gguf"
)

// A model in two files under names of our own gives the same answer as the whole.
func TestLoadFromSplits(t *testing.T) {
	whole := loadGuide(t, ModelParams{})
	want := generate(t, newContext(t, whole, ContextParams{}), whole, chain(t, Greedy()), chatPrompt, 0, 20)
	f, err := gguf.Open(guidePath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := f.Header()
	half := len(h.Tensors) / 2
	var paths []string
	for i, part := range [][]gguf.TensorInfo{h.Tensors[:half], h.Tensors[half:]} {
		laid, _, err := gguf.Layout(part, 32)
		if err != nil {
			t.Fatal(err)
		}
		kvs := []gguf.KV{
			{Key: "split.no", Value: gguf.U16(uint16(i))},
			{Key: "split.count", Value: gguf.U16(2)},
			{Key: "split.tensors.count", Value: gguf.I32(int32(len(h.Tensors)))},
		}
		if i == 0 {
			kvs = append(append([]gguf.KV(nil), h.KVs...), kvs...)
		}
		path := filepath.Join(t.TempDir(), []string{"stem.gguf", "rest.gguf"}[i])
		write := func(j int, w io.Writer) error {
			_, err := w.Write(f.TensorData(part[j]))
			return err
		}
		if err := gguf.WriteFile(path, kvs, laid, write, gguf.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	m, err := LoadModel(paths, ModelParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	c := newContext(t, m, ContextParams{})
	defer c.Free()
	if d := cmp.Diff(want, generate(t, c, m, chain(t, Greedy()), chatPrompt, 0, 20)); d != "" {
		t.Error(d)
	}
	_, err = LoadModel([]string{paths[0], paths[0]}, ModelParams{})
	wantCode(t, err, CodeModelLoad)
}
