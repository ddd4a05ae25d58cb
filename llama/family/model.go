package family

import (
	"errors"
	"fmt"
	"slices"

	"neuron/llama/gguf"
)

// Limits of what a model may claim; llama.cpp's own are LLAMA_MAX_LAYERS 512.
const (
	maxLayers  = 512
	maxEmbd    = 65536
	maxHeads   = 4096
	maxHead    = 4096
	maxStreams = 16
	maxTopK    = 1 << 16
)

// ErrModel is wrapped by every refusal of a model's metadata.
var ErrModel = errors.New("model metadata")

// ErrLibrary is wrapped, beside ErrModel, where nothing is wrong with a model
// but that the pinned library would end the process over it.
var ErrLibrary = errors.New("not safe with this library")

// Model is what planning a stage needs to know about one GGUF.
type Model struct {
	Arch string
	Name string
	// Layers is the number that can be cut between; what predicts further
	// tokens is not counted.
	Layers int
	// Predicting is how many blocks behind the last layer predict further
	// tokens. No stage has them; the library loads none.
	Predicting int

	Embd    int // the model's own width
	Vocab   int
	Context int // trained context
	// WholeOnly says why the model may not be cut, "" if it may.
	WholeOnly string
	// Window is the sliding window in positions, 0 without.
	Window int

	family  Family
	streams int     // rows of Embd in one hidden row
	heads   []int   // per layer
	kvHeads []int   // per layer
	kinds   []Kind  // per layer
	leads   []int   // in the order of the family's Lead
	ids     int     // leading layers that look up token ids
	ratios  []int   // per layer, nil without
	index   []index // the family's, as this model has it
	topK    int     // positions that an indexer chooses
	cache   cacheShape
	set     []gguf.KV // values to write out
	zero    []string  // keys that are 0 behind the head
	// windowed: the library looks for sliding layers; scalar: their pattern is
	// written as a period.
	windowed, scalar bool
}

// index is an Index with its period.
type index struct {
	Kind   Kind
	Period int
	First  bool
}

// has reports whether the layer at place i is the one of its run.
func (x index) has(i int) bool {
	if x.First {
		return i%x.Period == 0
	}
	return (i+1)%x.Period == 0
}

// Describe reads a model's metadata. It refuses what no stage could be built
// from; a model of an unknown family is described with WholeOnly set.
func Describe(h *gguf.Header) (*Model, error) {
	arch := h.Architecture()
	if arch == "" {
		return nil, fmt.Errorf("%w: general.architecture is missing", ErrModel)
	}
	r := &reader{h: h, arch: arch}
	m := &Model{
		Arch: arch, Name: r.text("general.name"), streams: 1,
		Layers:  r.size("block_count", 1, maxLayers),
		Embd:    r.size("embedding_length", 1, maxEmbd),
		Context: r.size("context_length", 1, 1<<30),
	}
	if r.err != nil {
		return nil, r.err
	}
	if m.Name == "" {
		m.Name = arch
	}
	m.Vocab = r.vocab()
	if why := fatal[arch]; why != "" {
		return nil, fmt.Errorf("%w: %s: %w: %s", ErrModel, arch, ErrLibrary, why)
	}
	r.guard(m.Layers)
	if r.err != nil {
		return nil, r.err
	}
	f, ok := Lookup(arch)
	switch {
	case !ok || f.Whole == "" && !mayCut(arch):
		m.WholeOnly = fmt.Sprintf("the %q family is not certified for cutting, as %d others are", arch, len(certified))
		return m, nil
	case f.Whole != "":
		m.WholeOnly = fmt.Sprintf("%s models are not cut: %s", arch, f.Whole)
		return m, nil
	}
	m.family = f
	m.Predicting = r.predicting()
	m.Layers -= m.Predicting
	for _, l := range f.WholeIf {
		if v := r.value(l.Key, l.Missing); l.Least <= v && v <= l.Most && m.WholeOnly == "" {
			m.WholeOnly = fmt.Sprintf("this %s model is not cut: %s", arch, l.Why)
		}
	}
	m.readLayers(r)
	m.readCache(r)
	m.readSet(r)
	if r.err != nil {
		return nil, r.err
	}
	for _, k := range f.Needs {
		if m.needs(k) && !m.any(k) {
			return nil, fmt.Errorf("%w: no layer of this %s model %s, which the library insists on", ErrModel, arch, kindNames[k])
		}
	}
	return m, nil
}

