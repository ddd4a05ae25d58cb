package archs

const gemma4 = ` attention.sliding_window=64 attention.sliding_window_pattern=[1,1,1,1,1,0,1,1] attention.head_count_kv=[2,2,2,2,2,1,2,2]
	attention.key_length=128 attention.value_length=128 attention.key_length_swa=64 attention.value_length_swa=64
	rope.dimension_count=128 rope.dimension_count_swa=64 rope.freq_base=1000000.0 rope.freq_base_swa=10000.0 final_logit_softcapping=30.0 `

// sliding: families in which some layers see a window only.
var sliding = []spec{
	{name: "afmoe", kind: "sliding 3:1, experts", has: output, with: moe + sigmoid + "attention.sliding_window=64 expert_shared_count=1 leading_dense_block_count=2"},
	{name: "cohere2", kind: "sliding 3:1, parallel", with: ln + "attention.sliding_window=64 logit_scale=0.25"},
	{name: "cohere2moe", kind: "sliding 3:1, parallel, experts", with: ln + moe + "attention.sliding_window=64 attention.sliding_window_pattern=4 logit_scale=0.25 leading_dense_block_count=1 expert_shared_count=1 expert_gating_func=2 expert_weights_norm=true"},
	{name: "exaone-moe", kind: "sliding 3:1, experts", has: "1-7.exp_probs_b.bias", with: moe + sigmoid + "attention.sliding_window=64 leading_dense_block_count=1 expert_shared_count=1"},
	{name: "gemma3n", kind: "sliding 4:1, four streams, shared keys", with: "block_count=22 attention.sliding_window=64 attention.key_length=64 attention.value_length=64 feed_forward_length=256 rope.freq_base_swa=10000.0"},
	{name: "gemma4", kind: "sliding 5:1, heads differ", has: "0-4,6-7.attn_v.weight *.layer_output_scale.weight", with: gemma4 + "embedding_length_per_layer_input=0"},
	{name: "granite_swa", kind: "sliding 3:1, sinks, experts", has: "",
		with: moeFF + "attention.sliding_window=64 attention.sliding_window_pattern=[1,1,1,0]*2 logit_scale=8.0 residual_scale=0.22 embedding_scale=12.0 attention.scale=0.015625 expert_shared_feed_forward_length=256"},
	{name: "laguna", kind: "sliding 3:1, heads differ, experts", has: output,
		with: moe + sigmoid + "attention.sliding_window=64 attention.head_count=[4,6,6,6]*2 leading_dense_block_count=1 expert_shared_count=1 attention.key_length=64 attention.value_length=64 rope.dimension_count=32 rope.dimension_count_swa=64 rope.freq_base_swa=10000.0"},
	{name: "mellum", kind: "sliding 3:1, experts", with: moe + "attention.sliding_window=64 attention.sliding_window_pattern=[1,1,1,0]*2"},
	{name: "mimo2", kind: "sliding 3:1, sinks, heads differ, experts",
		has: `0.ffn_gate.weight 0.ffn_up.weight 0.ffn_down.weight 1-7.ffn_gate_inp.weight 1-7.exp_probs_b.bias 1-7.ffn_gate_exps.weight
			1-7.ffn_up_exps.weight 1-7.ffn_down_exps.weight 1-3,5-7.attn_sinks.weight`,
		with: moe + sigmoid + `attention.sliding_window=64 attention.sliding_window_pattern=[0,1,1,1]*2 attention.head_count_kv=[1,2,2,2]*2
			attention.key_length=96 attention.value_length=64 rope.dimension_count=32 rope.freq_base_swa=10000.0 attention.value_scale=0.707`},
	{name: "muse-glimmer", kind: "sliding 3:1, normed embedding", with: "attention.sliding_window=64 attention.sliding_window_pattern=[1,1,1,0]*2 logit_scale=1.0"},
	{name: "plamo3", kind: "sliding 7:1", has: output, with: "attention.sliding_window=64 attention.key_length=64 attention.value_length=64 rope.freq_base_swa=10000.0"},
	{name: "smallthinker", kind: "sliding 3:1, no rotary in 1 of 4, experts", has: output, with: moe + "attention.sliding_window=4096 expert_gating_func=2"},
	{name: "step35", kind: "sliding 3:1, heads differ, experts",
		has: `*.attn_q_norm.weight *.attn_k_norm.weight *.attn_gate.weight 0-2.ffn_gate.weight 0-2.ffn_up.weight 0-2.ffn_down.weight
			3-7.ffn_gate_inp.weight 3-7.exp_probs_b.bias 3-7.ffn_gate_exps.weight 3-7.ffn_up_exps.weight 3-7.ffn_down_exps.weight
			3-7.ffn_gate_shexp.weight 3-7.ffn_up_shexp.weight 3-7.ffn_down_shexp.weight`,
		with: moe + sigmoid + `attention.sliding_window=64 attention.sliding_window_pattern=[0,1,1,1]*2 attention.head_count=[4,6,6,6]*2
			attention.key_length=64 attention.value_length=64 rope.dimension_count=64 rope.dimension_count_swa=64 rope.freq_base_swa=10000.0
			expert_shared_feed_forward_length=256 swiglu_clamp_exp=[0.0,0.0,0.0,7.0,7.0,7.0,7.0,7.0] swiglu_clamp_shexp=[0.0,0.0,0.0,16.0,16.0,16.0,16.0,16.0]`},
}
