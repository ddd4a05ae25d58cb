package family

// named makes entries without anything special.
func named(archs ...string) []Family {
	out := make([]Family, len(archs))
	for i, a := range archs {
		out[i].Arch = a
	}
	return out
}

// plain are the families whose layers neither know their index nor need others:
// they are cut anywhere, and take hidden rows as embeddings.
var plain = append(named(
	"qwen", "qwen2", "qwen2moe", "qwen3", "qwen3moe",
	"deci", "arcee", "apertus", "xverse", "maincoder", "orion", "codeshell", "jais", "jais2", "plamo", "internlm2",
	"nemotron", "chatglm", "stablelm", "starcoder2", "falcon", "gptneox", "refact", "olmo", "olmoe",
	"dbrx", "arctic", "grovemoe", "hunyuan-moe", "hunyuan-dense", "seed_oss", "pangu-embedded", "exaone", "minimax-m2",
	"ernie4_5", "phi2", "mistral3",
), []Family{
	{
		Arch: "llama",
		Why:  "Llama 3 scales its rotary frequencies with rope_freqs.weight in every layer, so every stage carries it",
	},
	{
		Arch: "phi3",
		Why:  "long and short rotary factors are chosen by the context's size, so every stage carries both and is run with the same size",
	},
	{Arch: "phimoe", Why: "as phi3"},
	{Arch: "mpt", Why: "a model with learned embeddings of positions has a tensor that is not known here, and is served whole"},
	{Arch: "bitnet", OneMatrix: true, Why: "the library always projects with the embedding and refuses a file with an output matrix"},
	{Arch: "openelm", OneMatrix: true, Why: "as bitnet"},
	{
		Arch: "command-r", OneMatrix: true,
		WholeIf: []Limit{{Key: "block_count", Least: 64, Most: many, Why: "the library knows Command R+, which normalizes queries and keys, by 64 layers, which a stage does not have"}},
		Why:     "as bitnet; with 64 layers the library normalizes queries and keys",
	},
	{Arch: "deepseek", Lead: []string{leadDense}, Why: "the leading layers are dense"},
	{Arch: "dots1", Lead: []string{leadDense}, Why: "the leading layers are dense"},
	{Arch: "bailingmoe", Lead: []string{leadDense}, Why: "the leading layers are dense"},
	{Arch: "bailingmoe2", Lead: []string{leadDense}, Why: "the leading layers are dense"},
	{Arch: "hy_v3", Lead: []string{leadDense}, Why: "the leading layers are dense"},
	{
		Arch: "deepseek2", Lead: []string{leadDense}, Lengths: []int{26, 27},
		Set: []Default{{Key: "expert_gating_func", Int: true, Value: func(layers, vocab int) (float64, bool) {
			if (layers == 47 || layers == 48) && vocab == 154880 {
				return 2, true // sigmoid
			}
			return 1, true // softmax
		}}},
		WholeIf: []Limit{{Key: "block_count", Least: 26, Most: 27, Why: liteWhy}},
		Why:     "the library takes 26 and 27 layers for a Lite model without low-rank queries, and guesses the experts' gating from the number of layers",
	},
	{
		Arch: "mistral4", Lead: []string{leadDense}, Lengths: []int{26, 27},
		Why: "it is read as deepseek2, which takes 26 and 27 layers for a Lite model",
	},
	{
		Arch: "exaone4", Lengths: []int{64},
		WholeIf: []Limit{{Key: "block_count", Least: 64, Most: 64, Why: "EXAONE 4.0 32B slides only when the library counts 64 layers, which no stage has"}},
		Why:     "with 64 layers the library makes layers slide",
	},
	{
		Arch:    "nanbeige",
		WholeIf: []Limit{{Key: "num_loops", Least: 2, Most: many, Missing: 1, Why: "its layers run several times in a row, so a stage would have to come again"}},
	},
}...)

// leadDense is the number of leading layers without experts.
const leadDense = "leading_dense_block_count"

// many is more than any number in a Limit.
const many = 1 << 62

const liteWhy = "the library knows this Lite model by its number of layers alone, which a stage does not have"
