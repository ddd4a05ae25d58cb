package family

// exact are the families that do more with an embedding than to look it up:
// hidden rows overwrite the node behind that.
var exact = []Family{
	{Arch: "glm4", Entry: "embd", Why: "with embeddings instead of tokens the library insists on rotary sections for images"},
	{Arch: "glm4moe", Entry: "embd", Lead: []string{leadDense}, Why: "as glm4; the leading layers are dense"},
	{Arch: "gemma", Entry: "inp_scaled", OneMatrix: true, Why: "whatever comes in is multiplied by the root of the width"},
	{Arch: "gpt2", Entry: "inpL", Head: []string{"position_embd.weight"}, Why: "a learned embedding of the position is added to what comes in"},
	{Arch: "starcoder", Entry: "inpL", Head: []string{"position_embd.weight"}, Why: "as gpt2"},
	{Arch: "bloom", Entry: "inp_norm-0", Head: []string{"token_embd_norm.weight", "token_embd_norm.bias"}, Why: "what comes in is normalized"},
	{Arch: "granite", Entry: "embd", Why: "whatever comes in is scaled"},
	{Arch: "granitemoe", Entry: "embd", Why: "as granite"},
	{Arch: "grok", Entry: "embd", Why: "whatever comes in is scaled"},
	{
		Arch: "minicpm", Entry: "embd",
		Set: []Default{{Key: "residual_scale", Value: func(layers, _ int) (float64, bool) { return residualScale(layers), true }}},
		Why: "whatever comes in is scaled, and older files leave the residual scale to the number of layers",
	},
	{Arch: "qwen2vl", Entry: "embd", Why: "with embeddings instead of tokens each row has four positions"},
	{Arch: "qwen3vl", Entry: "embd", Zero: []string{"n_deepstack_layers"}, Why: "as qwen2vl; images add to the first layers, which no route does"},
	{Arch: "qwen3vlmoe", Entry: "embd", Zero: []string{"n_deepstack_layers"}, Why: "as qwen3vl"},
	{Arch: "paddleocr", Entry: "embd", Why: "as qwen2vl"},
	{Arch: "hunyuan_vl", Entry: "embd", Why: "as qwen2vl"},
	{Arch: "deepseek32", Entry: "embd", Lead: []string{leadDense}, Cache: CacheIndexed, Why: "every layer has its indexer"},
	{
		Arch: "smollm3", Index: []Index{{Kind: KindNoRope, Period: 4}},
		Why: "every fourth layer does not rotate, which the library tells by its index",
	},
	{
		Arch: "ernie4_5-moe", Lead: []string{leadDense}, Index: []Index{{Period: 1, Key: "interleave_moe_layer_step"}},
		Why: "which layers have experts the library tells by their index",
	},
}
