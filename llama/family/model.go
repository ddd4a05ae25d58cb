package family

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"neuron/llama/gguf"
)

var certified = slices.Sorted(maps.Keys(table))

// Limits of what a model may claim; llama.cpp's own are LLAMA_MAX_LAYERS 512.
const (
	maxLayers = 512
	maxEmbd   = 65536
	maxHeads  = 4096
	maxHead   = 4096
)

// ErrModel is wrapped by every refusal of a model's metadata.
var ErrModel = errors.New("model metadata")

// Model is what planning a stage needs to know about one GGUF.
type Model struct {
	Arch    string
	Name    string
	Layers  int
	Embd    int // width of the residual stream, and of the seam
	Vocab   int
	Context int // trained context
	// WholeOnly says why the model may not be cut, "" if it may.
	WholeOnly string
	// Window is the sliding window in positions, 0 without.
	Window int

	family  Family
	kvHeads []int // per layer
	keyLen  int
	valLen  int
	sliding []bool // per layer, nil without sliding layers
}

// Describe reads a model's metadata. It refuses what no stage could be built
// from; a model of an unknown family is described with WholeOnly set.
func Describe(h *gguf.Header) (*Model, error) {
	arch := h.Architecture()
	if arch == "" {
		return nil, fmt.Errorf("%w: general.architecture is missing", ErrModel)
	}
	r := reader{h: h, arch: arch}
	m := &Model{
		Arch: arch, Name: r.text("general.name"),
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
	r.guard(m.Layers)
	if r.err != nil {
		return nil, r.err
	}
	f, ok := Lookup(arch)
	if !ok {
		m.WholeOnly = fmt.Sprintf("the %q family is not certified for cutting; cut are: %s", arch, strings.Join(Certified(), ", "))
		return m, nil
	}
	m.family = f
	heads := r.perLayer("attention.head_count", m.Layers, nil)
	m.kvHeads = r.perLayer("attention.head_count_kv", m.Layers, heads)
	if r.err != nil {
		return nil, r.err
	}
	for i, h := range heads {
		if kv := m.kvHeads[i]; kv > 0 && h%kv != 0 {
			r.fail("layer %d has %d attention heads for %d of keys and values", i, h, kv)
		}
	}
	perHead := m.Embd / max(1, heads[0])
	m.keyLen = r.optional("attention.key_length", perHead, maxHead)
	m.valLen = r.optional("attention.value_length", perHead, maxHead)
	if n := r.optional("rope.dimension_count", m.keyLen, maxHead); n%2 != 0 || n > m.keyLen {
		r.fail("%d rotary dimensions of %d per head", n, m.keyLen)
	}
	m.Window = r.optional("attention.sliding_window", 0, 1<<30)
	if f.SlidingPeriod > 0 && m.Window > 0 {
		var ignored bool
		m.sliding, ignored = r.pattern("attention.sliding_window_pattern", f.SlidingPeriod, m.Layers)
		if ignored {
			m.WholeOnly = fmt.Sprintf("%s.attention.sliding_window_pattern is an array that the pinned library ignores", arch)
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	if slices.Contains(f.ForbiddenLengths, m.Layers) && m.WholeOnly == "" {
		m.WholeOnly = fmt.Sprintf("%s with %d layers is not certified for cutting: %s", arch, m.Layers, f.Why)
	}
	if n := r.optional("expert_count", 0, 1<<16); n > 0 && m.WholeOnly == "" {
		m.WholeOnly = fmt.Sprintf("%s with experts is not certified for cutting", arch)
	}
	return m, r.err
}

// Family is the table's entry; its Arch is "" when the model is WholeOnly for
// its family.
func (m *Model) Family() Family { return m.family }

// Sliding reports whether layer i attends to a window only.
func (m *Model) Sliding(i int) bool { return m.sliding != nil && m.sliding[i] }

// Period is the sliding-window period that gives a stage of layers
// [first, last) the pattern that these layers have in the whole model; false
// when no period does, or the model has no sliding layers.
func (m *Model) Period(first, last int) (int, bool) {
	if m.sliding == nil {
		return 0, false
	}
	for p := 1; p <= last-first+1; p++ {
		if slices.Equal(periodic(p, last-first), m.sliding[first:last]) {
			return p, true
		}
	}
	return 0, false
}

// periodic is the pattern of a period: all but the last of each slide
// (llama_hparams::set_swa_pattern).
func periodic(period, n int) []bool {
	out := make([]bool, n)
	for i := range out {
		out[i] = i%period < period-1
	}
	return out
}

// CheckRange says why [first, last) may not be a stage, nil if it may.
func (m *Model) CheckRange(first, last int) error {
	if first < 0 || last > m.Layers || first >= last {
		return fmt.Errorf("%w: layers %d-%d of a model with %d", ErrModel, first, last, m.Layers)
	}
	if first == 0 && last == m.Layers {
		return nil
	}
	if m.WholeOnly != "" {
		return fmt.Errorf("%w: %s", ErrModel, m.WholeOnly)
	}
	if m.family.NeedsSliding && m.Window > 0 && !slices.Contains(m.sliding[first:last], true) {
		return fmt.Errorf("%w: layers %d-%d have no sliding-window layer, which %s stages need", ErrModel, first, last, m.Arch)
	}
	if _, ok := m.Period(first, last); !ok && m.sliding != nil {
		return fmt.Errorf("%w: no period gives layers %d-%d their sliding-window pattern; %s is cut at multiples of %d layers, elsewhere only into short stages",
			ErrModel, first, last, m.Arch, m.family.SlidingPeriod)
	}
	if slices.Contains(m.family.ForbiddenLengths, last-first) {
		return fmt.Errorf("%w: a stage of %d layers would be taken for another model size", ErrModel, last-first)
	}
	return nil
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

// KVLayerBytes is, per layer of [first, last), the cache cost of one position
// with keys and values of elemBytes each (2 for F16): key and value rows of
// the layer's KV heads (llama_kv_cache). Nil for families whose memory is not
// known here.
func (m *Model) KVLayerBytes(first, last, elemBytes int) []int64 {
	if m.kvHeads == nil {
		return nil
	}
	out := make([]int64, 0, last-first)
	for _, heads := range m.kvHeads[first:last] {
		out = append(out, int64(heads)*int64(m.keyLen+m.valLen)*int64(elemBytes))
	}
	return out
}

// KVBytesPerCell is the sum of KVLayerBytes. Sliding layers keep no more than
// WindowCells positions; for them this is the upper bound.
func (m *Model) KVBytesPerCell(first, last, elemBytes int) int64 {
	var n int64
	for _, b := range m.KVLayerBytes(first, last, elemBytes) {
		n += b
	}
	return n
}

// KVWindowBytes is the part of KVBytesPerCell that belongs to sliding layers.
func (m *Model) KVWindowBytes(first, last, elemBytes int) int64 {
	var n int64
	for i, b := range m.KVLayerBytes(first, last, elemBytes) {
		if m.Sliding(first + i) {
			n += b
		}
	}
	return n
}

// cellPad is what libllama rounds the cells of a sequence up to.
const cellPad = 256

// WindowCells is how many positions a sliding layer keeps of one sequence when
// a call has at most rows rows: the window and one call's rows, padded
// (llama_kv_cache_iswa without swa_full). 0 without sliding layers.
func (m *Model) WindowCells(rows int) int {
	if m.sliding == nil {
		return 0
	}
	return (m.Window + rows + cellPad - 1) / cellPad * cellPad
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
