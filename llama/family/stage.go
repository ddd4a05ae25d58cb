package family

import (
	"fmt"
	"slices"

	"neuron/llama/gguf"
)

// Slot is one layer that the library sees in a stage.
type Slot struct {
	// Layer is the layer of the whole model that lies here, or that a pad looks
	// like.
	Layer int
	// Pad: a layer of zeros.
	Pad bool
}

// Stage says how the files of a stage are made, and run.
type Stage struct {
	Plan Plan
	// Slots are the layers in order.
	Slots []Slot
	// Set are keys to write instead of the model's, with their prefix. Arrays
	// of PerLayer keys follow the slots.
	Set []gguf.KV
}

// Stage finds how layers [first, last) can be a stage, with as few pad layers
// as possible; the error says why not.
func (m *Model) Stage(first, last int) (*Stage, error) {
	if first < 0 || last > m.Layers || first >= last {
		return nil, fmt.Errorf("%w: layers %d-%d of a model with %d", ErrModel, first, last, m.Layers)
	}
	if first == 0 && last == m.Layers {
		return m.stage(first, last, nil, nil), nil
	}
	if m.WholeOnly != "" {
		return nil, fmt.Errorf("%w: %s", ErrModel, m.WholeOnly)
	}
	var best *Stage
	var why error
	cost := 0
	for _, back := range m.pads(first, last, false) {
		for _, front := range m.pads(first, last, true) {
			// A front pad is computed with every row, a back pad never.
			c := 4*len(front) + len(back)
			if best != nil && c >= cost {
				continue
			}
			s := m.stage(first, last, front, back)
			if err := m.check(s); err != nil {
				if why == nil {
					why = err // of the stage without pads
				}
				continue
			}
			best, cost = s, c
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: layers %d-%d: %w", ErrModel, first, last, why)
	}
	return best, nil
}

// pads lists what may lie before or behind a stage: nothing, the layers that
// are there in the model, or single ones of kinds that stages need.
func (m *Model) pads(first, last int, front bool) [][]int {
	out := [][]int{nil}
	if front && first == 0 || !front && last == m.Layers {
		return out
	}
	most := 1
	if s := m.family.Sliding; s != nil && m.scalar && m.windowed {
		most = max(most, m.period()-1)
	}
	for _, x := range m.index {
		most = max(most, x.Period-1)
	}
	if len(m.family.Lengths) > 0 {
		most = 2*most + 1 // around a length that may not be
	}
	var run []int
	for i := 1; i <= most; i++ {
		if at := first - i; front && at >= 0 {
			run = append([]int{at}, run...)
		} else if at := last + i - 1; !front && at < m.Layers {
			run = append(slices.Clone(run), at)
		} else {
			break
		}
		out = append(out, run)
	}
	var single []int
	for _, k := range append(slices.Clone(m.family.Needs), m.family.First, m.headed()) {
		if k == 0 || !m.needs(k) {
			continue
		}
		if i, ok := m.nearest(k, first, last, front); ok && !slices.Contains(single, i) {
			single = append(single, i)
			out = append(out, []int{i})
		}
	}
	if len(single) > 1 {
		slices.Sort(single)
		out = append(out, single)
	}
	return out
}

// nearest finds a layer of a kind to make a pad like: one that lies close on
// the pad's side, so that what depends on the leading layers stays in order.
func (m *Model) nearest(k Kind, first, last int, front bool) (int, bool) {
	if front {
		for i := first - 1; i >= 0; i-- {
			if m.kinds[i]&k != 0 {
				return i, true
			}
		}
	}
	for i := last; i < m.Layers; i++ {
		if m.kinds[i]&k != 0 {
			return i, true
		}
	}
	for i := min(last, m.Layers) - 1; i >= 0; i-- {
		if m.kinds[i]&k != 0 {
			return i, true
		}
	}
	return 0, false
}

// period is the one that the whole model's sliding pattern has.
func (m *Model) period() int {
	s := m.family.Sliding
	for p := 1; p <= m.Layers; p++ {
		if m.matches(s.periodic(p, m.Layers), m.natural()) {
			return p
		}
	}
	return s.Period
}

// natural are the model's layers themselves.
func (m *Model) natural() []Slot {
	out := make([]Slot, m.Layers)
	for i := range out {
		out[i].Layer = i
	}
	return out
}

// matches reports whether the layers that are no pads slide as the pattern has
// it.
func (m *Model) matches(pattern []bool, slots []Slot) bool {
	for i, s := range slots {
		if !s.Pad && pattern[i] != m.Sliding(s.Layer) {
			return false
		}
	}
	return true
}

// stage lays a stage out, whether it may be or not.
func (m *Model) stage(first, last int, front, back []int) *Stage {
	f := m.family
	s := &Stage{Plan: Plan{
		First: first, Last: last, Layers: m.Layers, Front: len(front), Back: len(back), Width: m.Width(), Exit: f.Exit, LastExit: f.LastExit, ExitNext: f.ExitNext,
	}}
	if s.Plan.Exit == "" {
		s.Plan.Exit = "l_out" // of a model that is not cut, and has no exits
	}
	for _, i := range front {
		s.Slots = append(s.Slots, Slot{i, true})
	}
	for i := first; i < last; i++ {
		s.Slots = append(s.Slots, Slot{Layer: i})
	}
	for _, i := range back {
		s.Slots = append(s.Slots, Slot{i, true})
	}
	if first > 0 {
		s.Plan.Entry = f.Entry
		if len(front) > 0 {
			s.Plan.Entry = s.Plan.output(len(front) - 1)
		}
		s.Plan.In = m.Sideband(first)
	}
	m.choices(s)
	m.settle(s)
	return s
}

// check says why the library would not run a stage as the model.
func (m *Model) check(s *Stage) error {
	f, n := m.family, len(s.Slots)
	switch {
	case n > maxLayers:
		return fmt.Errorf("%d layers with pads, the library takes %d", n, maxLayers)
	case slices.Contains(f.Lengths, n):
		return fmt.Errorf("a stage of %d layers would be taken for another model size", n)
	case n < f.Slots:
		return fmt.Errorf("a %s stage has at least %d layers", m.Arch, f.Slots)
	}
	for _, x := range m.index {
		for at, l := range s.Slots {
			if x.has(at) != x.has(l.Layer) {
				return fmt.Errorf("the library would take layer %d for another one by its place", l.Layer)
			}
		}
	}
	for _, lead := range m.leads {
		for at := 1; at < n; at++ {
			if s.Slots[at].Layer < lead && s.Slots[at-1].Layer >= lead {
				return fmt.Errorf("a leading layer would lie behind others")
			}
		}
	}
	if m.scalar && m.windowed {
		if _, ok := m.stagePeriod(s.Slots); !ok {
			return fmt.Errorf("no period gives these layers their sliding-window pattern")
		}
	}
	have := m.stageKinds(s.Slots)
	for _, k := range f.Needs {
		if m.needs(k) && have&k == 0 {
			return fmt.Errorf("none of them %s, which %s stages need", kindNames[k], m.Arch)
		}
	}
	if k := m.headed(); k != 0 && m.kinds[s.Slots[0].Layer]&k == 0 {
		return fmt.Errorf("layer %d has no attention heads, by which the library tells models of another kind", s.Slots[0].Layer)
	}
	if f.First != 0 && m.kinds[s.Slots[0].Layer]&f.First == 0 {
		return fmt.Errorf("layer %d does not have what a first layer needs: it %s", s.Slots[0].Layer, kindNames[f.First])
	}
	return nil
}

// headed is the kind of a stage's first layer: where the model's first layer
// has attention heads, the library reads the sizes of heads only from a stage
// whose first one has some.
func (m *Model) headed() Kind {
	if len(m.heads) > 0 && m.heads[0] > 0 {
		return KindHeads
	}
	return 0
}

// stageKinds are the kinds that the library sees: what it takes from an array
// follows the layer, what it takes from the index the place.
func (m *Model) stageKinds(slots []Slot) Kind {
	var out, byPlace Kind
	for _, x := range m.index {
		byPlace |= x.Kind
	}
	period, scalar := m.stagePeriod(slots)
	if scalar && m.windowed {
		byPlace |= KindSliding
	}
	for at, s := range slots {
		out |= m.kinds[s.Layer] &^ byPlace
		for _, x := range m.index {
			if x.has(at) {
				out |= x.Kind
			}
		}
	}
	if scalar && m.windowed && slices.Contains(m.family.Sliding.periodic(period, len(slots)), true) {
		out |= KindSliding
	}
	return out
}

// stagePeriod is the period that gives the slots their sliding pattern, with a
// sliding layer among them if one can; false when none does, or the pattern is
// an array.
func (m *Model) stagePeriod(slots []Slot) (int, bool) {
	if !m.scalar {
		return 0, false
	}
	s, found, best := m.family.Sliding, false, 0
	for p := 1; p <= len(slots)+1; p++ {
		pattern := s.periodic(p, len(slots))
		if !m.matches(pattern, slots) {
			continue
		}
		if slices.Contains(pattern, true) {
			return p, true
		}
		found, best = true, p
	}
	return best, found
}

// settle finds the values that a stage states otherwise than the model.
func (m *Model) settle(s *Stage) {
	f := m.family
	set := func(key string, v gguf.Value) { s.Set = append(s.Set, gguf.KV{Key: m.Arch + "." + key, Value: v}) }
	s.Set = append(s.Set, m.set...)
	for i, key := range f.Lead {
		n := 0
		for n < len(s.Slots) && s.Slots[n].Layer < m.leads[i] {
			n++
		}
		set(key, gguf.U32(uint32(n)))
	}
	if s.Plan.First > 0 {
		for _, key := range m.zero {
			set(key, gguf.U32(0))
		}
	}
	if m.windowed && !f.Sliding.All {
		if period, ok := m.stagePeriod(s.Slots); ok {
			set(slidingKey, gguf.U32(uint32(period)))
		} else if !m.scalar {
			set(slidingKey, m.flagsOf(s.Slots, KindSliding))
		}
	}
	if f.Recurrent == RecurInterval {
		set("attention.recurrent_layers", m.flagsOf(s.Slots, KindRecurrent))
	}
	if f.Indexers != nil {
		set(f.Indexers.Key, m.flagsOf(s.Slots, KindIndexer))
	}
}

func (m *Model) flagsOf(slots []Slot, k Kind) gguf.Value {
	out := make([]bool, len(slots))
	for i, s := range slots {
		out[i] = m.kinds[s.Layer]&k != 0
	}
	return gguf.Bools(out)
}
