// Package family knows how each architecture of llama.cpp may be cut into
// stages: entry and exit nodes, what metadata a stage needs, which ranges are
// legal and what pad layers make them so, and what a position costs in KV
// memory. It is data with the reason beside each entry; the cutter and the
// stage hold no branch for a family.
//
// It reads GGUF metadata only (package gguf); it knows neither libllama nor
// files nor the network. The cutter, the stage runner, the engine and its
// tools may import it.
package family

import (
	"maps"
	"slices"
)

// Family says how one architecture is cut. Names of nodes, keys and tensors are
// those of llama.cpp; they are claims about the pinned version, and each is
// held by the parity suite (package parity). Keys are written without the
// architecture's prefix.
type Family struct {
	// Arch is general.architecture.
	Arch string
	// Whole says why no model of it may be cut, "" if some may.
	Whole string
	// WholeIf lists models of it that may not.
	WholeIf []Limit

	// Entry is the node that hidden rows overwrite right after it was computed;
	// "" gives them to the library as embeddings.
	Entry string
	// Exit is a layer's output without "-<layer>"; LastExit the whole name of
	// the last layer's where the graph renames it. ExitNext: the output has the
	// name that the graph gives to the next layer's input.
	Exit, LastExit string
	ExitNext       bool
	// Streams is the key of how many residual streams each row has; "": one.
	Streams string

	// Lead are keys of how many layers from the first are of another kind.
	Lead []string
	// IDs is a key like those in Lead: those layers look up token ids.
	IDs string
	// Sliding says which layers attend to a window, nil: none.
	Sliding *Sliding
	// Recurrent says which layers keep a state instead of keys and values.
	Recurrent Recurrence
	// Index are properties of a layer that the library takes from its index.
	Index []Index
	// Indexers says which layers choose positions for sparse attention.
	Indexers *Indexers
	// Ratios is the key of an array with the compression of each layer.
	Ratios string
	// Needs are the kinds of layers that every stage must have, or the library
	// ends the process; First is the kind that a stage must begin with.
	Needs []Kind
	First Kind
	// Slots is the fewest layers of a stage, 0 for one.
	Slots int
	// Lengths are numbers of layers at which the library takes a stage for
	// another size of model and changes constants.
	Lengths []int

	// Zero are keys that stages behind the head state as 0 where the model has
	// them.
	Zero []string
	// Set are values to write where the model leaves them to a default that a
	// stage would get otherwise.
	Set []Default
	// Head, Tail and Everywhere name non-block tensors that the first stage,
	// the last one and all stages need, beside those of every family.
	Head, Tail, Everywhere []string
	// Norm is the tensor of the last norm, output_norm.weight unless stated.
	Norm string
	// OneMatrix: the library never asks for an output matrix and takes the
	// embedding.
	OneMatrix bool
	// Cache is how the memory of attention layers is counted.
	Cache Cache
	// Why is the reason for what is special, in a sentence.
	Why string
}

// Limit is a condition on metadata under which a model is not cut.
type Limit struct {
	Key string
	// Least and Most are the values that are not cut; a missing key counts as
	// Missing.
	Least, Most, Missing int64
	Why                  string
}

// Default is a value that depends on the number of layers unless it is written.
type Default struct {
	Key string
	// Value for the whole model of so many layers and tokens; not ok: leave it.
	Value func(layers, vocab int) (v float64, ok bool)
	// Int writes a whole number.
	Int bool
}

// Kind is a set of properties that a layer has.
type Kind uint16

// The kinds.
const (
	KindSliding    Kind = 1 << iota // attends to a window
	KindFull                        // attends to all positions
	KindRecurrent                   // keeps a state
	KindAttention                   // keeps keys and values
	KindCompressed                  // attends to positions that an indexer chose of compressed ones
	KindIndexer                     // has an indexer of its own
	KindSparse                      // lies behind the leading dense layers
	KindNoRope                      // does not rotate
	KindHeads                       // has attention heads in the metadata
	KindPooled                      // attends to compressed positions without an indexer
)

