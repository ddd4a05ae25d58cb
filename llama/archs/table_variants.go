package archs

// variants are other published shapes of the families: tied embeddings, layers that only
// predict, experts, and the sizes at which libllama takes a model for another one.
var variants = []spec{
	{name: "llama/tied", kind: "dense, tied", has: "rope_freqs.weight", with: "rope.dimension_count=64 rope.freq_base=500000.0"},
	{name: "llama/moe", kind: "experts", has: output + "*.ffn_gate_exps.weight", with: moeFF + "rope.dimension_count=64"},
	{name: "qwen2/tied", kind: "dense, tied", has: qkvBias},
	{name: "qwen3/tied", kind: "dense, tied"},
	{name: "gemma3/full", kind: "dense", with: "attention.key_length=64 attention.value_length=64"},
	{name: "phi3/short", kind: "dense", has: output + fusedQKV, with: "rope.dimension_count=64"},
	{name: "falcon/7b", kind: "dense, parallel", has: output, with: ln + "attention.head_count_kv=1"},
	{name: "stablelm/12b", kind: "dense, parallel, normed heads", has: "*.attn_q_norm.weight *.attn_k_norm.weight", with: ln + "rope.dimension_count=16"},
	{name: "nanbeige/loops", kind: "dense, layers run twice", has: output, with: "block_count=4 num_loops=2"},
	{name: "olmo2/sliding", kind: "sliding 3:1, norms behind", with: "attention.sliding_window=64"},
	{name: "llama4/interleaved", kind: "experts in every second, chunked 3:1", has: output, with: moe + "expert_used_count=1 interleave_moe_layer_step=2"},
	{name: "gemma4/experts", kind: "sliding 5:1, heads differ, experts", has: "0-4,6-7.attn_v.weight *.layer_output_scale.weight *.ffn_gate_inp.weight *.ffn_gate_up_exps.weight",
		with: gemma4 + moe + "embedding_length_per_layer_input=0"},
	{name: "gemma4/small", kind: "sliding 5:1, embeddings in every layer, shared keys", has: "*.attn_v.weight *.layer_output_scale.weight",
		with: gemma4 + "embedding_length_per_layer_input=64 attention.shared_kv_layers=2"},
	{name: "glm-dsa/full", kind: "latent, indexers, experts", with: mla + moe + sigmoid + indexer + "expert_shared_count=1 leading_dense_block_count=2",
		has: output + `2-7.exp_probs_b.bias *.indexer.k_norm.weight *.indexer.k_norm.bias *.indexer.proj.weight *.indexer.attn_k.weight *.indexer.attn_q_b.weight`},
	{name: "nemotron_h_moe/latent", kind: "state space, attention and latent expert layers",
		has:  output + "0,2,5.ssm_conv1d.bias 1,4,7.ffn_latent_down.weight 1,4,7.ffn_latent_up.weight",
		with: nemotronMoE + "moe_latent_size=256"},

	// Sizes that libllama knows by their number of layers.
	{name: "deepseek2/lite", kind: "latent, experts, 26 layers", has: output,
		with: mla + moe + "-attention.q_lora_rank block_count=26 feed_forward_length=256 expert_shared_count=1 leading_dense_block_count=1"},
	{name: "baichuan/13b", kind: "dense, ALiBi, 40 layers", with: "block_count=40 feed_forward_length=256"},
	{name: "command-r/plus", kind: "dense, parallel, normed heads, 64 layers", with: ln + "block_count=64 feed_forward_length=256 logit_scale=0.0625"},
	{name: "exaone4/32b", kind: "sliding 3:1, norms behind, 64 layers", has: output + "rope_freqs.weight", with: "block_count=64 feed_forward_length=256 attention.sliding_window=64"},

	// Layers that only predict further tokens, which a stage leaves out.
	{name: "bailingmoe2/mtp", kind: "experts", has: "1-7.exp_probs_b.bias", mtp: "7:" + nextn + "layer_output_norm.weight",
		with: moe + sigmoid + predicts + "expert_shared_count=1 leading_dense_block_count=1 expert_shared_feed_forward_length=256"},
	{name: "deepseek2/mtp", kind: "latent, experts", has: output + "1-7.exp_probs_b.bias", mtp: "7:" + nextn,
		with: mla + moe + sigmoid + predicts + "expert_shared_count=1 leading_dense_block_count=1"},
	{name: "exaone-moe/mtp", kind: "sliding 3:1, experts", has: "1-7.exp_probs_b.bias", mtp: "0:" + nextn,
		with: moe + sigmoid + predicts + "attention.sliding_window=64 leading_dense_block_count=1 expert_shared_count=1"},
	{name: "glm4moe/mtp", kind: "experts", has: output + qkvBias + "*.attn_q_norm.weight *.attn_k_norm.weight", mtp: "7:" + nextn,
		with: moe + sigmoid + predicts + "expert_shared_count=1 leading_dense_block_count=1 rope.dimension_count=32"},
	{name: "glm-dsa/mtp", kind: "latent, shared indexers, experts", mtp: "6:" + nextn,
		has: output + `2-7.exp_probs_b.bias 0,1,2,6.indexer.k_norm.weight 0,1,2,6.indexer.k_norm.bias 0,1,2,6.indexer.proj.weight
			0,1,2,6.indexer.attn_k.weight 0,1,2,6.indexer.attn_q_b.weight`,
		with: mla + moe + sigmoid + indexer + predicts + "attention.indexer.types=[1,1,1,0,0,0,1,0] expert_shared_count=1 leading_dense_block_count=2 context_length=1048576"},
	{name: "hy_v3/mtp", kind: "experts", mtp: "7:" + nextn,
		has: output + `0.ffn_gate.weight 0.ffn_up.weight 0.ffn_down.weight 1-7.ffn_gate_inp.weight 1-7.exp_probs_b
			1-7.ffn_gate_exps.weight 1-7.ffn_up_exps.weight 1-7.ffn_down_exps.weight 1-7.ffn_gate_shexp.weight 1-7.ffn_up_shexp.weight 1-7.ffn_down_shexp.weight`,
		with: moe + sigmoid + predicts + "expert_shared_feed_forward_length=256"},
	{name: "qwen35/mtp", kind: "delta net, attention 1 in 4", has: "0,1,2,4,5,6.attn_qkv.weight 0,1,2,4,5,6.attn_gate.weight", mtp: "7:" + nextn,
		with: delta + predicts + "rope.dimension_count=16 rope.dimension_sections=[3,3,2,0] attention.key_length=64 attention.value_length=64"},
	{name: "qwen35moe/mtp", kind: "delta net, attention 1 in 4, experts", has: output + "0,1,2,4,5,6.attn_qkv.weight 0,1,2,4,5,6.attn_gate.weight", mtp: "7:" + nextn,
		with: delta + moe + predicts + "expert_shared_feed_forward_length=256 rope.dimension_count=16 rope.dimension_sections=[3,3,2,0] attention.key_length=64 attention.value_length=64"},
	{name: "deepseek4/mtp", kind: "latent, compressed, hyper-connections, hash layer, experts", has: "0.ffn_gate_tid2eid.weight",
		with: deepseek4 + predicts + "attention.compress_ratios=[0,0,4,128,4,128,4,128,0] hash_layer_count=1", mtp: "1:" + nextn},
}

const predicts = " block_count=9 nextn_predict_layers=1 "
