package archs

import (
	"fmt"
	"strings"

	"neuron/llama"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// Vocab is the number of tokens of every model: those of synth and filler tokens.
const Vocab = 512

// Model is one entry of the table.
type Model struct {
	// Name is the architecture, or the architecture, a slash and what is different
	// about this variant, as in "deepseek2/mtp".
	Name string
	// Arch is llama.cpp's name of the architecture.
	Arch string
	// Kind says in a word or two what is special about the structure.
	Kind string
	// Layers is the number of layers that are computed, prediction layers left out.
	Layers int
}

// List gives all models, in the order of the table: the common families first.
func List() []Model {
	out := make([]Model, 0, len(table()))
	for _, s := range table() {
		out = append(out, s.model())
	}
	return out
}

// Left is an architecture without a model here.
type Left struct {
	Arch   string
	Reason string
}

// LeftOut gives the architectures of the pinned libllama that no stage could serve,
// each with the reason. With those of List they are all that it knows.
func LeftOut() []Left { return append([]Left(nil), leftOut...) }

// Write writes the model of that name to path as one GGUF file. Matrices are stored as
// t (a type that llama.QuantizeRows takes), or in a kindred type where t's blocks do not
// divide a row, just as llama.cpp's quantizer would; vectors stay F32. The same name,
// type and seed give the same bytes on every platform, and the types of one seed are of
// the same weights. llama.Load must have been called. A defect of libllama can abort the
// process; the models of List are known not to, on the CPU.
func Write(path, name string, t gguf.Type, seed uint64) error {
	s, ok := find(name)
	if !ok {
		return fmt.Errorf("archs: unknown model %q", name)
	}
	if _, err := llama.QuantizeRows(uint32(t), nil, int(t.BlockSize())); err != nil {
		return fmt.Errorf("archs: %w", err)
	}
	kvs, err := s.metadata(t)
	if err != nil {
		return fmt.Errorf("archs: %s: %w", name, err)
	}
	tensors, err := s.tensors(kvs)
	if err != nil {
		return fmt.Errorf("archs: %s: %w", name, err)
	}
	d := drawer{seed: seed, want: t, experts: s.number(kvs, "expert_count")}
	if err := d.write(path, kvs, tensors); err != nil {
		return fmt.Errorf("archs: %s: %w", name, err)
	}
	return nil
}

func find(name string) (spec, bool) {
	for _, s := range table() {
		if s.name == name {
			return s, true
		}
	}
	return spec{}, false
}

// metadata gives the entries of the file.
func (s spec) metadata(t gguf.Type) ([]gguf.KV, error) {
	m := s.model()
	kvs := []gguf.KV{
		{Key: gguf.ArchitectureKey, Value: gguf.String(m.Arch)},
		{Key: "general.type", Value: gguf.String("model")},
		// Not the family: libllama looks for some families' names here, and then for tokens
		// that their vocabularies have.
		{Key: "general.name", Value: gguf.String("random weights")},
		{Key: "general.file_type", Value: gguf.U32(fileTypes[t])},
		{Key: "general.quantization_version", Value: gguf.U32(2)},
	}
	own, err := s.keys()
	if err != nil {
		return nil, err
	}
	for _, kv := range own {
		key, fromRoot := strings.CutPrefix(kv.Key, "/")
		if !fromRoot {
			key = m.Arch + "." + key
		}
		kvs = append(kvs, gguf.KV{Key: key, Value: kv.Value})
	}
	return append(kvs, synth.Tokenizer(Vocab, true)...), nil
}

// fileTypes are the numbers of llama.cpp's enum llama_ftype for general.file_type.
var fileTypes = map[gguf.Type]uint32{
	gguf.TypeF32: 0, gguf.TypeF16: 1, gguf.TypeQ4_0: 2, gguf.TypeQ4_1: 3, gguf.TypeQ8_0: 7, gguf.TypeQ5_0: 8, gguf.TypeQ5_1: 9,
	gguf.TypeQ2_K: 10, gguf.TypeQ3_K: 12, gguf.TypeQ4_K: 15, gguf.TypeQ5_K: 17, gguf.TypeQ6_K: 18, gguf.TypeIQ4_NL: 25,
	gguf.TypeIQ4_XS: 30, gguf.TypeBF16: 32, gguf.TypeMXFP4: 38,
}
