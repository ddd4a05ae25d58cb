package cut

import (
	"fmt"
	"slices"
	"strings"

	"neuron/llama/family"
	"neuron/llama/gguf"
)

// needed says whether a stage for [first, last) has to hold a tensor's bytes.
// An unknown non-block tensor is refused: leaving it out would change results
// without an error.
func needed(name string, tied bool, m *family.Model, first, last int) (bool, error) {
	if i, _, ok := splitBlock(name); ok {
		return first <= i && i < last, nil
	}
	use, ok := m.TensorUse(name, tied)
	if !ok {
		return false, fmt.Errorf("%w: tensor %.64q is not known for %s; serve this model whole", ErrShard, name, m.Arch)
	}
	return use.NeededBy(m, first, last), nil
}

// mute reports whether a stage sees no token and gives no logits, so that its
// vocabulary may be small.
func mute(p *family.Plan) bool { return !p.Head() && !p.Tail() && !p.In.IDs }

// standIns lists what a stage must have for the library and never reads, or
// reads as zeros: its bytes are a hole in a sparse file. These are the tensors
// of other roles, under their own names, and all of the pad layers.
func standIns(m *family.Model, x *Index, st *family.Stage) ([]gguf.TensorInfo, error) {
	p := &st.Plan
	shapes, err := x.shapes(m)
	if err != nil {
		return nil, err
	}
	var out []gguf.TensorInfo
	add := func(name string, s Shape, pad bool) {
		out = append(out, gguf.TensorInfo{Name: name, Dims: s.dims(m, p, pad), Type: s.standInType(pad)})
	}
	for _, s := range shapes.Shared {
		need, err := needed(s.Name, x.Tied, m, p.First, p.Last)
		if err != nil {
			return nil, err
		}
		if !need {
			add(s.Name, s, false)
		}
	}
	if p.Head() && !p.Tail() && x.Tied && !m.Family().OneMatrix {
		// Without one the library would use the embedding a second time and
		// repack it into anonymous memory.
		add("output.weight", Shape{Dims: []uint64{uint64(m.Embd), uint64(m.Vocab)}, Type: uint32(gguf.TypeF16)}, false)
	}
	for at, slot := range st.Slots {
		if !slot.Pad {
			continue
		}
		if slot.Layer >= len(shapes.Of) {
			return nil, fmt.Errorf("%w: it was made by an earlier build, which kept no shapes of other layers; import the model again", ErrShard)
		}
		for _, s := range shapes.Layers[shapes.Of[slot.Layer]] {
			add(fmt.Sprintf("blk.%d.%s", at, s.Name), s, true)
		}
	}
	return out, nil
}

// withoutSplit drops keys that belong to a file, not to the model.
func withoutSplit(kvs []gguf.KV) []gguf.KV {
	return slices.DeleteFunc(slices.Clone(kvs), func(kv gguf.KV) bool {
		return strings.HasPrefix(kv.Key, "split.") || kv.Key == "general.alignment" || kv.Key == "neuron.padding"
	})
}

// stageMetadata rewrites the publisher's metadata for a stage: its number of
// layers, per-layer arrays by its layers and pads, what the family sets, and no
// tokenizer where no token is seen.
func stageMetadata(kvs []gguf.KV, m *family.Model, st *family.Stage) ([]gguf.KV, error) {
	prefix := m.Arch + "."
	quiet := mute(&st.Plan)
	set := map[string]bool{}
	for _, kv := range st.Set {
		set[kv.Key] = true
	}
	out := make([]gguf.KV, 0, len(kvs)+len(st.Set)+2)
	for _, kv := range withoutSplit(kvs) {
		own, isOwn := strings.CutPrefix(kv.Key, prefix)
		switch {
		case quiet && strings.HasPrefix(kv.Key, "tokenizer."), quiet && isOwn && own == "vocab_size", set[kv.Key]:
			continue // written below
		case isOwn && own == "block_count":
			kv.Value = gguf.U32(uint32(len(st.Slots)))
		case isOwn && own == "nextn_predict_layers":
			kv.Value = gguf.U32(0)
		case kv.Value.Type() == gguf.ValueArray:
			layers, known := family.PerLayer(own)
			if isOwn && !known && kv.Value.Len() == m.Layers {
				return nil, fmt.Errorf("%w: %.64q has %d entries and may be by layer, which is not known", ErrShard, kv.Key, m.Layers)
			}
			if !layers {
				break
			}
			v, err := gather(kv.Value, st.Slots)
			if err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrShard, kv.Key, err)
			}
			kv.Value = v
		}
		out = append(out, kv)
	}
	out = append(out, st.Set...)
	if quiet {
		out = append(out,
			gguf.KV{Key: "tokenizer.ggml.model", Value: gguf.String("no_vocab")},
			gguf.KV{Key: prefix + "vocab_size", Value: gguf.U32(standInVocab)})
	}
	return out, nil
}

// gather takes the entries of an array that belong to the slots.
func gather(v gguf.Value, slots []family.Slot) (gguf.Value, error) {
	parts := make([]gguf.Value, len(slots))
	for i, s := range slots {
		var err error
		if parts[i], err = v.Slice(s.Layer, s.Layer+1); err != nil {
			return gguf.Value{}, err
		}
	}
	return gguf.Concat(parts...)
}
