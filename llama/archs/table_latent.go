package archs

// latent: families with compressed keys and values, or with indexers that choose what
// attention sees.
var latent = []spec{
	{name: "deepseek32", kind: "latent, indexers, experts", has: output + "1-7.exp_probs_b.bias",
		with: mla + moe + sigmoid + indexer + "expert_shared_count=1 leading_dense_block_count=1 rope.scaling.type='yarn' rope.scaling.factor=40.0 rope.scaling.original_context_length=512 rope.scaling.yarn_log_multiplier=0.1"},
	{name: "dots3note", kind: "latent, sliding 1:1, indexers, experts", has: output,
		with: mla + moe + sigmoid + indexer + `expert_shared_count=1 leading_dense_block_count=1 attention.sliding_window=64
			attention.sliding_window_pattern=[0,1]*4 attention.indexer.types=[1,0]*4 attention.kv_lora_rank_swa=256
			attention.key_length_swa=288 attention.value_length_swa=256 attention.key_length_mla_swa=96 attention.value_length_mla_swa=64 rope.freq_base_swa=10000.0`},
	{name: "minicpm3", kind: "latent", with: "attention.head_count_kv=4 attention.q_lora_rank=256 attention.kv_lora_rank=256 attention.key_length=96 attention.value_length=64 rope.dimension_count=32"},
	{name: "minimax-m3", kind: "indexers by blocks, experts",
		with: moe + sigmoid + "leading_dense_block_count=2 expert_shared_count=1 rope.dimension_count=32 attention.indexer.head_count=2 attention.indexer.key_length=64 attention.indexer.top_k=2 attention.indexer.block_size=16 attention.indexer.local_blocks=1"},
	{name: "mistral4", kind: "latent, experts", has: output, with: mla + moe + "expert_shared_count=1 leading_dense_block_count=0 attention.temperature_scale=0.1 attention.temperature_length=64"},
}
