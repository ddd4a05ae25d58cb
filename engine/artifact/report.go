package artifact

import (
	"neuron/engine/protocol"
	"neuron/llama/family"
)

// Capability is the static part of the shard's report; chunkRows is the most
// rows of one call. A running stage completes it.
func (s *Shard) Capability(chunkRows int) protocol.Capability {
	m, first, last := s.Source.Model, s.Range.First, s.Range.Last
	seams := seamsOf(m)
	return protocol.Capability{
		Model: s.Source.ID, Name: s.Source.Name, Architecture: m.Arch, Layers: m.Layers, Loaded: s.Range,
		Head: first == 0, Tail: last == m.Layers,
		Exits: m.Exits(first, last), Cuts: m.Cuts(), Width: m.Width(), WholeOnly: m.WholeOnly,
		DTypes: DTypes(m.Arch), Sidebands: protocol.SidebandNames(seams), Seams: seams, Vocab: m.Vocab,
		KVBytesPerCell: m.KVBytesPerCell(first, last, kvElem), KVLayerBytes: m.KVLayerBytes(first, last, kvElem), KVType: kvType,
		KVWindowBytes: m.KVWindowBytes(first, last, kvElem), KVWindowCells: m.WindowCells(callRows(chunkRows)),
		Memory:     MemoryOf(m, s.Range, chunkRows),
		MaxContext: s.Source.Context(), ChunkRows: chunkRows,
	}
}

// Plan says how the shard's stage is run.
func (s *Shard) Plan() (family.Plan, error) {
	st, err := s.Source.Model.Stage(s.Range.First, s.Range.Last)
	if err != nil {
		return family.Plan{}, protocol.Errorf(protocol.CodeRangeInvalid, "%w", err)
	}
	return st.Plan, nil
}

// seamsOf is what the boundaries of a model need beside hidden rows.
func seamsOf(m *family.Model) []protocol.SeamNeed {
	if m.WholeOnly != "" {
		return nil
	}
	return protocol.SeamNeeds(m.Layers, func(b int) protocol.Sideband {
		s := m.Sideband(b)
		return protocol.Sideband{IDs: s.IDs, TopK: s.TopK}
	})
}

// leastRows is the fewest rows that a stage makes room for in a call.
const leastRows = 64

func callRows(chunkRows int) int { return max(chunkRows, leastRows) }

// MemoryOf is what a session takes in a stage of layers r, by kind of memory,
// pads included; nil for families whose memory is not known.
func MemoryOf(m *family.Model, r protocol.Range, chunkRows int) protocol.Memory {
	if m.KVLayerBytes(r.First, r.Last, kvElem) == nil {
		return nil
	}
	st, err := m.Stage(r.First, r.Last)
	if err != nil {
		return nil
	}
	var sum memorySum
	window := m.WindowCells(callRows(chunkRows))
	for _, slot := range st.Slots {
		sum.layer(m, slot, window)
	}
	return sum.parts
}

// memorySum gathers layers of equal kind.
type memorySum struct{ parts protocol.Memory }

// layer adds what one layer keeps.
func (s *memorySum) layer(m *family.Model, slot family.Slot, window int) {
	l := m.LayerMemory(slot.Layer, kvElem)
	full := protocol.MemoryFull
	if m.Latent() {
		full = protocol.MemoryMLA
	}
	state := protocol.MemoryRecurrent
	every := m.Ratio(slot.Layer)
	if every > 1 {
		full, state = protocol.MemoryCompressed, protocol.MemoryCompressed
	}
	add := func(kind protocol.MemoryKind, row int64, window, every int, bytes int64) {
		if row == 0 && bytes == 0 {
			return
		}
		p := s.part(kind, window, every, slot.Pad)
		p.Layers++
		p.CellBytes, p.StateBytes = p.CellBytes+row, p.StateBytes+bytes
	}
	add(protocol.MemorySliding, l.Window, window, 0, 0)
	// The family counts compressed rows by position.
	add(full, l.Full*int64(every), 0, every, 0)
	add(state, 0, 0, 0, l.State)
	add(protocol.MemoryIndexer, l.Indexer*int64(every), 0, every, 0)
}

// part finds or makes the sum of a kind.
func (s *memorySum) part(kind protocol.MemoryKind, window, every int, pad bool) *protocol.MemoryPart {
	if every <= 1 {
		every = 0
	}
	for i := range s.parts {
		if p := &s.parts[i]; p.Kind == kind && p.WindowCells == window && p.Every == every && p.Pad == pad {
			return p
		}
	}
	s.parts = append(s.parts, protocol.MemoryPart{Kind: kind, WindowCells: window, Every: every, Pad: pad})
	return &s.parts[len(s.parts)-1]
}
