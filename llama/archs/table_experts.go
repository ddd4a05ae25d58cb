package archs

// experts: families whose feed-forward block is a choice of experts, with plain attention.
var experts = []spec{
	{name: "arctic", kind: "experts beside a dense block", has: output, with: moeFF},
	{name: "bailingmoe", kind: "experts", with: moe + "expert_shared_count=1 leading_dense_block_count=0 rope.dimension_count=64"},
	{name: "bailingmoe2", kind: "experts", has: "1-7.exp_probs_b.bias", with: moe + sigmoid + "expert_shared_count=1 leading_dense_block_count=1 expert_shared_feed_forward_length=256"},
	{name: "dbrx", kind: "experts", with: ln + moeFF + "attention.clamp_kqv=8.0"},
	{name: "deepseek", kind: "experts", has: output, with: moe + "attention.head_count_kv=4 expert_shared_count=2 leading_dense_block_count=1 expert_weights_scale=1.0"},
	{name: "deepseek2-ocr", kind: "experts", has: output, with: moe + "attention.head_count_kv=4 expert_shared_count=2 leading_dense_block_count=1"},
	{name: "dots1", kind: "experts", has: "1-7.exp_probs_b.bias", with: moe + sigmoid + "attention.head_count_kv=4 expert_shared_count=1 leading_dense_block_count=1"},
	{name: "ernie4_5-moe", kind: "experts", has: "1-7.exp_probs_b.bias 1-7.ffn_gate_exps.weight",
		with: moe + "interleave_moe_layer_step=1 leading_dense_block_count=1 expert_shared_feed_forward_length=256"},
	{name: "glm4moe", kind: "experts", has: output + qkvBias + "*.attn_q_norm.weight *.attn_k_norm.weight",
		with: moe + sigmoid + "expert_shared_count=1 leading_dense_block_count=1 rope.dimension_count=32"},
	{name: "granitemoe", kind: "experts, scaled", has: "*.ffn_gate_exps.weight",
		with: moeFF + "logit_scale=6.0 residual_scale=0.22 embedding_scale=12.0 attention.scale=0.015625 expert_shared_feed_forward_length=256"},
	{name: "graniteswitch", kind: "adapters chosen by tokens",
		with: "logit_scale=8.0 residual_scale=0.22 embedding_scale=12.0 attention.scale=0.015625 adapters.count=2 adapters.token_ids_activate=[300,301] adapters.token_ids_substitute=[10,11] adapters.lora_rank=32 adapters.router_gain=10.0"},
	{name: "grok", kind: "experts, capped", has: output + "*.ffn_gate_exps.weight *.layer_output_norm.weight",
		with: moeFF + "embedding_scale=16.0 logit_scale=0.577 attention.output_scale=0.125"},
	{name: "grovemoe", kind: "experts in groups", has: output, with: moe + "expert_chunk_feed_forward_length=256 expert_group_scale=0.05 experts_per_group=2"},
	{name: "hunyuan-moe", kind: "experts", has: "", with: moe + "expert_shared_feed_forward_length=256"},
	{name: "hy_v3", kind: "experts", has: output + `0.ffn_gate.weight 0.ffn_up.weight 0.ffn_down.weight 1-7.ffn_gate_inp.weight 1-7.exp_probs_b
			1-7.ffn_gate_exps.weight 1-7.ffn_up_exps.weight 1-7.ffn_down_exps.weight 1-7.ffn_gate_shexp.weight 1-7.ffn_up_shexp.weight 1-7.ffn_down_shexp.weight`,
		with: moe + sigmoid + "expert_shared_feed_forward_length=256"},
	{name: "llama4", kind: "experts, chunked 3:1, no rotary in 1 of 4", has: output + "rope_freqs.weight", with: moe + "expert_used_count=1 interleave_moe_layer_step=1"},
	{name: "minimax-m2", kind: "experts", with: moe + sigmoid + "rope.dimension_count=32"},
	{name: "olmoe", kind: "experts", with: moeFF + "attention.head_count_kv=4"},
	{name: "phimoe", kind: "experts, long rope", has: qkvBias + "rope_factors_long.weight rope_factors_short.weight",
		with: moeFF + "rope.scaling.original_context_length=2048 rope.scaling.attn_factor=1.19"},
	{name: "qwen2moe", kind: "experts", has: qkvBias, with: moe + "attention.head_count_kv=4 expert_shared_feed_forward_length=512"},
	{name: "qwen3vlmoe", kind: "experts, rotary sections, deep stack", has: output, with: moe + "rope.dimension_sections=[12,10,10,0] n_deepstack_layers=3"},
}
