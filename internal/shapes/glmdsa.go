package shapes

import "neuron/llama/gguf"

// Kinds of layers of GLM-5.2: a full indexer chooses which positions its own
// layer and the shared ones behind it look at.
const (
	KindDenseFull  = "dense, full"
	KindMoEFull    = "MoE, full"
	KindMoEShared  = "MoE, shared"
	glmDenseLayers = 3
)

// glmFull says which layers have an indexer of their own.
func glmFull(i int) bool { return i < 3 || i >= 6 && (i-6)%4 == 0 }

// GLM52 is zai-org/GLM-5.2: 744 billion weights, 40 of them for a token. The
// block of its further-token head (the 79th of published files) is left out, as
// in stages.
func GLM52() *Shape {
	const (
		layers, embd, heads, rope, head = 78, 6144, 64, 64, 256
		qRank, kvRank                   = 2048, 512
		nExp, used, ff, denseFF         = 256, 8, 2048, 12288
		idxHeads, idxHead, topK         = 32, 128, 2048
		vocab, context                  = 154880, 1048576
	)
	s := &Shape{
		Name: "glm-5.2", Title: "GLM-5.2", Arch: "glm-dsa",
		Embd: embd, Seam: embd, Vocab: vocab, Context: context, Experts: nExp, Used: used,
	}
	for i := range layers {
		switch {
		case i < glmDenseLayers:
			s.Kinds = append(s.Kinds, KindDenseFull)
		case glmFull(i):
			s.Kinds = append(s.Kinds, KindMoEFull)
		default:
			s.Kinds = append(s.Kinds, KindMoEShared)
		}
	}
	s.globals = []Tensor{matrix("token_embd", embd, vocab, Embed), norm("output_norm", embd), matrix("output", embd, vocab, Head)}
	s.tensors = func(i int) []Tensor {
		list := []Tensor{
			norm("attn_norm", embd), norm("attn_q_a_norm", qRank), norm("attn_kv_a_norm", kvRank),
			matrix("attn_q_a", embd, qRank, Matrix), matrix("attn_q_b", qRank, heads*head, Matrix), matrix("attn_kv_a_mqa", embd, kvRank+rope, Matrix),
			experts("attn_k_b", head-rope, kvRank, heads, Matrix), experts("attn_v_b", kvRank, head, heads, Matrix),
			matrix("attn_output", heads*head, embd, Matrix), norm("ffn_norm", embd),
		}
		if glmFull(i) {
			list = append(list, norm("indexer.k_norm", idxHead), vector("indexer.k_norm.bias", idxHead), matrix("indexer.proj", embd, idxHeads, Exact),
				matrix("indexer.attn_k", embd, idxHead, Matrix), matrix("indexer.attn_q_b", qRank, idxHeads*idxHead, Matrix))
		}
		if i < glmDenseLayers {
			return append(list, matrix("ffn_gate", embd, denseFF, Matrix), matrix("ffn_down", denseFF, embd, Matrix), matrix("ffn_up", embd, denseFF, Matrix))
		}
		return append(list, matrix("ffn_gate_inp", embd, nExp, Exact), vector("exp_probs_b.bias", nExp),
			experts("ffn_gate_exps", embd, ff, nExp, Expert), experts("ffn_down_exps", ff, embd, nExp, ExpertIn), experts("ffn_up_exps", embd, ff, nExp, Expert),
			matrix("ffn_gate_shexp", embd, ff, Matrix), matrix("ffn_down_shexp", ff, embd, Matrix), matrix("ffn_up_shexp", embd, ff, Matrix))
	}
	s.meta = func(m *meta, list []int) {
		types, dense := make([]bool, len(list)), 0
		for k, i := range list {
			types[k] = glmFull(i)
			if i < glmDenseLayers {
				dense++
			}
		}
		m.num("attention.head_count", heads)
		m.num("attention.head_count_kv", 1)
		m.num("attention.key_length", kvRank+rope)
		m.num("attention.value_length", kvRank)
		m.num("attention.key_length_mla", head)
		m.num("attention.value_length_mla", head)
		m.num("attention.q_lora_rank", qRank)
		m.num("attention.kv_lora_rank", kvRank)
		m.real("attention.layer_norm_rms_epsilon", 1e-5)
		m.num("attention.indexer.head_count", idxHeads)
		m.num("attention.indexer.key_length", idxHead)
		m.num("attention.indexer.top_k", topK)
		m.add("attention.indexer.types", gguf.Bools(types))
		m.num("rope.dimension_count", rope)
		m.real("rope.freq_base", 8_000_000)
		m.num("leading_dense_block_count", dense)
		m.num("feed_forward_length", denseFF)
		m.num("expert_feed_forward_length", ff)
		m.num("expert_count", nExp)
		m.num("expert_used_count", used)
		m.num("expert_shared_count", 1)
		m.real("expert_weights_scale", 2.5)
		m.add("expert_weights_norm", gguf.Bool(true))
		m.num("expert_gating_func", 2) // sigmoid
	}
	// llama_kv_cache_dsa: one latent row per position, and the indexer's key on
	// full layers.
	s.kv = func(kind string, tokens, _ int) int64 {
		row := int64(2 * (kvRank + rope))
		if kind != KindMoEShared {
			row += 2 * idxHead
		}
		return row * pad(tokens)
	}
	return s
}
