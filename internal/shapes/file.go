package shapes

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"neuron/llama/gguf"
)

// WriteHeader writes the whole model to path as a GGUF whose weights are a hole:
// all metadata and tensors are there, the file takes some megabytes of disk, and
// every weight reads as zero. What only looks at sizes (manifests, placement,
// "models inspect") sees the real model. The vocabulary has the model's size and
// meaningless tokens.
func (s *Shape) WriteHeader(path string, r Recipe) (err error) {
	list := make([]int, s.Layers())
	for i := range list {
		list[i] = i
	}
	kvs, infos, _ := s.model(list, r, s.Vocab)
	tokens, types := make([]string, s.Vocab), make([]int32, s.Vocab)
	for i := range tokens {
		tokens[i], types[i] = fmt.Sprintf("t%d", i), 1
	}
	kvs = append(kvs,
		gguf.KV{Key: "tokenizer.ggml.model", Value: gguf.String("gpt2")}, gguf.KV{Key: "tokenizer.ggml.pre", Value: gguf.String("gpt-2")},
		gguf.KV{Key: "tokenizer.ggml.tokens", Value: gguf.Strings(tokens)}, gguf.KV{Key: "tokenizer.ggml.token_type", Value: gguf.I32s(types)},
		gguf.KV{Key: "tokenizer.ggml.merges", Value: gguf.Strings([]string{"t 1"})},
		gguf.KV{Key: "tokenizer.ggml.eos_token_id", Value: gguf.U32(0)})
	head, err := gguf.EncodeHeader(kvs, infos, gguf.WriteOptions{})
	if err != nil {
		return err
	}
	_, size, err := gguf.Layout(infos, gguf.DefaultAlignment)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("shapes: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("shapes: %w", cerr)
		}
	}()
	if _, err := f.Write(head); err != nil {
		return fmt.Errorf("shapes: %w", err)
	}
	if err := f.Truncate(int64(len(head)) + int64(size)); err != nil {
		return fmt.Errorf("shapes: %w", err)
	}
	return nil
}

// layerVocab is the vocabulary of a file of some layers: its embedding and output
// matrix cost next to nothing.
const layerVocab = 64

// WriteLayers writes a model of the given layers of the shape alone, with random
// weights, a vocabulary of 64 tokens and no tokenizer. Hash layers are refused:
// their tables have the size of the vocabulary.
func (s *Shape) WriteLayers(ctx context.Context, path string, r Recipe, layers []int, seed uint64) error {
	kvs, infos, std := s.model(layers, r, layerVocab)
	for _, t := range infos {
		if t.Type == gguf.TypeI32 {
			return fmt.Errorf("shapes: layers %v of %s choose experts by token", layers, s.Name)
		}
	}
	kvs = append(kvs, gguf.KV{Key: "tokenizer.ggml.model", Value: gguf.String("no_vocab")}, gguf.KV{Key: s.Arch + ".vocab_size", Value: gguf.U32(layerVocab)})
	rng := newRandom(seed)
	return gguf.WriteFile(path, kvs, infos, func(i int, w io.Writer) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return rng.fill(w, infos[i], std[i])
	}, gguf.WriteOptions{})
}

// model lists metadata and tensors of a model of these layers, numbered from 0,
// and for each tensor the mean and spread of its weights.
func (s *Shape) model(layers []int, r Recipe, vocab int) ([]gguf.KV, []gguf.TensorInfo, []spread) {
	m := &meta{arch: s.Arch, kvs: []gguf.KV{
		{Key: gguf.ArchitectureKey, Value: gguf.String(s.Arch)}, {Key: "general.type", Value: gguf.String("model")},
		{Key: "general.name", Value: gguf.String(s.Title + " (sizes only)")}, {Key: "general.quantization_version", Value: gguf.U32(2)},
	}}
	m.num("block_count", len(layers))
	m.num("context_length", s.Context)
	m.num("embedding_length", s.Embd)
	s.meta(m, layers)
	var infos []gguf.TensorInfo
	var std []spread
	add := func(prefix string, list []Tensor) {
		for _, t := range list {
			if t.Class == Embed || t.Class == Head {
				t.Dims = []uint64{t.Dims[0], uint64(vocab)}
			}
			infos, std = append(infos, t.info(prefix, r)), append(std, spreadOf(t))
		}
	}
	embed := slices.IndexFunc(s.globals, func(t Tensor) bool { return t.Class == Embed })
	add("", s.globals[embed:embed+1])
	for k, i := range layers {
		add(fmt.Sprintf("blk.%d.", k), s.tensors(i))
	}
	add("", slices.Delete(slices.Clone(s.globals), embed, embed+1))
	return m.kvs, infos, std
}
