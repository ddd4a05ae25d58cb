package cut

import (
	"fmt"
	"slices"
	"strings"

	"neuron/llama/family"
	"neuron/llama/gguf"
)

// needed says whether a stage for [first, last) has to hold a tensor's bytes.
// The head looks tokens up, the tail projects them; a tied model projects with
// the embedding. An unknown non-block tensor is refused: leaving it out would
// change results without an error.
func needed(name string, tied bool, m *family.Model, first, last int) (bool, error) {
	if i, _, ok := splitBlock(name); ok {
		return first <= i && i < last, nil
	}
	head, tail := first == 0, last == m.Layers
	switch {
	case name == "token_embd.weight":
		return head || tail && tied, nil
	case name == "output_norm.weight", name == "output.weight", name == "output.bias":
		return tail, nil
	case slices.Contains(m.Family().Everywhere, name):
		return true, nil
	}
	return false, fmt.Errorf("%w: tensor %.64q is not known for %s; serve this model whole", ErrShard, name, m.Arch)
}

// standIn is a tensor that the library wants to see and never reads in this
// stage; its bytes are a hole in a sparse file.
type standIn struct {
	name string
	dims []uint64
	typ  gguf.Type
}

// standIns lists what a stage must pretend to have.
func standIns(m *family.Model, tied bool, first, last int) []standIn {
	head, tail := first == 0, last == m.Layers
	embd := uint64(m.Embd)
	var out []standIn
	if !tail {
		out = append(out, standIn{"output_norm.weight", []uint64{embd}, gguf.TypeF32})
	}
	switch {
	case head && !tail:
		// Without one the library would use the embedding a second time and
		// repack it into anonymous memory.
		out = append(out, standIn{"output.weight", []uint64{embd, uint64(m.Vocab)}, smallestType(embd)})
	case tail && !head && !tied:
		out = append(out, standIn{"token_embd.weight", []uint64{embd, uint64(m.Vocab)}, smallestType(embd)})
	case !head && !tail:
		out = append(out, standIn{"token_embd.weight", []uint64{embd, standInVocab}, gguf.TypeF32})
	}
	return out
}

// smallestType is the type with the fewest bytes per element that rows of n
// elements allow.
func smallestType(n uint64) gguf.Type {
	switch {
	case n%gguf.TypeIQ1_S.BlockSize() == 0:
		return gguf.TypeIQ1_S
	case n%gguf.TypeQ4_0.BlockSize() == 0:
		return gguf.TypeQ4_0
	}
	return gguf.TypeF16
}

// withoutSplit drops keys that belong to a file, not to the model.
func withoutSplit(kvs []gguf.KV) []gguf.KV {
	return slices.DeleteFunc(slices.Clone(kvs), func(kv gguf.KV) bool {
		return strings.HasPrefix(kv.Key, "split.") || kv.Key == "general.alignment" || kv.Key == "neuron.padding"
	})
}

// stageMetadata rewrites the publisher's metadata for layers [first, last):
// fewer layers, per-layer arrays cut, index-dependent patterns written out,
// and no tokenizer where no token is seen.
func stageMetadata(kvs []gguf.KV, m *family.Model, first, last int) ([]gguf.KV, error) {
	prefix := m.Arch + "."
	mute := first != 0 && last != m.Layers
	f := m.Family()
	out := make([]gguf.KV, 0, len(kvs)+4)
	for _, kv := range withoutSplit(kvs) {
		own, isOwn := strings.CutPrefix(kv.Key, prefix)
		switch {
		case mute && strings.HasPrefix(kv.Key, "tokenizer."):
			continue
		case isOwn && own == "block_count":
			kv.Value = gguf.U32(uint32(last - first))
		case isOwn && own == "nextn_predict_layers":
			kv.Value = gguf.U32(0)
		case isOwn && own == "vocab_size" && mute,
			isOwn && own == "attention.sliding_window_pattern":
			continue // written below
		case isOwn && slices.Contains(f.PerLayer, own) && kv.Value.Type() == gguf.ValueArray:
			v, err := kv.Value.Slice(first, last)
			if err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrShard, kv.Key, err)
			}
			kv.Value = v
		}
		out = append(out, kv)
	}
	if period, ok := m.Period(first, last); ok {
		out = append(out, gguf.KV{Key: prefix + "attention.sliding_window_pattern", Value: gguf.U32(uint32(period))})
	}
	if mute {
		out = append(out,
			gguf.KV{Key: "tokenizer.ggml.model", Value: gguf.String("no_vocab")},
			gguf.KV{Key: prefix + "vocab_size", Value: gguf.U32(standInVocab)})
	}
	return out, nil
}
