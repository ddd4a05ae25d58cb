package synth

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"

	"neuron/llama/gguf"
)

// tensor is one tensor and how its values are drawn.
type tensor struct {
	info   gguf.TensorInfo
	mean   float64
	std    float64
	values []float32 // given values instead of drawn ones
}

// logitStd is the spread of the logits. With it the best token leads the second by about
// one, far above rounding differences between builds.
const logitStd = 4

// tensors lists a model's tensors in the usual file order: the embedding, layer after
// layer, then what the tail needs.
//
// Matrices have the spread 1/sqrt(row length), so that each maps a vector of unit spread
// to one of unit spread; norms lie around 1.
func tensors(s Shape, typ gguf.Type) []tensor {
	var list []tensor
	matrix := func(name string, in, out int, gain float64) {
		list = append(list, tensor{
			info: gguf.TensorInfo{Name: name + ".weight", Dims: []uint64{uint64(in), uint64(out)}, Type: typ},
			std:  gain / math.Sqrt(float64(in)),
		})
	}
	vector := func(name string, n int, mean, std float64) {
		list = append(list, tensor{
			info: gguf.TensorInfo{Name: name, Dims: []uint64{uint64(n)}, Type: gguf.TypeF32},
			mean: mean, std: std,
		})
	}
	norm := func(name string, n int) { vector(name+".weight", n, 1, 0.1) }

	// A tied embedding is the output matrix too, where unit gain keeps the logits small.
	// The last norm then brings the spread of the logits, with signs at random: otherwise
	// the input's own token, which the residual stream still contains, would always win.
	gain := math.Sqrt(float64(s.Embd))
	if s.Tied {
		gain = 1
	}
	matrix("token_embd", s.Embd, s.Vocab, gain)
	if s.RopeFreqs {
		f := ropeFactors(s)
		list = append(list, tensor{
			info:   gguf.TensorInfo{Name: "rope_freqs.weight", Dims: []uint64{uint64(len(f))}, Type: gguf.TypeF32},
			values: f,
		})
	}
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	for i := range s.Layers {
		p := fmt.Sprintf("blk.%d.", i)
		norm(p+"attn_norm", s.Embd)
		matrix(p+"attn_q", s.Embd, q, 1)
		matrix(p+"attn_k", s.Embd, kv, 1)
		matrix(p+"attn_v", s.Embd, kv, 1)
		matrix(p+"attn_output", q, s.Embd, 1)
		switch s.Family {
		case FamilyQwen2:
			vector(p+"attn_q.bias", q, 0, 0.5)
			vector(p+"attn_k.bias", kv, 0, 0.5)
			vector(p+"attn_v.bias", kv, 0, 0.1)
		case FamilyQwen3, FamilyGemma3:
			norm(p+"attn_q_norm", s.HeadDim)
			norm(p+"attn_k_norm", s.HeadDim)
		}
		if s.Family == FamilyGemma3 {
			norm(p+"post_attention_norm", s.Embd)
		}
		norm(p+"ffn_norm", s.Embd)
		matrix(p+"ffn_gate", s.Embd, s.FF, 1)
		matrix(p+"ffn_up", s.Embd, s.FF, 1)
		matrix(p+"ffn_down", s.FF, s.Embd, 1)
		if s.Family == FamilyGemma3 {
			norm(p+"post_ffw_norm", s.Embd)
		}
	}
	if s.Tied {
		vector("output_norm.weight", s.Embd, 0, logitStd)
	} else {
		norm("output_norm", s.Embd)
		matrix("output", s.Embd, s.Vocab, logitStd)
	}
	return list
}

// ropeFactors are the frequency divisors of Llama 3.1: 1 for short wavelengths, 8 for
// those beyond the trained context of 8192, smooth between 8192/4 and 8192.
func ropeFactors(s Shape) []float32 {
	const factor, lowFreq, highFreq, context = 8.0, 1.0, 4.0, 8192.0
	out := make([]float32, s.HeadDim/2)
	for i := range out {
		wave := 2 * math.Pi * math.Pow(float64(ropeBase(s)), float64(2*i)/float64(s.HeadDim))
		switch {
		case wave < context/highFreq:
			out[i] = 1
		case wave > context/lowFreq:
			out[i] = factor
		default:
			smooth := (context/wave - lowFreq) / (highFreq - lowFreq)
			out[i] = float32(1 / ((1-smooth)/factor + smooth))
		}
	}
	return out
}

// write streams the tensor's bytes. They depend on the seed, the name, the type and the
// size only, not on the other tensors.
func (t tensor) write(w io.Writer, seed uint64) error {
	if t.values != nil {
		b := make([]byte, 0, 4*len(t.values))
		for _, v := range t.values {
			b = appendF32(b, v)
		}
		_, err := w.Write(b)
		return err
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, t.info.Name) // a hash never fails
	rng := &rng{state: h.Sum64() ^ seed*0x9e3779b97f4a7c15}
	n, err := t.info.Elements()
	if err != nil {
		return err
	}
	g := newGenerator(t.info.Type, t.mean, t.std)
	blocks := n / t.info.Type.BlockSize()
	const batch = 4096 // blocks at once, at most 576 KiB
	buf := make([]byte, 0, batch*t.info.Type.TypeSize())
	for blocks > 0 {
		k := min(blocks, batch)
		buf = g.fill(buf[:0], int(k), rng)
		if _, err := w.Write(buf); err != nil {
			return err
		}
		blocks -= k
	}
	return nil
}