// CheckTensors refuses a model over which the library would end the process for
// a tensor that it lacks, whole or cut; has says whether it has one of a name.
func (m *Model) CheckTensors(has func(name string) bool) error {
	if slices.Contains(ownEmbedding, m.Arch) && !has(embeddingTensor) {
		return fmt.Errorf("%w: %s without %s: %w: it would look tokens up in the output matrix, which it stores in another order",
			ErrModel, m.Arch, embeddingTensor, ErrLibrary)
	}
	return nil
}

// DescribeWhole is Describe for a model that is there whole, to be run or
// published: it refuses, beyond what Describe does, everything over which the
// library would end the process, so that no node meets it later. has says
// whether the model has a tensor of a name.
func DescribeWhole(h *gguf.Header, has func(name string) bool) (*Model, error) {
	m, err := Describe(h)
	if err == nil {
		err = m.CheckTensors(has)
	}
	if err == nil {
		err = m.checkWhole()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// checkWhole refuses a whole model that the library would not survive; of its
// parts Stage answers for every one by itself. What is wrong with the metadata
// of any family was refused before.
func (m *Model) checkWhole() error {
	f := m.family
	switch {
	case f.Arch == "" || f.Whole != "":
		return nil // nothing is known of its layers
	case m.Layers < f.Slots:
		return fmt.Errorf("%w: %d layers, %s models have at least %d", ErrModel, m.Layers, m.Arch, f.Slots)
	case f.First != 0 && m.Kinds(0)&f.First == 0:
		return fmt.Errorf("%w: the first layer of this %s model is of a kind that needs one before it", ErrModel, m.Arch)
	}
	return nil
}

// Family is the table's entry; its Arch is "" when the model is WholeOnly for
// its family.
func (m *Model) Family() Family { return m.family }

// Width is the number of floats per row at the seams.
func (m *Model) Width() int { return m.Embd * m.streams }

// Kinds are the properties of layer i.
func (m *Model) Kinds(i int) Kind {
	if m.kinds == nil {
		return 0
	}
	return m.kinds[i]
}

// Sliding reports whether layer i attends to a window only.
func (m *Model) Sliding(i int) bool { return m.Kinds(i)&KindSliding != 0 }

// slides reports whether any layer does.
func (m *Model) slides() bool { return m.any(KindSliding) }

// needs reports whether stages must have a layer of a kind in Family.Needs: a
// model without a window needs none that slides, and the library takes the
// cache of compressed rows for one of an indexer, which must not be empty, only
// where rows of both have one size.
func (m *Model) needs(k Kind) bool {
	switch k {
	case KindSliding:
		return m.windowed
	case KindPooled:
		return m.cache.key == m.cache.indexer
	}
	return true
}

func (m *Model) any(k Kind) bool {
	for _, l := range m.kinds {
		if l&k != 0 {
			return true
		}
	}
	return false
}

// CheckRange says why [first, last) may not be a stage, nil if it may.
func (m *Model) CheckRange(first, last int) error {
	_, err := m.Stage(first, last)
	return err
}

// Exits lists the boundaries e at which a stage that loaded [first, last) may
// stop: last itself, and every earlier one, since stopping early leaves the
// loaded graph as it is.
func (m *Model) Exits(first, last int) []int {
	if first == 0 && last == m.Layers && m.WholeOnly != "" {
		return []int{last}
	}
	out := make([]int, 0, last-first)
	for e := first + 1; e <= last; e++ {
		out = append(out, e)
	}
	return out
}

// Cuts lists the boundaries at which the model may be cut in two.
func (m *Model) Cuts() []int {
	out := []int{}
	for b := 1; b < m.Layers; b++ {
		if m.CheckRange(0, b) == nil && m.CheckRange(b, m.Layers) == nil {
			out = append(out, b)
		}
	}
	return out
}

var kindNames = map[Kind]string{
	KindSliding: "attends to a window", KindFull: "attends to all positions", KindRecurrent: "is recurrent", KindAttention: "attends",
	KindCompressed: "has an indexer over compressed positions", KindIndexer: "has an indexer", KindSparse: "lies behind the leading dense ones",
	KindNoRope: "does without rotation", KindHeads: "has attention heads",
	KindPooled: "attends to compressed positions without an indexer",
}
