// Package family knows how each architecture of llama.cpp may be cut into
// stages: entry and exit nodes, what metadata a stage needs, which ranges are
// legal, and what a position costs in KV memory. It is data with the reason
// beside each entry; the cutter and the stage hold no branch for a family.
//
// It reads GGUF metadata only (package gguf); it knows neither libllama nor
// files nor the network. The cutter, the stage runner, the engine and its
// tools may import it.
package family

// Family says how one architecture is cut. Node names are those that
// llama.cpp's graph builders give; they are claims about the pinned version
// and each is held by the parity tests of package cut.
type Family struct {
	// Arch is general.architecture.
	Arch string
	// Exit is the name of a layer's output node without "-<index>".
	Exit string
	// PerLayer lists the keys (without the architecture prefix) whose arrays
	// hold one entry per layer and are sliced for a stage.
	PerLayer []string
	// SlidingPeriod is the built-in period of the sliding-window pattern: in
	// each period all layers but the last slide. 0: no sliding layers.
	// The pinned library reads a period from the metadata and ignores an array,
	// so a stage must have a pattern that some period gives (Model.Period).
	SlidingPeriod int
	// NeedsSliding: the library asserts that a stage has at least one sliding
	// layer (llama_kv_cache_iswa), so ranges without one are not legal.
	NeedsSliding bool
	// ForbiddenLengths are stage lengths at which the library takes the stage
	// for another model size and changes constants.
	ForbiddenLengths []int
	// Everywhere lists non-block tensors that every stage needs when the model
	// has them.
	Everywhere []string
	// Why is the reason for what is special, in a sentence.
	Why string
}

// plainArrays are the per-layer arrays that any plain decoder may carry.
var plainArrays = []string{
	"attention.head_count", "attention.head_count_kv", "feed_forward_length",
}

// table holds the families that passed parity on the pinned version at every
// legal cut (package cut, TestParity). All four take hidden states through
// llama_batch.embd and give them by their "l_out" nodes.
var table = map[string]Family{
	"llama": {
		Arch: "llama", Exit: "l_out", PerLayer: plainArrays,
		Everywhere: []string{"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"},
		Why:        "Llama 3 scales its rotary frequencies with rope_freqs.weight in every layer, so every stage carries it",
	},
	"qwen2": {
		Arch: "qwen2", Exit: "l_out", PerLayer: plainArrays,
		Everywhere: []string{"rope_freqs.weight"},
	},
	"qwen3": {
		Arch: "qwen3", Exit: "l_out", PerLayer: plainArrays,
		Everywhere: []string{"rope_freqs.weight"},
	},
	"gemma3": {
		Arch: "gemma3", Exit: "l_out", PerLayer: plainArrays,
		Everywhere:       []string{"rope_freqs.weight"},
		SlidingPeriod:    6,
		NeedsSliding:     true,
		ForbiddenLengths: []int{62},
		Why:              "the attention pattern depends on the layer's index, and at 62 layers the library switches to the attention scale of the 27B model",
	},
}

// Certified lists the architectures that may be cut, sorted.
func Certified() []string { return certified }

// Lookup finds the entry of an architecture.
func Lookup(arch string) (Family, bool) {
	f, ok := table[arch]
	return f, ok
}
