// Package synth writes GGUF models of a real shape with random weights, small ones for
// tests and large ones for measurements. They compute nonsense, but everything that does
// not depend on training behaves as with a real model: loading, cutting, memory, speed,
// tokenizing, streaming.
//
// Tests and measuring tools may import this package. It knows the tensor names and
// metadata keys that llama.cpp v0.4.0 asks of a family; it does not know stages, libllama
// or the network.
package synth

import (
	"fmt"
	"io"

	"neuron/llama/gguf"
)

// The families that Write knows, by llama.cpp's name of the architecture.
const (
	FamilyLlama  = "llama"
	FamilyQwen2  = "qwen2"
	FamilyQwen3  = "qwen3"
	FamilyGemma3 = "gemma3"
)

// Shape is the size of a model.
type Shape struct {
	Family        string // one of the Family constants
	Layers        int
	Embd          int // width of the residual stream
	FF            int // width inside the feed-forward block
	Heads         int // attention heads
	KVHeads       int // heads of the keys and values; divides Heads
	HeadDim       int // even
	Vocab         int // tokens, at least MinVocab
	Context       int // context length that the metadata states
	Tied          bool
	SlidingWindow int  // gemma3 only: positions that five of six layers see
	RopeFreqs     bool // llama only: rope_freqs.weight as in Llama 3.1
}

// Options say how the weights are stored and drawn.
type Options struct {
	Type gguf.Type // of the matrices: F32, F16, BF16, Q8_0, Q4_0 or Q4_K; the zero value is F32
	Seed uint64    // the same seed, shape and type give the same bytes on every platform
}

var presets = map[string]Shape{
	"tiny-llama":  {Family: FamilyLlama, Layers: 8, Embd: 256, FF: 512, Heads: 4, KVHeads: 2, HeadDim: 64, Vocab: 512, Context: 2048},
	"tiny-llama3": {Family: FamilyLlama, Layers: 8, Embd: 256, FF: 512, Heads: 4, KVHeads: 2, HeadDim: 64, Vocab: 512, Context: 2048, RopeFreqs: true},
	"tiny-qwen2":  {Family: FamilyQwen2, Layers: 8, Embd: 256, FF: 512, Heads: 4, KVHeads: 2, HeadDim: 64, Vocab: 512, Context: 2048},
	"tiny-qwen3":  {Family: FamilyQwen3, Layers: 8, Embd: 256, FF: 512, Heads: 8, KVHeads: 2, HeadDim: 64, Vocab: 512, Context: 2048, Tied: true},
	"tiny-gemma3": {Family: FamilyGemma3, Layers: 8, Embd: 256, FF: 512, Heads: 4, KVHeads: 1, HeadDim: 64, Vocab: 512, Context: 2048, Tied: true, SlidingWindow: 64},
	"llama-1b":    {Family: FamilyLlama, Layers: 22, Embd: 2048, FF: 5632, Heads: 32, KVHeads: 4, HeadDim: 64, Vocab: 32000, Context: 2048},
	"llama-8b":    {Family: FamilyLlama, Layers: 32, Embd: 4096, FF: 14336, Heads: 32, KVHeads: 8, HeadDim: 128, Vocab: 128256, Context: 131072, RopeFreqs: true},
}

// Preset returns a named shape: "tiny-llama", "tiny-llama3", "tiny-qwen2", "tiny-qwen3",
// "tiny-gemma3" (8 layers, width 256, some 5 million weights), "llama-1b" and "llama-8b".
func Preset(name string) (Shape, error) {
	s, ok := presets[name]
	if !ok {
		return Shape{}, fmt.Errorf("synth: unknown preset %q", name)
	}
	return s, nil
}

// Write writes the model to path as one GGUF file, streaming, so that memory does not
// grow with the model. The file appears whole or not at all.
func Write(path string, s Shape, o Options) error {
	if err := check(s, o); err != nil {
		return fmt.Errorf("synth: %w", err)
	}
	list := tensors(s, o.Type)
	infos := make([]gguf.TensorInfo, len(list))
	for i, t := range list {
		infos[i] = t.info
	}
	data := func(i int, w io.Writer) error { return list[i].write(w, o.Seed) }
	if err := gguf.WriteFile(path, metadata(s, o), infos, data, gguf.WriteOptions{}); err != nil {
		return fmt.Errorf("synth: %w", err)
	}
	return nil
}

func check(s Shape, o Options) error {
	switch s.Family {
	case FamilyLlama, FamilyQwen2, FamilyQwen3, FamilyGemma3:
	default:
		return fmt.Errorf("unknown family %q", s.Family)
	}
	switch o.Type {
	case gguf.TypeF32, gguf.TypeF16, gguf.TypeBF16, gguf.TypeQ8_0, gguf.TypeQ4_0, gguf.TypeQ4_K:
	default:
		return fmt.Errorf("weights of type %s cannot be drawn", o.Type)
	}
	const most = 1 << 24
	for _, f := range []struct {
		name  string
		value int
	}{{"layers", s.Layers}, {"width", s.Embd}, {"feed-forward width", s.FF}, {"heads", s.Heads}, {"key-value heads", s.KVHeads},
		{"head size", s.HeadDim}, {"vocabulary", s.Vocab}, {"context", s.Context}} {
		if f.value < 1 || f.value > most {
			return fmt.Errorf("%s is %d, want 1 to %d", f.name, f.value, most)
		}
	}
	switch {
	case s.Layers > 512: // LLAMA_MAX_LAYERS
		return fmt.Errorf("%d layers, llama.cpp allows 512", s.Layers)
	case s.Heads%s.KVHeads != 0:
		return fmt.Errorf("%d heads are not a multiple of %d key-value heads", s.Heads, s.KVHeads)
	case s.HeadDim%2 != 0:
		return fmt.Errorf("head size %d is odd", s.HeadDim)
	case s.Vocab < MinVocab:
		return fmt.Errorf("vocabulary of %d, the tokenizer needs %d", s.Vocab, MinVocab)
	case s.RopeFreqs && s.Family != FamilyLlama:
		return fmt.Errorf("%s has no rope_freqs", s.Family)
	case (s.SlidingWindow > 0) != (s.Family == FamilyGemma3) || s.SlidingWindow < 0:
		return fmt.Errorf("sliding window %d in family %s", s.SlidingWindow, s.Family)
	case s.Family == FamilyGemma3 && !s.Tied:
		return fmt.Errorf("gemma3 always ties its output to the embedding")
	}
	for _, row := range []int{s.Embd, s.FF, s.Heads * s.HeadDim} {
		if _, err := o.Type.RowBytes(uint64(row)); err != nil {
			return err
		}
	}
	return nil
}
