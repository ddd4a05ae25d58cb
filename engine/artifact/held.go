package artifact

import (
	"errors"
	"io/fs"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/llama/cut"
)

// Held lists the tensors of m (indices into m.Tensors, ascending) that are
// complete in the shard folder dir; none in a folder that has not begun. They
// were right when they came; the load gate looks again.
func Held(dir string, m *manifest.Manifest) ([]int, error) {
	x, err := cut.ReadIndex(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "layers of %s: %w", m.Name, err)
	}
	listed := map[string]bool{}
	for _, tensors := range x.Files {
		for _, t := range tensors {
			listed[t.Name] = true
		}
	}
	var out []int
	for i := range m.Tensors {
		if listed[m.Tensors[i].Name] {
			out = append(out, i)
		}
	}
	return out, nil
}
