// Package shapes has the published sizes of large models that nobody can keep on
// a developer's computer, as GGUF headers and as single layers: DeepSeek-V4-Flash,
// GLM-5.2 and the Ornith models. It writes headers whose weights are a hole in
// the file, files of a few real-size layers with random weights, and the tables of
// docs/models: sizes, KV memory, ranges of nodes, route speeds.
//
// The sizes are those of the models' published configurations, the tensors those
// that the pinned llama.cpp asks of the family; docs/models names the sources.
//
// internal/cmd/shapes, the measurement of layers (internal/bench/layers) and
// tests import it. It does not know libllama.
package shapes

import (
	"fmt"
	"slices"

	"neuron/llama/gguf"
)

// Class says what a tensor is stored as; a Recipe gives the types.
type Class int

// The classes.
const (
	Exact    Class = iota // F32: norms, biases, routers
	Small                 // F16: what the published files keep in 16 bits
	Matrix                // attention, shared experts, dense feed-forward
	Expert                // gate and up of the routed experts
	ExpertIn              // down of the routed experts
	Embed                 // the embedding
	Head                  // the output matrix
	Index                 // I32
)

// Tensor is one tensor; in a Layer the name has no "blk.N." in front.
type Tensor struct {
	Name  string
	Dims  []uint64
	Class Class
}

// Shape is a model.
type Shape struct {
	Name  string // file name without ".gguf"
	Title string
	Arch  string
	// Kinds names the kind of each layer; layers of one kind have equal sizes but
	// for the tensors that a hash layer has instead of others.
	Kinds   []string
	Embd    int
	Seam    int // floats of a row between two stages
	Vocab   int
	Context int
	Experts int // routed experts of a layer, 0 in a dense model
	Used    int // of them for one token

	// tensors gives the tensors of layer i, globals those of no layer.
	tensors func(i int) []Tensor
	globals []Tensor
	// meta writes the architecture's own keys for a model of the given layers.
	meta func(m *meta, layers []int)
	// kv is the memory of a conversation in a layer of a kind.
	kv func(kind string, tokens, rows int) int64
}

// All are the shapes that docs/models reports on.
func All() []*Shape {
	return []*Shape{DeepSeekV4Flash(), GLM52(), Ornith9B(), Ornith35B(), Ornith397B()}
}

// Find returns a shape by its name.
func Find(name string) (*Shape, error) {
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("shapes: no shape %q", name)
}

// Layers is the number of layers.
func (s *Shape) Layers() int { return len(s.Kinds) }

// KindList lists the kinds in the order in which they first occur.
func (s *Shape) KindList() []string {
	var out []string
	for _, k := range s.Kinds {
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// LayerBytes is what the weights of layer i take.
func (s *Shape) LayerBytes(i int, r Recipe) int64 { return sum(s.tensors(i), r) }

// ReadBytes is what a decode step of one sequence reads of layer i's weights: all
// but the experts that are not used.
func (s *Shape) ReadBytes(i int, r Recipe) int64 {
	var n int64
	for _, t := range s.tensors(i) {
		b := t.bytes(r)
		if t.Class == Expert || t.Class == ExpertIn {
			b = b * int64(s.Used) / int64(s.Experts)
		}
		if t.Class == Index {
			b = 0 // one row of it
		}
		n += b
	}
	return n
}

// GlobalBytes is what the tensors of no layer take: the embedding, and the rest,
// which the tail needs.
func (s *Shape) GlobalBytes(r Recipe) (embed, tail int64) {
	for _, t := range s.globals {
		if t.Class == Embed {
			embed += t.bytes(r)
		} else {
			tail += t.bytes(r)
		}
	}
	return embed, tail
}

// Bytes is the whole model.
func (s *Shape) Bytes(r Recipe) int64 {
	a, b := s.GlobalBytes(r)
	n := a + b
	for i := range s.Kinds {
		n += s.LayerBytes(i, r)
	}
	return n
}

// Weights is the number of weights of the model, and of those that one token uses.
func (s *Shape) Weights() (all, active int64) {
	add := func(list []Tensor) {
		for _, t := range list {
			n := int64(1)
			for _, d := range t.Dims {
				n *= int64(d)
			}
			if t.Class == Index {
				continue
			}
			all += n
			switch t.Class {
			case Expert, ExpertIn:
				active += n * int64(s.Used) / int64(s.Experts)
			case Embed: // one row of it
			default:
				active += n
			}
		}
	}
	add(s.globals)
	for i := range s.Kinds {
		add(s.tensors(i))
	}
	return all, active
}

// First is the first layer of a kind, -1 without one.
func (s *Shape) First(kind string) int { return slices.Index(s.Kinds, kind) }

// KV is the memory that layer i keeps for one conversation of so many tokens in
// F16, when a call has at most rows rows.
func (s *Shape) KV(i, tokens, rows int) int64 { return s.kv(s.Kinds[i], tokens, rows) }

// KVAll is the sum over all layers.
func (s *Shape) KVAll(tokens, rows int) int64 {
	var n int64
	for i := range s.Kinds {
		n += s.KV(i, tokens, rows)
	}
	return n
}

func (t Tensor) info(prefix string, r Recipe) gguf.TensorInfo {
	return gguf.TensorInfo{Name: prefix + t.Name, Dims: t.Dims, Type: r.typ(t)}
}

func (t Tensor) bytes(r Recipe) int64 {
	n, err := t.info("", r).Bytes()
	if err != nil {
		panic(err) // a shape of ours whose rows are no whole blocks
	}
	return int64(n)
}

func sum(list []Tensor, r Recipe) int64 {
	var n int64
	for _, t := range list {
		n += t.bytes(r)
	}
	return n
}

// Helpers of the shapes: a matrix maps rows of in to rows of out.
func matrix(name string, in, out int, c Class) Tensor {
	return Tensor{name + ".weight", []uint64{uint64(in), uint64(out)}, c}
}

func experts(name string, in, out, n int, c Class) Tensor {
	return Tensor{name + ".weight", []uint64{uint64(in), uint64(out), uint64(n)}, c}
}

func vector(name string, n int) Tensor { return Tensor{name, []uint64{uint64(n)}, Exact} }

func norm(name string, n int) Tensor { return vector(name+".weight", n) }

// pad rounds n up to a multiple of the library's cell padding.
func pad(n int) int64 { return (int64(n) + 255) / 256 * 256 }

// meta collects metadata entries; keys get the architecture in front.
type meta struct {
	arch string
	kvs  []gguf.KV
}

func (m *meta) add(key string, v gguf.Value) {
	m.kvs = append(m.kvs, gguf.KV{Key: m.arch + "." + key, Value: v})
}
func (m *meta) num(key string, n int)      { m.add(key, gguf.U32(uint32(n))) }
func (m *meta) real(key string, x float32) { m.add(key, gguf.F32(x)) }
