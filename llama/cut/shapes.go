package cut

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"neuron/llama/family"
	"neuron/llama/gguf"
)

// Shape is a tensor without its bytes.
type Shape struct {
	Name string   `json:"name"`
	Dims []uint64 `json:"dims"`
	Type uint32   `json:"type"`
}

// Shapes are the tensors of a whole model. Layers that are alike share a list.
type Shapes struct {
	// Shared belong to no layer; Layers are the kinds of layers, their names
	// without "blk.<n>.", Of the kind of each layer.
	Shared []Shape   `json:"shared"`
	Layers [][]Shape `json:"layers"`
	Of     []int     `json:"of"`
}

// shapesOf sorts a model's tensors. Blocks behind the last layer predict
// further tokens and are left out.
func shapesOf(tensors []Shape, layers int) *Shapes {
	out := &Shapes{Of: make([]int, layers)}
	each := make([][]Shape, layers)
	for _, t := range tensors {
		t.Dims = slices.Clone(t.Dims)
		i, rest, block := splitBlock(t.Name)
		switch {
		case !block:
			out.Shared = append(out.Shared, t)
		case i < layers:
			t.Name = rest
			each[i] = append(each[i], t)
		}
	}
	byName := func(a, b Shape) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	}
	slices.SortFunc(out.Shared, byName)
	for i, list := range each {
		slices.SortFunc(list, byName)
		k := slices.IndexFunc(out.Layers, func(o []Shape) bool { return slices.EqualFunc(o, list, Shape.equal) })
		if k < 0 {
			k = len(out.Layers)
			out.Layers = append(out.Layers, list)
		}
		out.Of[i] = k
	}
	return out
}

func (s Shape) equal(o Shape) bool {
	return s.Name == o.Name && s.Type == o.Type && slices.Equal(s.Dims, o.Dims)
}

func (s *Shapes) equal(o *Shapes) bool {
	return s != nil && slices.EqualFunc(s.Shared, o.Shared, Shape.equal) && slices.Equal(s.Of, o.Of) &&
		slices.EqualFunc(s.Layers, o.Layers, func(a, b []Shape) bool { return slices.EqualFunc(a, b, Shape.equal) })
}

// check refuses what no model has: the rest relies on it.
func (s *Shapes) check(layers int) error {
	if len(s.Of) != layers {
		return fmt.Errorf("shapes of %d layers, the model has %d", len(s.Of), layers)
	}
	for _, k := range s.Of {
		if k < 0 || k >= len(s.Layers) {
			return fmt.Errorf("a layer of kind %d, of %d", k, len(s.Layers))
		}
	}
	for _, list := range append(slices.Clone(s.Layers), s.Shared) {
		for _, t := range list {
			info := gguf.TensorInfo{Name: t.Name, Dims: t.Dims, Type: gguf.Type(t.Type)}
			if _, err := info.Bytes(); err != nil || len(t.Dims) == 0 {
				return fmt.Errorf("tensor %.64q: %w", t.Name, errors.Join(err, checkName(t.Name)))
			}
		}
	}
	return nil
}

// shapes gives the model's tensors; for a folder of an earlier build those
// that its families had, and none of layers.
func (x *Index) shapes(m *family.Model) (*Shapes, error) {
	if x.Shapes != nil {
		return x.Shapes, nil
	}
	embd, vocab := uint64(m.Embd), uint64(m.Vocab)
	out := &Shapes{Shared: []Shape{
		{"token_embd.weight", []uint64{embd, vocab}, uint32(gguf.TypeF16)},
		{"output_norm.weight", []uint64{embd}, uint32(gguf.TypeF32)},
	}}
	if !x.Tied {
		out.Shared = append(out.Shared, Shape{"output.weight", []uint64{embd, vocab}, uint32(gguf.TypeF16)})
	}
	for _, name := range x.Shared {
		use, ok := m.TensorUse(name, x.Tied)
		known := slices.ContainsFunc(out.Shared, func(s Shape) bool { return s.Name == name })
		if ok && use != family.UseAll && !known {
			return nil, fmt.Errorf("%w: it was made by an earlier build, which kept no shape of %s; import the model again", ErrShard, name)
		}
	}
	return out, nil
}

// dims are those of the stand-in: a quiet stage has a small vocabulary. Only
// what is known to have a row for each token is made smaller, since other sizes
// may be equal by chance.
func (s Shape) dims(m *family.Model, p *family.Plan, pad bool) []uint64 {
	out := slices.Clone(s.Dims)
	last := len(out) - 1
	tokens := !pad && (strings.HasPrefix(s.Name, "token_embd.") || strings.HasPrefix(s.Name, "output.")) ||
		pad && gguf.Type(s.Type) == gguf.TypeI32 // what is looked up by token ids
	if mute(p) && tokens && m.Vocab > standInVocab && out[last] == uint64(m.Vocab) {
		out[last] = standInVocab
	}
	return out
}

// standInType is the type of the stand-in's zeros. Vectors and numbers keep
// theirs, on which operations insist, and so does what is not quantized in a
// pad layer; other matrices get the smallest that rows of their length allow,
// which no backend packs anew.
func (s Shape) standInType(pad bool) gguf.Type {
	t := gguf.Type(s.Type)
	if len(s.Dims) < 2 || t.BlockSize() == 1 && pad {
		return t
	}
	switch n := s.Dims[0]; {
	case n%gguf.TypeIQ1_S.BlockSize() == 0:
		return gguf.TypeIQ1_S
	case n%gguf.TypeQ4_0.BlockSize() == 0:
		return gguf.TypeQ4_0
	}
	return gguf.TypeF16
}
