package synth

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/llama/gguf"
)

var types = []gguf.Type{gguf.TypeF32, gguf.TypeF16, gguf.TypeBF16, gguf.TypeQ8_0, gguf.TypeQ4_0, gguf.TypeQ4_K}

var tiny = []string{"tiny-llama", "tiny-llama3", "tiny-qwen2", "tiny-qwen3", "tiny-gemma3"}

func TestTinyPresets(t *testing.T) {
	t.Parallel()
	for _, name := range tiny {
		for _, typ := range types {
			t.Run(name+"/"+typ.String(), func(t *testing.T) {
				t.Parallel()
				s, err := Preset(name)
				if err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				var sums [3][sha256.Size]byte
				for i, seed := range []uint64{7, 7, 8} {
					path := filepath.Join(dir, fmt.Sprint(i))
					if err := Write(path, s, Options{Type: typ, Seed: seed}); err != nil {
						t.Fatal(err)
					}
					b, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					sums[i] = sha256.Sum256(b)
				}
				if sums[0] != sums[1] || sums[0] == sums[2] {
					t.Error("the bytes do not follow the seed")
				}
				m, err := gguf.OpenModel(filepath.Join(dir, "0"))
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				if m.Meta().Architecture() != s.Family {
					t.Errorf("architecture %q", m.Meta().Architecture())
				}
				if _, ok := m.Tensor("output.weight"); ok == s.Tied {
					t.Errorf("output.weight present: %v", ok)
				}
				for _, mt := range m.Tensors() {
					if len(mt.Dims) == 2 && mt.Type != typ || len(mt.Dims) == 1 && mt.Type != gguf.TypeF32 {
						t.Errorf("%s has type %s", mt.Name, mt.Type)
					}
				}
				for name, want := range map[string]float64{"token_embd.weight": 1, "blk.3.attn_q.weight": 1.0 / 16, "blk.7.ffn_down.weight": 1 / math.Sqrt(512)} {
					if s.Tied && name == "token_embd.weight" {
						want = 1.0 / 16
					}
					mt, _ := m.Tensor(name)
					mean, std := moments(decode(t, typ, m.Data(mt)))
					if math.Abs(mean) > 0.02*want || math.Abs(std/want-1) > 0.02 {
						t.Errorf("%s: mean %g, spread %g, want 0 and %g", name, mean, std, want)
					}
				}
			})
		}
	}
}

func moments(v []float64) (mean, std float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		std += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, math.Sqrt(std)
}

// decode reads blocks as the format's description says, independently of generator.
func decode(t *testing.T, typ gguf.Type, b []byte) []float64 {
	t.Helper()
	le := binary.LittleEndian
	var out []float64
	for ; len(b) > 0; b = b[typ.TypeSize():] {
		switch typ {
		case gguf.TypeF32:
			out = append(out, float64(math.Float32frombits(le.Uint32(b))))
		case gguf.TypeF16:
			out = append(out, half(le.Uint16(b)))
		case gguf.TypeBF16:
			out = append(out, float64(math.Float32frombits(uint32(le.Uint16(b))<<16)))
		case gguf.TypeQ8_0:
			for _, q := range b[2:34] {
				if q == 0x80 {
					t.Fatal("int8 -128")
				}
				out = append(out, half(le.Uint16(b))*float64(int8(q)))
			}
		case gguf.TypeQ4_0:
			for _, q := range b[2:18] {
				out = append(out, half(le.Uint16(b))*(float64(q&15)-8), half(le.Uint16(b))*(float64(q>>4)-8))
			}
		case gguf.TypeQ4_K:
			d, dmin, p := half(le.Uint16(b)), half(le.Uint16(b[2:])), b[4:16]
			for j := range 8 {
				sc, m := p[j%4]&63, p[j%4+4]&63
				if j >= 4 {
					sc, m = p[j+4]&15|p[j-4]>>6<<4, p[j+4]>>4|p[j]>>6<<4
				}
				for k := range 32 {
					q := b[16+j/2*32+k] >> (4 * (j % 2)) & 15
					out = append(out, d*float64(sc)*float64(q)-dmin*float64(m))
				}
			}
		default:
			t.Fatalf("type %s", typ)
		}
	}
	return out
}

