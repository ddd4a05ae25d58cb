package shapes

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"testing"

	"neuron/llama/gguf"
)

func TestHalf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		x    float64
		want uint16
	}{{1, 0x3c00}, {-2, 0xc000}, {1.5, 0x3e00}, {1e-9, 0x0400}, {1e9, 0x7bff}, {0.1, 0x2e66}} {
		if got := half(c.x); got != c.want {
			t.Errorf("half(%g) = %#x, want %#x", c.x, got, c.want)
		}
	}
}

// A table has one block per kind and model; what stands in it before is replaced.
func TestRewrite(t *testing.T) {
	t.Parallel()
	const doc = "a\n<!-- table: seam ornith-35b -->\nold\n<!-- end -->\nb\n"
	got, err := Rewrite(doc, t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	again, err := Rewrite(got, t.TempDir(), t.TempDir())
	if err != nil || again != got || bytes.Contains([]byte(got), []byte("old")) || !bytes.Contains([]byte(got), []byte("| one token (2048 floats) | 8 KiB | 4 KiB |")) {
		t.Errorf("%v\n%s", err, got)
	}
	for _, bad := range []string{"<!-- table: seam nothing -->\n<!-- end -->", "<!-- table: nothing ornith-35b -->\n<!-- end -->"} {
		if _, err := Rewrite(bad, t.TempDir(), t.TempDir()); err == nil {
			t.Errorf("%s passes", bad)
		}
	}
}

// Layers are written whole, in the types of the recipe; hash layers are refused.
func TestWriteLayers(t *testing.T) {
	t.Parallel()
	s := Ornith35B()
	r, _ := s.Recipe("Q4_K")
	path := filepath.Join(t.TempDir(), "layers.gguf")
	if err := DeepSeekV4Flash().WriteLayers(context.Background(), path, mixed("Q2_K", gguf.TypeQ2_K, gguf.TypeQ2_K), []int{1, 2}, 1); err == nil {
		t.Error("a hash layer passes")
	}
	// A small one of the same kind.
	s.tensors = func(int) []Tensor {
		return []Tensor{norm("attn_norm", 512), experts("ffn_gate_exps", 512, 256, 4, Expert), matrix("attn_q", 512, 64, Matrix)}
	}
	if err := s.WriteLayers(context.Background(), path, r, []int{0, 3}, 1); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{"blk.0.ffn_gate_exps.weight", "blk.1.attn_q.weight"} {
		x, ok := f.Header().Tensor(name)
		if data := f.TensorData(x); !ok || bytes.Count(data, []byte{0}) > len(data)/10 {
			t.Errorf("%s is missing or empty", name)
		}
	}
}

func TestMeasuredSums(t *testing.T) {
	t.Parallel()
	s := Ornith35B()
	m := &Measured{Recipe: "Q4_K", Layers: map[string]LayerTime{kindPair: {Step: 10, Chunk: 100}, KindRecurrent: {Step: 4, Chunk: 30}}}
	all, err := m.Total(s)
	if err != nil || all.Step != 30*4+10*6 || all.Chunk != 30*30+10*70 {
		t.Errorf("%+v %v", all, err)
	}
	p, err := s.Predict(m)
	if err != nil || len(p) != len(HopCounts) || p[0].Token[2]-p[0].Token[0] != 4*(RoundTrips[2]-RoundTrips[0])/2 {
		t.Errorf("%+v %v", p, err)
	}
	if math.Abs(p[1].Busy/p[0].Busy-2) > 1e-9 {
		t.Errorf("twice the nodes give %g of the tokens", p[1].Busy/p[0].Busy)
	}
	if _, err := (&Measured{Recipe: "Q4_K"}).Total(s); err == nil {
		t.Error("nothing was measured, and there is a sum")
	}
}
