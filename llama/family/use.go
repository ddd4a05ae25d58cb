package family

import "slices"

// Use says which stages need the bytes of a tensor that belongs to no layer.
type Use uint8

// The uses.
const (
	UseHead Use = iota + 1 // the stage with the first layer
	UseTail                // the stage with the last one
	UseEnds                // both
	UseAll                 // every stage
)

// Tensors that families have in common. The scales are of 4-bit types with a
// scale for the whole tensor.
var (
	headTensors = []string{embeddingTensor}
	tailTensors = []string{
		"output_norm.weight", "output_norm.bias", "output.weight", "output.bias", "output.scale", "output.input_scale",
	}
	allTensors = []string{"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}
)

const embeddingTensor = "token_embd.weight"

// TensorUse says which stages need a tensor without a layer, false for a name
// that the family's entry does not know: leaving it out would change results
// without an error. tied says that the model has no output matrix of its own.
func (m *Model) TensorUse(name string, tied bool) (Use, bool) {
	f := m.family
	switch {
	case name == embeddingTensor && tied:
		return UseEnds, true
	case slices.Contains(headTensors, name), slices.Contains(f.Head, name):
		return UseHead, true
	case name == f.Norm, slices.Contains(tailTensors, name), slices.Contains(f.Tail, name):
		return UseTail, true
	case slices.Contains(allTensors, name), slices.Contains(f.Everywhere, name):
		return UseAll, true
	}
	return 0, false
}

// NeededBy reports whether a stage of layers [first, last) needs a tensor of
// this use.
func (u Use) NeededBy(m *Model, first, last int) bool {
	head, tail := first == 0, last == m.Layers
	switch u {
	case UseHead:
		return head
	case UseTail:
		return tail
	case UseEnds:
		return head || tail
	}
	return true
}