func half(h uint16) float64 {
	man, exp := float64(h&0x3ff), int(h>>10&31)
	v := math.Ldexp(man, -24)
	if exp > 0 {
		v = math.Ldexp(man+1024, exp-25)
	}
	if h>>15 == 1 {
		return -v
	}
	return v
}

// TestToF16 rounds every half-precision number, its neighbours and the points between.
func TestToF16(t *testing.T) {
	t.Parallel()
	for h := uint16(0); h < 0x7bff; h++ {
		a, b := half(h), half(h+1)
		mid := float32((a + b) / 2)
		even := h + h&1
		for _, tc := range []struct {
			v    float32
			want uint16
		}{{float32(a), h}, {mid, even}, {math.Nextafter32(mid, 0), h}, {math.Nextafter32(mid, 1e9), h + 1}} {
			if got := toF16(tc.v); got != tc.want {
				t.Fatalf("toF16(%g) = %#x, want %#x", tc.v, got, tc.want)
			}
			if got := toF16(-tc.v); got != tc.want|0x8000 {
				t.Fatalf("toF16(%g) = %#x, want %#x", -tc.v, got, tc.want|0x8000)
			}
		}
	}
	if toF16(1e6) != 0x7c00 || toF16(0) != 0 || toF16(1e-30) != 0 {
		t.Error("ends of the range")
	}
	if got := toBF16(1.00390625); got != 0x3f80 {
		t.Errorf("toBF16 of a tie is %#x", got)
	}
}

func TestTokenizer(t *testing.T) {
	t.Parallel()
	s, _ := Preset("tiny-llama")
	kvs := map[string]gguf.Value{}
	for _, kv := range tokenizer(s) {
		kvs[kv.Key] = kv.Value
	}
	tokens, _ := kvs["tokenizer.ggml.tokens"].Strings()
	seen := map[string]bool{}
	for _, tok := range tokens {
		if seen[tok] || tok == "" {
			t.Errorf("token %q twice", tok)
		}
		seen[tok] = true
	}
	if len(tokens) != s.Vocab || len(merges) != TokenEndOfText-256 {
		t.Errorf("%d tokens, %d merges", len(tokens), len(merges))
	}
	got := []string{tokens['A'], tokens[' '], tokens['\n'], tokens[0xad], tokens[TokenEndOfText], tokens[TokenIMStart], tokens[TokenIMEnd]}
	if d := cmp.Diff([]string{"A", "Ġ", "Ċ", "Ń", "<|endoftext|>", "<|im_start|>", "<|im_end|>"}, got); d != "" {
		t.Error(d)
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Preset("huge"); err == nil {
		t.Error("unknown preset")
	}
	for name, change := range map[string]func(*Shape, *Options){
		"family":          func(s *Shape, _ *Options) { s.Family = "gpt2" },
		"type":            func(_ *Shape, o *Options) { o.Type = gguf.TypeQ6_K },
		"no layers":       func(s *Shape, _ *Options) { s.Layers = 0 },
		"too many layers": func(s *Shape, _ *Options) { s.Layers = 513 },
		"negative":        func(s *Shape, _ *Options) { s.FF = -1 },
		"heads":           func(s *Shape, _ *Options) { s.KVHeads = 3 },
		"odd head":        func(s *Shape, _ *Options) { s.HeadDim = 63 },
		"vocabulary":      func(s *Shape, _ *Options) { s.Vocab = MinVocab - 1 },
		"window":          func(s *Shape, _ *Options) { s.SlidingWindow = 8 },
		"rope_freqs":      func(s *Shape, _ *Options) { s.Family, s.RopeFreqs = FamilyQwen2, true },
		"block":           func(s *Shape, o *Options) { s.Embd, o.Type = 128, gguf.TypeQ4_K },
	} {
		s, _ := Preset("tiny-llama")
		o := Options{}
		change(&s, &o)
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := Write(path, s, o); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: left a file", name)
		}
	}
}

func BenchmarkFill(b *testing.B) {
	for _, typ := range types {
		b.Run(typ.String(), func(b *testing.B) {
			g, r := newGenerator(typ, 0, 1), &rng{}
			b.SetBytes(int64(256 * 256 / typ.BlockSize() * typ.TypeSize()))
			scratch := make([]byte, 0, 1<<20)
			for b.Loop() {
				scratch = g.fill(scratch[:0], int(256*256/typ.BlockSize()), r)
			}
		})
	}
}
