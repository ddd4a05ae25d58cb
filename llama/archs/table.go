package archs

import (
	"slices"
	"sync"
)

// table gives all entries.
var table = sync.OnceValue(func() []spec {
	return slices.Concat(common, dense, experts, sliding, latent, recurrent, variants)
})

// Parts of the table that many families share.
const (
	// ln: a layer norm instead of a root mean square norm.
	ln = " -attention.layer_norm_rms_epsilon attention.layer_norm_epsilon=0.00001 "

	// moe: four experts, two of them used.
	moe = " expert_count=4 expert_used_count=2 expert_feed_forward_length=256 "

	// moeFF: experts as wide as the feed-forward block.
	moeFF = " expert_count=4 expert_used_count=2 feed_forward_length=256 "

	// sigmoid: experts chosen by a sigmoid with a bias, weights scaled.
	sigmoid = " expert_gating_func=2 expert_weights_norm=true expert_weights_scale=2.5 "

	// mla: keys and values compressed to 256 numbers and 32 that rotate.
	mla = ` attention.head_count_kv=1 attention.q_lora_rank=256 attention.kv_lora_rank=256 rope.dimension_count=32
		attention.key_length=288 attention.value_length=256 attention.key_length_mla=96 attention.value_length_mla=64 `

	// indexer: small heads that choose which positions attention sees.
	indexer = " attention.indexer.head_count=8 attention.indexer.key_length=64 attention.indexer.top_k=16 "

	// ssm1, ssm2: state space layers of Mamba and Mamba 2.
	ssm1 = " ssm.conv_kernel=4 ssm.inner_size=512 ssm.state_size=16 ssm.time_step_rank=16 "
	ssm2 = " ssm.conv_kernel=4 ssm.inner_size=512 ssm.state_size=64 ssm.time_step_rank=8 ssm.group_count=2 "

	// delta: gated delta net, three of four layers.
	delta = " ssm.conv_kernel=4 ssm.inner_size=256 ssm.state_size=64 ssm.time_step_rank=4 ssm.group_count=2 full_attention_interval=4 "

	// kda: Kimi delta attention.
	kda = " ssm.conv_kernel=4 kda.head_dim=64 "

	// deepseek4: a window, every fourth or every 128th position compressed, four streams.
	deepseek4 = moe + indexer + `attention.head_count=8 attention.head_count_kv=1 attention.key_length=64 attention.value_length=64
		rope.dimension_count=32 attention.q_lora_rank=256 attention.sliding_window=64 attention.output_group_count=2
		attention.output_lora_rank=128 attention.compress_rope_freq_base=160000.0 attention.compress_ratios=[0,0,4,128,4,128,4,128]
		hyper_connection.count=4 hyper_connection.sinkhorn_iterations=20 hyper_connection.epsilon=0.000001 hash_layer_count=3
		expert_shared_count=1 expert_gating_func=4 expert_weights_norm=true expert_weights_scale=1.5 swiglu_clamp_exp=10.0 `

	// none: no attention heads at all.
	none = " attention.head_count=0 -attention.head_count_kv -rope.freq_base "

	qkvBias  = " *.attn_q.bias *.attn_k.bias *.attn_v.bias "
	fusedQKV = " *.attn_qkv.weight "
	output   = " output.weight "
	nextn    = " nextn.eh_proj.weight nextn.enorm.weight nextn.hnorm.weight nextn.shared_head_norm.weight "
)

// common are the families of which most downloads are, and those that are cut in ways
// of their own.
var common = []spec{
	{name: "llama", kind: "dense", has: output + "rope_freqs.weight", with: "rope.dimension_count=64 rope.freq_base=500000.0"},
	{name: "qwen2", kind: "dense", has: output + qkvBias},
	{name: "qwen3", kind: "dense", has: output},
	{name: "qwen3moe", kind: "experts", has: output, with: moe},
	{name: "gemma", kind: "dense, scaled embedding", with: "attention.key_length=64 attention.value_length=64"},
	{name: "gemma2", kind: "sliding 1:1", with: "attention.sliding_window=64 attention.key_length=64 attention.value_length=64 attn_logit_softcapping=50.0 final_logit_softcapping=30.0"},
	{name: "gemma3", kind: "sliding 5:1", with: "attention.sliding_window=64 attention.key_length=64 attention.value_length=64 rope.freq_base=1000000.0 rope.freq_base_swa=10000.0"},
	{name: "phi3", kind: "dense, long rope", has: output + fusedQKV + "rope_factors_long.weight rope_factors_short.weight",
		with: "rope.scaling.original_context_length=2048 rope.scaling.attn_factor=1.19 rope.dimension_count=64"},
	{name: "deepseek2", kind: "latent, experts", has: output + "1-7.exp_probs_b.bias",
		with: mla + moe + sigmoid + "expert_shared_count=1 leading_dense_block_count=1 rope.scaling.type='yarn' rope.scaling.factor=40.0 rope.scaling.original_context_length=512 rope.scaling.yarn_log_multiplier=0.1"},
	{name: "gpt-oss", kind: "sliding 1:1, sinks, experts", has: qkvBias,
		with: moe + "attention.sliding_window=64 rope.scaling.type='yarn' rope.scaling.factor=32.0 rope.scaling.original_context_length=512"},
	{name: "mamba2", kind: "recurrent", with: ssm2 + none + "feed_forward_length=0"},
	{name: "deepseek4", kind: "latent, compressed, hyper-connections, hash layers, experts", has: "0-2.ffn_gate_tid2eid.weight", with: deepseek4},
	{name: "glm-dsa", kind: "latent, shared indexers, experts",
		has: output + `2-9.exp_probs_b.bias 0,1,2,6.indexer.k_norm.weight 0,1,2,6.indexer.k_norm.bias 0,1,2,6.indexer.proj.weight
			0,1,2,6.indexer.attn_k.weight 0,1,2,6.indexer.attn_q_b.weight`,
		with: mla + moe + sigmoid + indexer + "block_count=10 attention.indexer.types=[1,1,1,0,0,0,1,0,0,0] expert_shared_count=1 leading_dense_block_count=2 context_length=1048576"},
	{name: "qwen35moe", kind: "delta net, attention 1 in 4, experts", has: output + "0,1,2,4,5,6.attn_qkv.weight 0,1,2,4,5,6.attn_gate.weight",
		with: delta + moe + "expert_shared_feed_forward_length=256 rope.dimension_count=16 rope.dimension_sections=[3,3,2,0] attention.key_length=64 attention.value_length=64"},
}
