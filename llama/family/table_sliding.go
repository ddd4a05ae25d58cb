package family

// sliding are the families with layers that attend to a window. The library
// ends the process over a stage without such a layer.
var sliding = []Family{
	{
		Arch: "gemma3", Sliding: &Sliding{Period: 6}, Needs: []Kind{KindSliding}, Lengths: []int{62},
		Why:     "which layers slide depends on their index, and at 62 layers the library switches to the attention scale of the 27B model",
		WholeIf: []Limit{{Key: "block_count", Least: 62, Most: 62, Why: "the library knows the 27B model by its 62 layers and scales its attention otherwise, which a stage would miss"}},
	},
	{
		Arch: "gemma2", Entry: "inp_scaled", Sliding: &Sliding{Period: 2, Always: true}, Needs: []Kind{KindSliding}, Lengths: []int{46}, OneMatrix: true,
		WholeIf: []Limit{{Key: "block_count", Least: 46, Most: 46, Why: "the library knows the 27B model by its 46 layers and scales its attention otherwise, which a stage would miss"}},
		Why:     "which layers slide depends on their index, what comes in is multiplied by the root of the width, and at 46 layers the attention's scale changes",
	},
	{
		Arch: "gemma4", Entry: "inp_scaled", Sliding: &Sliding{Arrays: true, Always: true}, Needs: []Kind{KindSliding, KindFull}, Slots: 2,
		WholeIf: []Limit{
			{Key: "embedding_length_per_layer_input", Least: 1, Most: many, Why: "each layer takes an embedding of the token of its own, computed from the scaled input, which no seam carries"},
			{Key: "attention.shared_kv_layers", Least: 1, Most: many, Why: "the last layers attend to keys and values of earlier ones"},
		},
		Why: "what comes in is multiplied by the root of the width; the library wants two layers with a cache, and asks for the rotary factors only when one is full",
	},
	{Arch: "gpt-oss", Sliding: &Sliding{Period: 2, Always: true}, Needs: []Kind{KindSliding}, Why: slidesByIndex},
	{Arch: "cohere2", Sliding: &Sliding{Period: 4, Always: true}, Needs: []Kind{KindSliding}, OneMatrix: true, Why: slidesByIndex},
	{
		Arch: "cohere2moe", Sliding: &Sliding{Period: 4, FullFirst: true, Arrays: true, Always: true}, Needs: []Kind{KindSliding}, Lead: []string{leadDense},
		Why: slidesByIndex,
	},
	{Arch: "exaone-moe", Sliding: &Sliding{Period: 4, Always: true}, Needs: []Kind{KindSliding}, Lead: []string{leadDense}, Why: slidesByIndex},
	{Arch: "olmo2", Sliding: &Sliding{Period: 4}, Needs: []Kind{KindSliding}, Why: slidesByIndex},
	{Arch: "mellum", Sliding: &Sliding{Period: 4, Arrays: true}, Needs: []Kind{KindSliding}, Why: slidesByIndex},
	{Arch: "plamo3", Sliding: &Sliding{Period: 8}, Needs: []Kind{KindSliding}, Why: slidesByIndex},
	{Arch: "granite_swa", Entry: "embd", Sliding: &Sliding{Arrays: true, Always: true}, Needs: []Kind{KindSliding}, Why: "whatever comes in is scaled; an array says which layers slide"},
	{Arch: "mimo2", Sliding: &Sliding{Arrays: true, Always: true}, Needs: []Kind{KindSliding}, Why: "an array says which layers slide"},
	{
		Arch: "step35", Entry: "attn_norm_in-0", Sliding: &Sliding{Arrays: true, Always: true}, Needs: []Kind{KindSliding},
		Exit: "attn_norm_in", ExitNext: true, LastExit: "h_nextn",
		Why: "an array says which layers slide; the graph calls a layer's output like the next one's input, and the last one's otherwise",
	},
	{Arch: "laguna", Sliding: &Sliding{Period: 4, FullFirst: true}, Needs: []Kind{KindSliding}, Lead: []string{leadDense}, Why: slidesByIndex},
	{
		Arch: "muse-glimmer", Entry: "embd_norm", Sliding: &Sliding{Period: 4, Arrays: true, Always: true}, Needs: []Kind{KindSliding},
		Why: "what comes in is normalized, and which layers slide depends on their index",
	},
	{
		Arch: "afmoe", Entry: "inp_embd_scaled", Sliding: &Sliding{Period: 4}, Needs: []Kind{KindSliding}, Lead: []string{leadDense},
		Index: []Index{{Kind: KindNoRope, Period: 4}},
		Why:   "what comes in is scaled; which layers slide and which do not rotate depends on their index",
	},
	{
		Arch: "llama4", Sliding: &Sliding{Period: 4, Always: true, Window: 8192}, Needs: []Kind{KindSliding, KindNoRope},
		Index: []Index{{Kind: KindNoRope, Period: 4}, {Period: 1, Key: "interleave_moe_layer_step"}},
		WholeIf: []Limit{
			{Key: "attention.sliding_window", Missing: 1, Why: "without a window the library does not rotate in the last layer that it counts, which would be one of each stage"},
			{Key: "expert_count", Least: 128, Most: 128, Why: "the library knows Maverick, which does not normalize queries, by 48 layers and 128 experts, and a stage has fewer layers"},
		},
		Why: "which layers see a chunk only, do not rotate and have experts depends on their index, and each stage needs one that does not rotate",
	},
	{
		Arch: "smallthinker", Sliding: &Sliding{Period: 4, FullFirst: true, Window: 4096}, Needs: []Kind{KindSliding}, Lengths: []int{4},
		Index: []Index{{Kind: KindNoRope, Period: 4, First: true, Sliding: true}},
		Why:   "which layers slide and which do not rotate depends on their index, and a stage of four layers would rotate in all",
	},
	{
		Arch: "dots3note", Entry: "embd", Sliding: &Sliding{Arrays: true, Always: true}, Lead: []string{leadDense}, Needs: []Kind{KindSliding, KindFull, KindIndexer},
		Indexers: &Indexers{Key: "attention.indexer.types"}, Cache: CacheUnknown,
		Why: "a stage needs layers with a window and full ones, which have indexers",
	},
}

const slidesByIndex = "which layers slide depends on their index, and each stage needs one that does"
