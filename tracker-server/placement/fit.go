package placement

import (
	"math"

	"neuron/engine/protocol"
)

// onDisk is what the node's disk has of a model.
type onDisk struct {
	sums   []int64 // bytes of layers [0, i)
	runEnd []int   // end of the run of held layers that begins at or holds a; 0: a is not held
}

func diskOf(e *entry, ranges []protocol.Range) *onDisk {
	d := &onDisk{sums: make([]int64, e.Layers+1), runEnd: make([]int, e.Layers+1)}
	// A request may name many ranges that overlap: first where they begin and
	// end, then the layers once.
	change := make([]int, e.Layers+1)
	for _, r := range ranges {
		change[min(r.First, e.Layers)]++
		change[min(r.Last, e.Layers)]--
	}
	depth := 0
	for l := range e.Layers {
		if depth += change[l]; depth > 0 {
			d.runEnd[l] = l + 1
		}
	}
	for l := e.Layers - 1; l >= 0; l-- {
		if d.runEnd[l] > 0 && d.runEnd[l+1] > 0 {
			d.runEnd[l] = d.runEnd[l+1]
		}
	}
	for l, end := range d.runEnd[:e.Layers] {
		if d.sums[l+1] = d.sums[l]; end > 0 {
			d.sums[l+1] += e.LayerBytes[l]
		}
	}
	return d
}

// end is the end of the run of held layers that holds layer a, or 0.
func (d *onDisk) end(a int) int {
	if d == nil {
		return 0
	}
	return d.runEnd[a]
}

// bound reports whether a run of held layers begins or ends at b.
func (d *onDisk) bound(b int) bool {
	return d != nil && (d.runEnd[b] > 0) != (b > 0 && d.runEnd[b-1] > 0)
}

// refused learns from a refusal: what the node said would fit is the most it
// takes of this model, else seven eighths of what it refused.
func (s *seek) refused(e *entry, f protocol.PlaceRefusal) {
	if s.limit == nil {
		s.limit, s.disk = make(map[protocol.ModelID]int64), make(map[protocol.ModelID]int64)
	}
	a, b := f.Range.First, f.Range.Last
	memory, disk := e.memory(a, b, s.m.cfg.ReserveCells)*7/8, (e.weight(a, b)+e.HeaderBytes)*7/8
	if fits, err := protocol.ParseRange(f.Error.Detail["fits"]); err == nil && f.Range.Contains(fits) && fits != f.Range {
		a, b = fits.First, fits.Last
		memory, disk = e.memory(a, b, s.m.cfg.ReserveCells), e.weight(a, b)+e.HeaderBytes
	}
	lower := func(m map[protocol.ModelID]int64, v int64) {
		if old, ok := m[e.ID]; !ok || v < old {
			m[e.ID] = v
		}
	}
	if f.Error.Code == protocol.CodeDiskFull {
		lower(s.disk, disk)
		return
	}
	lower(s.limit, memory)
}

// room is the memory and the disk that the node has for a model.
func (s *seek) room(e *entry) (memory, disk int64) {
	memory, disk = s.j.Request.Offer.Memory, s.j.Request.Offer.Disk
	if v, ok := s.limit[e.ID]; ok {
		memory = min(memory, v)
	}
	if v, ok := s.disk[e.ID]; ok {
		disk = min(disk, v)
	}
	return memory, disk
}

// fits reports whether [a, b) fits the node's memory, disk and step time.
func (s *seek) fits(e *entry, a, b int, memory, disk, step int64) bool {
	w := e.weight(a, b)
	return w <= step && w+e.HeaderBytes <= disk && e.memory(a, b, s.m.cfg.ReserveCells) <= memory
}

// reach is the last b below the last layer's end such that [a, b) fits, at
// least from; from is the reach of an earlier start, which is never further.
func (s *seek) reach(e *entry, a, from int, memory, disk int64) int {
	b := max(a, from)
	for b+1 < e.Layers && s.fits(e, a, b+1, memory, disk, s.step) {
		b++
	}
	return b
}

// longest is the last legal end of a range from a on that fits, 0 for none;
// reach is what reach gave for a. A node too slow for any range gets the
// shortest one.
func (s *seek) longest(e *entry, a, reach int, memory, disk int64) int {
	// The last layer brings the tail's tensors: it is looked at on its own.
	if reach == e.Layers-1 && e.endUpTo(a, e.Layers) == e.Layers && s.fits(e, a, e.Layers, memory, disk, s.step) {
		return e.Layers
	}
	if b := e.endUpTo(a, reach); b > a {
		return b
	}
	for b := a + 1; b <= e.Layers; b++ {
		if e.legal(a, b) {
			if s.fits(e, a, b, memory, disk, math.MaxInt64) {
				return b
			}
			return 0
		}
	}
	return 0
}
