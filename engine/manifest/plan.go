package manifest

import (
	"slices"

	"neuron/engine/protocol"
)

// CheckRange says why r may not be a stage's range: range_invalid, or
// model_whole_only for a part of a model that is not cut.
func (m *Manifest) CheckRange(r protocol.Range) error {
	switch {
	case !r.Valid(m.Layers):
		return protocol.Errorf(protocol.CodeRangeInvalid, "%s: layers %s of a model with %d", m.Name, r, m.Layers)
	case r.Len() == m.Layers:
		return nil
	case m.WholeOnly != "":
		return protocol.Errorf(protocol.CodeModelUncut, "%s: %s", m.Name, m.WholeOnly)
	case !m.mayEnd(r.First, r.Last):
		return protocol.Errorf(protocol.CodeRangeInvalid, "%s: layers %s may not be a stage of this model", m.Name, r)
	}
	return nil
}

func (m *Manifest) mayEnd(first, last int) bool {
	return len(m.Ends) == 0 || slices.ContainsFunc(m.Ends[first], func(s Span) bool { return s.From <= last && last <= s.To })
}

// Need is what a node has to hold for a stage of layers r; the empty range
// means the model's metadata alone, which is all that a gateway needs.
func (m *Manifest) Need(r protocol.Range) (*Need, error) {
	if r == (protocol.Range{}) {
		return m.NeedAll()
	}
	return m.NeedAll(r)
}

// NeedAll is what a node has to hold for several stages together. A model that
// is not cut is needed with all bytes of all files.
func (m *Manifest) NeedAll(ranges ...protocol.Range) (*Need, error) {
	for _, r := range ranges {
		if err := m.CheckRange(r); err != nil {
			return nil, err
		}
	}
	n := &Need{}
	if len(ranges) == 1 {
		n.Range = ranges[0]
	}
	n.add(Extent{0, 0, m.Files[0].Header}, 1)
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if slices.ContainsFunc(ranges, func(r protocol.Range) bool { return m.NeededBy(t, r) }) {
			n.Tensors = append(n.Tensors, i)
			n.add(Extent{t.File, t.Offset, t.Bytes}, m.Files[t.File].Alignment)
		}
	}
	if m.WholeOnly != "" && len(ranges) > 0 {
		n.Extents = n.Extents[:0]
		for i, f := range m.Files {
			n.Extents = append(n.Extents, Extent{i, 0, f.Size})
		}
	}
	for _, e := range n.Extents {
		n.Bytes += e.Bytes
		p := m.PiecesOf(e)
		if k := len(n.Pieces); k > 0 && p.First <= n.Pieces[k-1].Last {
			n.Pieces[k-1].Last = max(n.Pieces[k-1].Last, p.Last)
			continue
		}
		n.Pieces = append(n.Pieces, p)
	}
	for _, p := range n.Pieces {
		n.WireBytes += min(int64(p.Last)*m.Torrent.PieceLength, m.Size()) - int64(p.First)*m.Torrent.PieceLength
	}
	return n, nil
}

// add appends an extent that lies behind all others, or lengthens the last one
// when only padding separates them.
func (n *Need) add(e Extent, alignment uint64) {
	if k := len(n.Extents); k > 0 {
		last := &n.Extents[k-1]
		if last.File == e.File && align(last.Offset+last.Bytes, alignment) == e.Offset {
			last.Bytes = e.Offset + e.Bytes - last.Offset
			return
		}
	}
	n.Extents = append(n.Extents, e)
}

// NeededBy reports whether a stage of layers r has to hold t's bytes.
func (m *Manifest) NeededBy(t *Tensor, r protocol.Range) bool {
	head, tail := r.First == 0, r.Last == m.Layers
	switch t.Use {
	case UseLayer:
		return r.First <= t.Layer && t.Layer < r.Last
	case UseHead:
		return head
	case UseTail:
		return tail
	case UseEnds:
		return head || tail
	case UseUnused:
		return false
	}
	return true
}

// WeightBytes is the sum of the tensors that a stage of layers r holds,
// without padding; 0 for the empty range.
func (m *Manifest) WeightBytes(r protocol.Range) int64 {
	if r.Len() <= 0 {
		return 0
	}
	n := int64(0)
	for i := range m.Tensors {
		if m.NeededBy(&m.Tensors[i], r) {
			n += m.Tensors[i].Bytes
		}
	}
	return n
}

// LayerBytes is the sum of tensors of each layer, without what no stage uses. In a model that is not cut
// no tensor belongs to a layer, and all are 0.
func (m *Manifest) LayerBytes() []int64 {
	out := make([]int64, m.Layers)
	for i := range m.Tensors {
		if t := &m.Tensors[i]; t.Use == UseLayer {
			out[t.Layer] += t.Bytes
		}
	}
	return out
}

// UseBytes is the sum of tensors of one use.
func (m *Manifest) UseBytes(u Use) int64 {
	n := int64(0)
	for i := range m.Tensors {
		if m.Tensors[i].Use == u {
			n += m.Tensors[i].Bytes
		}
	}
	return n
}

// KVCellBytes is the KV memory of one position in layers r (F16), which must
// be a range of the model or empty; 0 where the family's memory is not known.
// Layers with a window count in full: it is what the first positions cost.
func (m *Manifest) KVCellBytes(r protocol.Range) int64 {
	n := int64(0)
	if len(m.KVLayerBytes) > 0 {
		for _, b := range m.KVLayerBytes[r.First:r.Last] {
			n += b
		}
	}
	return n
}

// kvPad is what libllama rounds the cells of a sequence up to.
const kvPad = protocol.CellPad

// KVBytes is the KV memory that layers r take for one session of cells
// positions when a call has at most rows rows: layers with a window keep no
// more than the window and one call, recurrent ones a state.
func (m *Manifest) KVBytes(r protocol.Range, cells, rows int) int64 {
	pad := func(n int) int64 { return int64(n+kvPad-1) / kvPad * kvPad }
	all, few := pad(cells), min(pad(cells), pad(m.KVWindow+rows))
	n := m.KVCellBytes(r) * all
	for _, i := range m.KVWindowLayers {
		if r.First <= i && i < r.Last {
			n -= m.WindowBytes(i) * (all - few)
		}
	}
	if len(m.KVStateBytes) > 0 {
		for _, b := range m.KVStateBytes[r.First:r.Last] {
			n += b
		}
	}
	return n
}

// WindowBytes is the part of a position's memory in layer i that its window
// bounds.
func (m *Manifest) WindowBytes(i int) int64 {
	switch {
	case len(m.KVWindowBytes) > 0:
		return m.KVWindowBytes[i]
	case slices.Contains(m.KVWindowLayers, i):
		return m.KVLayerBytes[i]
	}
	return 0
}
