package shapes

import "neuron/llama/gguf"

// Kinds of layers of the Qwen3.5 family: every fourth attends to all positions,
// the others keep a state of fixed size (gated delta net).
const (
	KindAttention = "attention"
	KindRecurrent = "recurrent"
)

// qwen35 are the sizes in which the Ornith models differ.
type qwen35 struct {
	name, title                string
	layers, embd, heads, kv    int
	keyHeads, valueHeads       int // of the recurrent layers, 128 wide
	ff                         int // of the dense model
	experts, used, expertFF    int
	vocab, context, sharedFF   int
	headDim, ropeDim, convSize int
}

// Ornith9B is deepreinforce-ai/Ornith-1.0-9B: dense, after Qwen3.5-9B.
func Ornith9B() *Shape {
	return newQwen35(qwen35{name: "ornith-9b", title: "Ornith 9B", layers: 32, embd: 4096, heads: 16, kv: 4, keyHeads: 16, valueHeads: 32, ff: 12288})
}

// Ornith35B is deepreinforce-ai/Ornith-1.0-35B: 35 billion weights, 3 of them for
// a token, after Qwen3.5-35B-A3B.
func Ornith35B() *Shape {
	return newQwen35(qwen35{name: "ornith-35b", title: "Ornith 35B", layers: 40, embd: 2048, heads: 16, kv: 2, keyHeads: 16, valueHeads: 32, experts: 256, used: 8, expertFF: 512})
}

// Ornith397B is deepreinforce-ai/Ornith-1.0-397B: 397 billion weights, 17 of them
// for a token, after Qwen3.5-397B-A17B.
func Ornith397B() *Shape {
	return newQwen35(qwen35{name: "ornith-397b", title: "Ornith 397B", layers: 60, embd: 4096, heads: 32, kv: 2, keyHeads: 16, valueHeads: 64, experts: 512, used: 10, expertFF: 1024})
}

func newQwen35(q qwen35) *Shape {
	q.vocab, q.context, q.headDim, q.ropeDim, q.convSize = 248320, 262144, 256, 64, 4
	q.sharedFF = q.expertFF
	const state = 128
	key, value := state*q.keyHeads, state*q.valueHeads
	arch := "qwen35"
	if q.experts > 0 {
		arch = "qwen35moe"
	}
	s := &Shape{
		Name: q.name, Title: q.title, Arch: arch,
		Embd: q.embd, Seam: q.embd, Vocab: q.vocab, Context: q.context, Experts: q.experts, Used: q.used,
	}
	for i := range q.layers {
		if i%4 == 3 {
			s.Kinds = append(s.Kinds, KindAttention)
		} else {
			s.Kinds = append(s.Kinds, KindRecurrent)
		}
	}
	s.globals = []Tensor{matrix("token_embd", q.embd, q.vocab, Embed), norm("output_norm", q.embd), matrix("output", q.embd, q.vocab, Head)}
	s.tensors = func(i int) []Tensor {
		list := []Tensor{norm("attn_norm", q.embd), norm("post_attention_norm", q.embd)}
		if s.Kinds[i] == KindAttention {
			list = append(list,
				matrix("attn_q", q.embd, 2*q.heads*q.headDim, Matrix), matrix("attn_k", q.embd, q.kv*q.headDim, Matrix), matrix("attn_v", q.embd, q.kv*q.headDim, Matrix),
				matrix("attn_output", q.heads*q.headDim, q.embd, Matrix), norm("attn_q_norm", q.headDim), norm("attn_k_norm", q.headDim))
		} else {
			list = append(list,
				matrix("attn_qkv", q.embd, 2*key+value, Matrix), matrix("attn_gate", q.embd, value, Matrix),
				matrix("ssm_conv1d", q.convSize, 2*key+value, Exact), vector("ssm_dt.bias", q.valueHeads), vector("ssm_a", q.valueHeads),
				matrix("ssm_beta", q.embd, q.valueHeads, Matrix), matrix("ssm_alpha", q.embd, q.valueHeads, Matrix), norm("ssm_norm", state),
				matrix("ssm_out", value, q.embd, Matrix))
		}
		if q.experts == 0 {
			return append(list, matrix("ffn_gate", q.embd, q.ff, Matrix), matrix("ffn_down", q.ff, q.embd, Matrix), matrix("ffn_up", q.embd, q.ff, Matrix))
		}
		return append(list, matrix("ffn_gate_inp", q.embd, q.experts, Exact),
			experts("ffn_gate_exps", q.embd, q.expertFF, q.experts, Expert), experts("ffn_down_exps", q.expertFF, q.embd, q.experts, ExpertIn),
			experts("ffn_up_exps", q.embd, q.expertFF, q.experts, Expert), norm("ffn_gate_inp_shexp", q.embd),
			matrix("ffn_gate_shexp", q.embd, q.sharedFF, Matrix), matrix("ffn_up_shexp", q.embd, q.sharedFF, Matrix), matrix("ffn_down_shexp", q.sharedFF, q.embd, Matrix))
	}
	s.meta = func(m *meta, list []int) {
		recurrent := make([]bool, len(list))
		plain := len(list) == len(s.Kinds)
		for k, i := range list {
			recurrent[k] = s.Kinds[i] == KindRecurrent
		}
		m.num("attention.head_count", q.heads)
		m.num("attention.head_count_kv", q.kv)
		m.num("attention.key_length", q.headDim)
		m.num("attention.value_length", q.headDim)
		m.real("attention.layer_norm_rms_epsilon", 1e-6)
		m.num("rope.dimension_count", q.ropeDim)
		m.add("rope.dimension_sections", gguf.I32s([]int32{11, 11, 10, 0}))
		m.real("rope.freq_base", 10_000_000)
		m.num("ssm.conv_kernel", q.convSize)
		m.num("ssm.state_size", state)
		m.num("ssm.group_count", q.keyHeads)
		m.num("ssm.time_step_rank", q.valueHeads)
		m.num("ssm.inner_size", value)
		if plain { // as published files say it
			m.num("full_attention_interval", 4)
		} else {
			m.add("attention.recurrent_layers", gguf.Bools(recurrent))
		}
		if q.experts == 0 {
			m.num("feed_forward_length", q.ff)
			return
		}
		m.num("expert_count", q.experts)
		m.num("expert_used_count", q.used)
		m.num("expert_feed_forward_length", q.expertFF)
		m.num("expert_shared_feed_forward_length", q.sharedFF)
	}
	// llama_kv_cache for attention; llama_memory_recurrent keeps the convolution's
	// last inputs and the state, both in F32, whatever the length.
	s.kv = func(kind string, tokens, _ int) int64 {
		if kind == KindAttention {
			return int64(2*2*q.kv*q.headDim) * pad(tokens)
		}
		return 4 * int64((q.convSize-1)*(2*key+value)+state*value)
	}
	return s
}
