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
	perHead := m.Embd / max(1, heads[0])
	m.keyLen = r.optional("attention.key_length", perHead, maxHead)
	m.valLen = r.optional("attention.value_length", perHead, maxHead)
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

// KVBytesPerCell is the cache cost of one position in layers [first, last)
// with keys and values of elemBytes each (2 for F16): every layer keeps
// key and value rows of its KV heads (llama_kv_cache). Sliding layers cost
// less per position beyond their window; this is the upper bound.
// 0 for families whose memory is not known here.
func (m *Model) KVBytesPerCell(first, last, elemBytes int) int64 {
	var n int64
	for i := first; i < last && m.kvHeads != nil; i++ {
		n += int64(m.kvHeads[i]) * int64(m.keyLen+m.valLen) * int64(elemBytes)
	}
	return n
}
