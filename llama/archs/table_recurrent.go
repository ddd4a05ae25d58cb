package archs

const nemotronMoE = ssm2 + moe + sigmoid + `attention.layer_norm_epsilon=0.00001 attention.head_count_kv=[0,0,0,2,0,0,2,0]
	feed_forward_length=[0,256,0,0,256,0,0,256] expert_shared_feed_forward_length=256 expert_shared_count=1 `

// recurrent: families with layers that keep a state of a fixed size instead of keys and
// values, alone or between layers that attend.
var recurrent = []spec{
	{name: "arwkv7", kind: "recurrent, first values in every layer",
		with: none + "feed_forward_length=512 wkv.head_size=64 attention.decay_lora_rank=64 attention.iclr_lora_rank=64 attention.value_residual_mix_lora_rank=32 attention.gate_lora_rank=128 token_shift_count=1",
		has:  "*.time_mix_g1.weight *.time_mix_g2.weight *.time_mix_ln.weight *.time_mix_ln.bias"},
	{name: "bailingmoe3", kind: "Kimi delta, latent 1 in 4, experts", has: output,
		with: mla + kda + moe + sigmoid + "attention.head_count_kv=[0,0,0,1]*2 kda.safe_gate=true kda.gate_lower_bound=-5.0 expert_shared_count=1 leading_dense_block_count=1"},
	{name: "falcon-h1", kind: "attention and state space in every layer", has: output + "*.ssm_conv1d.bias *.ssm_norm.weight", with: ssm2},
	{name: "granitehybrid", kind: "state space, attention 1 in 5, experts, scaled", has: "0-1,3-6,8-9.ssm_conv1d.bias *.ffn_gate_exps.weight",
		with: ssm2 + moeFF + "block_count=10 attention.head_count_kv=[0,0,2,0,0]*2 logit_scale=6.0 residual_scale=0.22 embedding_scale=12.0 attention.scale=0.015625 expert_shared_feed_forward_length=256 rope.scaling.finetuned=false"},
	{name: "jamba", kind: "state space, attention 1 in 4, experts in every second", has: output + "1,3,5,7.ffn_gate_inp.weight",
		with: ssm1 + moeFF + "attention.head_count_kv=[0,0,2,0]*2 -rope.freq_base"},
	{name: "kimi-k3", kind: "Kimi delta, latent 1 in 4, residuals over layers, experts",
		has:  "*.ffn_gate_shexp.weight *.ffn_up_shexp.weight *.ffn_down_shexp.weight",
		with: mla + kda + moe + sigmoid + "attention.head_count_kv=[0,0,0,1]*2 kda.gate_lower_bound=-5.0 expert_shared_count=1 leading_dense_block_count=0 attn_res.block_size=2 activation.situ_beta=1.0 activation.situ_linear_beta=1.0"},
	{name: "kimi-linear", kind: "Kimi delta, latent 1 in 4, experts",
		has:  "1-7.ffn_gate_shexp.weight 1-7.ffn_up_shexp.weight 1-7.ffn_down_shexp.weight",
		with: mla + kda + moe + sigmoid + "-attention.q_lora_rank attention.head_count_kv=[0,0,0,1]*2 expert_shared_count=1 leading_dense_block_count=1"},
	{name: "lfm2", kind: "convolutions, attention 3 of 8", with: "attention.head_count_kv=[0,0,2,0,0,2,0,2] shortconv.l_cache=3"},
	{name: "lfm2moe", kind: "convolutions, attention 3 of 8, experts", with: moe + "attention.head_count_kv=[0,0,2,0,0,2,0,2] shortconv.l_cache=3 leading_dense_block_count=2 expert_gating_func=2"},
	{name: "mamba", kind: "recurrent", with: ssm1 + none + "feed_forward_length=0"},
	{name: "minimax-01", kind: "linear attention, full 1 in 8, experts", has: output + "*.ffn_gate_exps.weight",
		with: moeFF + "full_attention_interval=8 residual_scale=3.5565 rope.dimension_count=32"},
	{name: "nemotron_h", kind: "state space, attention and feed-forward layers", has: output + "0,2,5.ssm_conv1d.bias",
		with: ssm2 + "attention.layer_norm_epsilon=0.00001 attention.head_count_kv=[0,0,0,2,0,0,2,0] feed_forward_length=[0,512,0,0,512,0,0,512]"},
	{name: "nemotron_h_moe", kind: "state space, attention and expert layers", has: output + "0,2,5.ssm_conv1d.bias",
		with: nemotronMoE},
	{name: "plamo2", kind: "state space, attention in every second", has: output,
		with: ssm2 + "ssm.group_count=0 attention.head_count_kv=[0,2]*4 attention.key_length=64 attention.value_length=64"},
	{name: "qwen35", kind: "delta net, attention 1 in 4", has: "0,1,2,4,5,6.attn_qkv.weight 0,1,2,4,5,6.attn_gate.weight",
		with: delta + "rope.dimension_count=16 rope.dimension_sections=[3,3,2,0] attention.key_length=64 attention.value_length=64"},
	{name: "qwen3next", kind: "delta net, attention 1 in 4, experts", has: output + "0,1,2,4,5,6.attn_qkv.weight 0,1,2,4,5,6.attn_gate.weight",
		with: delta + moe + "expert_shared_feed_forward_length=256 rope.dimension_count=16 attention.key_length=64 attention.value_length=64"},
	{name: "qwen4exp", kind: "delta net, indexed attention 1 in 4, hyper-connections, n-gram tables, experts", has: output,
		with: delta + moe + indexer + `expert_shared_feed_forward_length=256 rope.dimension_count=16 rope.dimension_sections=[3,3,2,0]
			attention.key_length=64 attention.value_length=64 hyper_connection.count=4 hyper_connection.low_rank=64 attention.compress_ratios=[4]*8
			ple.layers=[0] ple.ngram_size=3 ple.heads_per_ngram=2 ple.conv_kernel=4 ple.eos_token_id=274 embedding_length_per_layer_input=64
			ple.layer_multipliers=[u64:1,3,5] ple.head_offsets=[u64:0,512,1024,1536] ple.head_vocab_sizes=[u64:512,512,512,512]`},
	{name: "rwkv6", kind: "recurrent", has: "*.time_mix_lerp_fused.weight",
		with: ln + none + "feed_forward_length=512 wkv.head_size=64 time_mix_extra_dim=32 time_decay_extra_dim=64 rescale_every_n_layers=6"},
	{name: "rwkv6qwen2", kind: "recurrent", has: "*.time_mix_key.bias *.time_mix_value.bias *.time_mix_receptance.bias",
		with: none + "feed_forward_length=512 wkv.head_size=64 time_mix_extra_dim=32 time_decay_extra_dim=64 rescale_every_n_layers=0 token_shift_count=1"},
	{name: "rwkv7", kind: "recurrent, first values in every layer",
		with: ln + none + "feed_forward_length=512 wkv.head_size=64 attention.decay_lora_rank=64 attention.iclr_lora_rank=64 attention.value_residual_mix_lora_rank=32 attention.gate_lora_rank=128"},
}
