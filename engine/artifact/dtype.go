package artifact

import (
	"slices"

	"neuron/engine/protocol"
)

// halves are the families whose routes may carry hidden states as binary16: the
// logits of routes with halved rows stayed within the bounds of TestHalves.
// Whoever is not here gets F32, which is exact.
var halves = []string{"llama", "qwen2", "qwen3"}

// DTypes lists the element types that seams of an architecture may carry, the
// default first.
func DTypes(arch string) []string {
	out := []string{protocol.DTypeF32.String()}
	if slices.Contains(halves, arch) {
		out = append(out, protocol.DTypeF16.String())
	}
	return out
}