// Sliding is where the pattern of sliding layers comes from.
type Sliding struct {
	// Period is the built-in one: all but one of so many layers slide, the last
	// one not, or with FullFirst the first. 0: an array is required.
	Period    int
	FullFirst bool
	// Arrays: the library reads an array too; otherwise it ignores one.
	Arrays bool
	// Window replaces the metadata's; Always: also a model that states none has
	// one (0 then means that none has).
	Window int
	Always bool
	// All: every layer slides, whatever the metadata say.
	All bool
}

// Recurrence is how recurrent layers are told.
type Recurrence uint8

// The ways.
const (
	RecurNone     Recurrence = iota
	RecurAll                 // every layer is recurrent
	RecurBoth                // every layer is recurrent and attends, too
	RecurHeads               // attention.head_count_kv is 0
	RecurHeadsFF             // as before, and feed_forward_length is 0; with that alone a layer has no memory
	RecurInterval            // attention.recurrent_layers, or all but each full_attention_interval-th
)

// Index is a property that layers have by their place: one in Period, the last
// of each run or with First the first.
type Index struct {
	Kind   Kind // 0: only the tensors differ
	Period int
	First  bool
	Key    string // of the period, where the metadata give it
	// Sliding: only in models with sliding layers.
	Sliding bool
}

// Indexers is where the kinds of indexers come from.
type Indexers struct {
	Key string
	// All: without the key each layer has one when the context is below
	// LongContext; others have Long.
	LongContext int
	Long        func(layer int) bool
	// Shared: layers without one use the choice of the last layer with one,
	// TopK is the key of its size.
	Shared bool
	TopK   string
}

// Cache is how keys and values are counted.
type Cache uint8

// The ways.
const (
	CachePlain      Cache = iota // rows of keys and of values, or one compressed row (MLA)
	CacheIndexed                 // as before, and a key of the indexer in layers that have one
	CacheBlocks                  // rows, and keys of an indexer in sparse layers
	CacheCompressed              // a window, and compressed rows (DeepSeek-V4)
	CacheUnknown                 // measured when a stage loads
)

// perLayer are arrays with an entry for each layer, those of xIELU without the
// architecture's prefix; wholeArrays have other entries, whatever their length.
var (
	perLayer = []string{
		"attention.head_count", "attention.head_count_kv", "feed_forward_length", "expert_feed_forward_length", "expert_used_count",
		"swiglu_clamp_exp", "swiglu_clamp_shexp", "attention.recurrent_layers", "attention.indexer.types", "attention.compress_ratios",
		"attention.sliding_window_pattern", "attention.rope_pattern", "xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps",
	}
	wholeArrays = []string{
		"rope.dimension_sections", "deepstack_mapping", "classifier.output_labels", "target_layers", "ple.layers",
		"attention.sliding_window_pattern_full",
	}
)

// PerLayer reports whether an array under the key has an entry for each layer,
// and whether the key is known at all.
func PerLayer(key string) (layers, known bool) {
	layers = slices.Contains(perLayer, key)
	return layers, layers || slices.Contains(wholeArrays, key)
}

// table is made of the subjects' tables.
var table = merge(plain, exact, sliding, hybrid, wide, refused)

func merge(parts ...[]Family) map[string]Family {
	out := map[string]Family{}
	for _, part := range parts {
		for _, f := range part {
			if f.Exit == "" {
				f.Exit = "l_out"
			}
			if f.Norm == "" {
				f.Norm = "output_norm.weight"
			}
			if _, twice := out[f.Arch]; twice {
				panic("two entries for " + f.Arch)
			}
			out[f.Arch] = f
		}
	}
	return out
}

// Known lists the architectures of the table, sorted.
func Known() []string { return slices.Sorted(maps.Keys(table)) }

// Lookup finds the entry of an architecture.
func Lookup(arch string) (Family, bool) {
	f, ok := table[arch]
	return f, ok
}
