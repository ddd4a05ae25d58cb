package shapes

import (
	"slices"

	"neuron/llama/gguf"
)

// Kinds of layers of DeepSeek-V4, by what a layer sees beside its window of 128
// positions.
const (
	KindWindow = "window" // nothing
	KindCSA    = "CSA"    // every 4th position, chosen by an indexer
	KindHCA    = "HCA"    // every 128th position, all of them
)

const (
	csaRatio = 4
	hcaRatio = 128
)

// DeepSeekV4Flash is deepseek-ai/DeepSeek-V4-Flash: 284 billion weights, 13 of
// them for a token. Its block of a further-token head is left out, as in stages.
func DeepSeekV4Flash() *Shape {
	const (
		layers, embd, heads, head, rope = 43, 4096, 64, 512, 64
		qRank, groups, outRank          = 1024, 8, 1024
		nExp, used, ff                  = 256, 6, 2048
		idxHeads, idxHead, topK, window = 64, 128, 512, 128
		streams, hash, vocab, context   = 4, 3, 129280, 1048576
		hcDim, hcMix                    = streams * embd, (2 + streams) * streams
	)
	s := &Shape{
		Name: "deepseek-v4-flash", Title: "DeepSeek-V4-Flash", Arch: "deepseek4",
		Embd: embd, Seam: hcDim, Vocab: vocab, Context: context, Experts: nExp, Used: used,
	}
	ratio := make([]int, layers)
	for i := range layers {
		kind := KindWindow
		switch {
		case i >= 2 && i%2 == 0:
			kind, ratio[i] = KindCSA, csaRatio
		case i >= 2:
			kind, ratio[i] = KindHCA, hcaRatio
		}
		s.Kinds = append(s.Kinds, kind)
	}
	s.globals = []Tensor{
		matrix("token_embd", embd, vocab, Embed), norm("output_norm", embd), matrix("output", embd, vocab, Head),
		matrix("output_hc_fn", hcDim, streams, Exact), norm("output_hc_base", streams), norm("output_hc_scale", 1),
	}
	s.tensors = func(i int) []Tensor {
		list := []Tensor{
			norm("attn_norm", embd), norm("attn_sinks", heads),
			matrix("attn_q_a", embd, qRank, Matrix), norm("attn_q_a_norm", qRank), matrix("attn_q_b", qRank, heads*head, Matrix),
			matrix("attn_kv", embd, head, Matrix), norm("attn_kv_a_norm", head),
			matrix("attn_output_a", heads*head/groups, outRank*groups, Matrix), matrix("attn_output_b", groups*outRank, embd, Matrix),
			matrix("hc_attn_fn", hcDim, hcMix, Small), norm("hc_attn_base", hcMix), norm("hc_attn_scale", 3),
			matrix("hc_ffn_fn", hcDim, hcMix, Small), norm("hc_ffn_base", hcMix), norm("hc_ffn_scale", 3),
		}
		if ratio[i] != 0 {
			wide := head
			if ratio[i] == csaRatio {
				wide *= 2
			}
			list = append(list,
				matrix("attn_compressor_kv", embd, wide, Small), matrix("attn_compressor_gate", embd, wide, Small),
				matrix("attn_compressor_ape", wide, ratio[i], Exact), norm("attn_compressor_norm", head))
		}
		if ratio[i] == csaRatio {
			list = append(list,
				matrix("indexer.proj", embd, idxHeads, Small), matrix("indexer.attn_q_b", qRank, idxHeads*idxHead, Small),
				matrix("indexer_compressor_kv", embd, 2*idxHead, Small), matrix("indexer_compressor_gate", embd, 2*idxHead, Small),
				matrix("indexer_compressor_ape", 2*idxHead, csaRatio, Exact), norm("indexer_compressor_norm", idxHead))
		}
		list = append(list, matrix("ffn_gate_inp", embd, nExp, Exact))
		if i < hash {
			list = append(list, Tensor{"ffn_gate_tid2eid.weight", []uint64{used, vocab}, Index})
		} else {
			list = append(list, vector("exp_probs_b.bias", nExp))
		}
		return append(list, norm("ffn_norm", embd),
			experts("ffn_gate_exps", embd, ff, nExp, Expert), experts("ffn_down_exps", ff, embd, nExp, ExpertIn), experts("ffn_up_exps", embd, ff, nExp, Expert),
			matrix("ffn_gate_shexp", embd, ff, Matrix), matrix("ffn_down_shexp", ff, embd, Matrix), matrix("ffn_up_shexp", embd, ff, Matrix))
	}
	s.meta = func(m *meta, list []int) {
		ratios, hashed := make([]int32, len(list)), 0
		for k, i := range list {
			ratios[k] = int32(ratio[i])
			if i < hash {
				hashed++
			}
		}
		clamp := slices.Repeat([]float32{10}, len(list))
		m.num("attention.head_count", heads)
		m.num("attention.head_count_kv", 1)
		m.num("attention.key_length", head)
		m.num("attention.value_length", head)
		m.num("attention.q_lora_rank", qRank)
		m.num("attention.sliding_window", window)
		m.num("attention.output_group_count", groups)
		m.num("attention.output_lora_rank", outRank)
		m.add("attention.compress_ratios", gguf.I32s(ratios))
		m.real("attention.compress_rope_freq_base", 160_000)
		m.real("attention.layer_norm_rms_epsilon", 1e-6)
		m.num("attention.indexer.head_count", idxHeads)
		m.num("attention.indexer.key_length", idxHead)
		m.num("attention.indexer.top_k", topK)
		m.num("hyper_connection.count", streams)
		m.num("hyper_connection.sinkhorn_iterations", 20)
		m.real("hyper_connection.epsilon", 1e-6)
		m.num("hash_layer_count", hashed)
		m.num("rope.dimension_count", rope)
		m.real("rope.freq_base", 10_000)
		m.add("rope.scaling.type", gguf.String("yarn"))
		m.real("rope.scaling.factor", 16)
		m.num("rope.scaling.original_context_length", 65536)
		m.num("feed_forward_length", ff)
		m.num("expert_feed_forward_length", ff)
		m.num("expert_count", nExp)
		m.num("expert_used_count", used)
		m.num("expert_shared_count", 1)
		m.real("expert_weights_scale", 1.5)
		m.add("expert_weights_norm", gguf.Bool(true))
		m.num("expert_gating_func", 4) // square root of softplus
		m.add("swiglu_clamp_exp", gguf.F32s(clamp))
		m.add("swiglu_clamp_shexp", gguf.F32s(clamp))
	}
	// llama_kv_cache_dsv4: each layer keeps its window, and beside it one row per
	// compressed group, the states that compress the next one in F32.
	s.kv = func(kind string, tokens, rows int) int64 {
		n := 2 * head * pad(window+rows)
		switch kind {
		case KindCSA:
			n += 2*(head+idxHead)*pad(tokens/csaRatio) + 4*2*(2*csaRatio)*2*(head+idxHead)
		case KindHCA:
			n += 2*head*pad(tokens/hcaRatio) + 4*2*hcaRatio*head
		}
		return n
	}
	return s
}
