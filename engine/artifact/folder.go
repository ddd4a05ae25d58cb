package artifact

import (
	"path/filepath"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/llama/cut"
	"neuron/llama/family"
	"neuron/llama/gguf"
)

// OpenFolder is the source of a model that was fetched: a shard folder, as far
// as it has come. The model's metadata must be there; layers are looked at when
// a Shard of them is made.
func OpenFolder(dir string, m *manifest.Manifest) (*Source, error) {
	s := &Source{ID: m.Model, Name: m.Name, Folder: dir, layerWeight: map[int]int64{}, recordPath: filepath.Join(dir, wholeRecord)}
	for _, t := range m.Tensors {
		if t.Use == manifest.UseUnused {
			continue
		}
		s.Weight += t.Bytes
		if t.Use == manifest.UseLayer {
			s.layerWeight[t.Layer] += t.Bytes
		}
	}
	if m.WholeOnly != "" {
		return s, s.openWhole(m)
	}
	store, err := cut.Open(dir)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "layers of %s: %w", m.Name, err)
	}
	s.Model = store.Model()
	return s, nil
}

// openWhole reads a model whose folder holds the publisher's files themselves.
func (s *Source) openWhole(m *manifest.Manifest) error {
	for _, f := range m.Files {
		path := filepath.Join(s.Folder, f.Name)
		s.Files = append(s.Files, path)
		s.whole = append(s.whole, cut.Whole{Path: path, Size: f.Size, SHA256: f.SHA256.String()})
	}
	g, err := gguf.OpenModel(s.Files[0])
	if err != nil {
		return openError(s.Files[0], err)
	}
	defer g.Close()
	s.Model, err = Describe(m.Name, g)
	return err
}

// MetadataFile is the name, in a shard folder, of the publisher's metadata as a
// GGUF without tensors: tokenizer, chat template, hyperparameters.
const MetadataFile = "meta.gguf"

// OpenMetadata is a source of which only the metadata is there.
func OpenMetadata(dir string, m *manifest.Manifest) (*Source, error) {
	path := filepath.Join(dir, MetadataFile)
	g, err := gguf.OpenModel(path)
	if err != nil {
		return nil, openError(path, err)
	}
	defer g.Close()
	s := &Source{ID: m.Model, Name: m.Name, Folder: dir}
	if s.Model, err = family.Describe(g.Meta()); err != nil {
		return nil, refused(m.Name, err)
	}
	return s, nil
}
