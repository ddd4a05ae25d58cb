package artifact

import (
	"errors"

	"neuron/engine/protocol"
	"neuron/llama/family"
	"neuron/llama/gguf"
)

// Describe reads what a whole model's files say of it, and refuses what must not
// reach the library. Errors: model_invalid, unsupported.
func Describe(name string, g *gguf.Model) (*family.Model, error) {
	m, err := family.DescribeWhole(g.Meta(), func(tensor string) bool { _, ok := g.Tensor(tensor); return ok })
	if err != nil {
		return nil, refused(name, err)
	}
	return m, nil
}

// refused is the coded form of what package family says against a model.
func refused(name string, err error) error {
	code := protocol.CodeModelInvalid
	if errors.Is(err, family.ErrLibrary) {
		code = protocol.CodeUnsupported
	}
	return protocol.Errorf(code, "%s: %w", name, err)
}
