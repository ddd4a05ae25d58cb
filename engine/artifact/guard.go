package artifact

import (
	"neuron/engine/protocol"
	"neuron/llama/family"
)

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
