package torch

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// model is a random model in F32.
type model struct {
	name    string
	experts bool
	write   func(path string) error
}

// exact is the model's tolerance in the mode of that name.
func (m *model) exact() float64 {
	if strings.HasPrefix(m.name, "tiny-gemma") {
		return toleranceTable
	}
	return toleranceExact
}

// models are those that the reference can express: what llama/synth writes, and
// three more families.
func models() []model {
	var out []model
	for _, preset := range []string{"tiny-llama", "tiny-llama3", "tiny-qwen2", "tiny-qwen3", "tiny-gemma3"} {
		out = append(out, model{preset, false, func(path string) error {
			s, err := synth.Preset(preset)
			if err != nil {
				return err
			}
			return synth.Write(path, s, synth.Options{Type: gguf.TypeF32, Seed: 5})
		}})
	}
	for _, f := range []small{
		{arch: "gemma", tied: true}, {arch: "gemma2", tied: true, post: true},
		{arch: "llama", experts: 8, name: "tiny-mixtral"}, {arch: "qwen3moe", experts: 8, qkNorm: true},
	} {
		if f.name == "" {
			f.name = "tiny-" + f.arch
		}
		out = append(out, model{f.name, f.experts > 0, f.write})
	}
	return out
}

// small is a family that llama/synth does not write, in a small shape.
type small struct {
	name, arch   string
	tied, post   bool // no output matrix; norms behind both halves of a layer
	qkNorm       bool
	experts      int
	infos        []gguf.TensorInfo
	means, sizes []float64
}

const (
	smallLayers, smallEmbd, smallFF, smallVocab = 6, 128, 192, 512
	smallHeads, smallKV, smallHead              = 4, 2, 32
)

func (f small) write(path string) error {
	f.tensors()
	rng := rand.New(rand.NewPCG(7, 7))
	data := func(i int, w io.Writer) error {
		n, err := f.infos[i].Elements()
		if err != nil {
			return err
		}
		b := make([]byte, 0, 4*n)
		for range n {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(f.means[i]+f.sizes[i]*rng.NormFloat64())))
		}
		_, err = w.Write(b)
		return err
	}
	if err := gguf.WriteFile(path, f.meta(), f.infos, data, gguf.WriteOptions{}); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}

func (f *small) add(name string, mean, size float64, dims ...uint64) {
	f.infos = append(f.infos, gguf.TensorInfo{Name: name, Dims: dims, Type: gguf.TypeF32})
	f.means, f.sizes = append(f.means, mean), append(f.sizes, size)
}

func (f *small) tensors() {
	matrix := func(name string, gain float64, dims ...uint64) {
		f.add(name+".weight", 0, gain/math.Sqrt(float64(dims[0])), dims...)
	}
	norm := func(name string, n uint64) { f.add(name+".weight", 1, 0.1, n) }
	const q, kv = smallHeads * smallHead, smallKV * smallHead
	matrix("token_embd", 1, smallEmbd, smallVocab)
	for i := range smallLayers {
		p := fmt.Sprintf("blk.%d.", i)
		norm(p+"attn_norm", smallEmbd)
		matrix(p+"attn_q", 1, smallEmbd, q)
		matrix(p+"attn_k", 1, smallEmbd, kv)
		matrix(p+"attn_v", 1, smallEmbd, kv)
		matrix(p+"attn_output", 1, q, smallEmbd)
		if f.qkNorm {
			norm(p+"attn_q_norm", smallHead)
			norm(p+"attn_k_norm", smallHead)
		}
		norm(p+"ffn_norm", smallEmbd)
		if f.post {
			norm(p+"post_attention_norm", smallEmbd)
			norm(p+"post_ffw_norm", smallEmbd)
		}
		if f.experts == 0 {
			matrix(p+"ffn_gate", 1, smallEmbd, smallFF)
			matrix(p+"ffn_up", 1, smallEmbd, smallFF)
			matrix(p+"ffn_down", 1, smallFF, smallEmbd)
			continue
		}
		n := uint64(f.experts)
		// Large, so that a token's best experts lead clearly: the choice is a step,
		// and half precision must not decide it.
		matrix(p+"ffn_gate_inp", 4, smallEmbd, n)
		matrix(p+"ffn_gate_exps", 1, smallEmbd, smallFF, n)
		matrix(p+"ffn_up_exps", 1, smallEmbd, smallFF, n)
		matrix(p+"ffn_down_exps", 1, smallFF, smallEmbd, n)
	}
	if f.tied {
		// Signs at random, so that the input's own token does not always win.
		f.add("output_norm.weight", 0, 4, smallEmbd)
		return
	}
	norm("output_norm", smallEmbd)
	matrix("output", 4, smallEmbd, smallVocab)
}

func (f *small) meta() []gguf.KV {
	kvs := []gguf.KV{{Key: gguf.ArchitectureKey, Value: gguf.String(f.arch)}, {Key: "tokenizer.ggml.model", Value: gguf.String("no_vocab")}}
	num := func(key string, n int) {
		kvs = append(kvs, gguf.KV{Key: f.arch + "." + key, Value: gguf.U32(uint32(n))})
	}
	real := func(key string, x float32) {
		kvs = append(kvs, gguf.KV{Key: f.arch + "." + key, Value: gguf.F32(x)})
	}
	num("context_length", 2048)
	num("embedding_length", smallEmbd)
	num("block_count", smallLayers)
	num("feed_forward_length", smallFF)
	num("vocab_size", smallVocab)
	num("attention.head_count", smallHeads)
	num("attention.head_count_kv", smallKV)
	num("attention.key_length", smallHead)
	num("attention.value_length", smallHead)
	num("rope.dimension_count", smallHead)
	real("attention.layer_norm_rms_epsilon", 1e-5)
	real("rope.freq_base", 10_000)
	if f.experts > 0 {
		num("expert_count", f.experts)
		num("expert_used_count", 2)
		num("expert_feed_forward_length", smallFF)
	}
	if f.arch == "gemma2" {
		num("attention.sliding_window", 40)
		real("attn_logit_softcapping", 50)
		real("final_logit_softcapping", 30)
	}
	return kvs
}
