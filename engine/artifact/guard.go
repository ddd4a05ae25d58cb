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
	m, err := family.Describe(g.Meta())
	if err == nil {
		err = m.CheckTensors(func(tensor string) bool { _, ok := g.Tensor(tensor); return ok })
	}
	if err != nil {
		return nil, refused(name, err)
	}
	return m, guard(name, m)
}

// refused is the coded form of what package family says against a model.
func refused(name string, err error) error {
	code := protocol.CodeModelInvalid
	if errors.Is(err, family.ErrLibrary) {
		code = protocol.CodeUnsupported
	}
	return protocol.Errorf(code, "%s: %w", name, err)
}

// guard refuses a whole model over which the library would end the process; of
// its parts package family answers for every one by itself. What is wrong with
// the metadata of any family was refused before.
func guard(path string, m *family.Model) error {
	f := m.Family()
	switch {
	case f.Arch == "" || f.Whole != "":
		return nil // nothing is known of its layers
	case m.Layers < f.Slots:
		return protocol.Errorf(protocol.CodeModelInvalid, "%s: %d layers, %s models have at least %d", path, m.Layers, m.Arch, f.Slots)
	case f.First != 0 && m.Kinds(0)&f.First == 0:
		return protocol.Errorf(protocol.CodeModelInvalid, "%s: the first layer of this %s model is of a kind that needs one before it", path, m.Arch)
	}
	return nil
}
