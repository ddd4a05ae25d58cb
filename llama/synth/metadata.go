package synth

import "neuron/llama/gguf"

// fileTypes are the numbers of llama.cpp's enum llama_ftype for general.file_type.
var fileTypes = map[gguf.Type]uint32{
	gguf.TypeF32: 0, gguf.TypeF16: 1, gguf.TypeQ4_0: 2, gguf.TypeQ8_0: 7, gguf.TypeQ4_K: 14, gguf.TypeBF16: 32,
}

// ropeBase is the base of the rotary embedding that the published models of a family use.
func ropeBase(s Shape) float32 {
	switch {
	case s.Family == FamilyLlama && s.RopeFreqs:
		return 500_000
	case s.Family == FamilyLlama:
		return 10_000
	default:
		return 1_000_000
	}
}

func metadata(s Shape, o Options) []gguf.KV {
	var kvs []gguf.KV
	add := func(key string, v gguf.Value) { kvs = append(kvs, gguf.KV{Key: key, Value: v}) }
	arch := func(key string, n int) { add(s.Family+"."+key, gguf.U32(uint32(n))) }

	add(gguf.ArchitectureKey, gguf.String(s.Family))
	add("general.type", gguf.String("model"))
	add("general.name", gguf.String("synthetic "+s.Family+" with random weights"))
	add("general.file_type", gguf.U32(fileTypes[o.Type]))
	add("general.quantization_version", gguf.U32(2))
	arch("context_length", s.Context)
	arch("embedding_length", s.Embd)
	arch("block_count", s.Layers)
	arch("feed_forward_length", s.FF)
	arch("attention.head_count", s.Heads)
	arch("attention.head_count_kv", s.KVHeads)
	arch("attention.key_length", s.HeadDim)
	arch("attention.value_length", s.HeadDim)
	add(s.Family+".attention.layer_norm_rms_epsilon", gguf.F32(1e-6))
	add(s.Family+".rope.freq_base", gguf.F32(ropeBase(s)))
	switch s.Family {
	case FamilyLlama:
		arch("rope.dimension_count", s.HeadDim)
		arch("vocab_size", s.Vocab)
	case FamilyGemma3:
		arch("attention.sliding_window", s.SlidingWindow)
	}
	return append(kvs, tokenizer(s)...)
}
