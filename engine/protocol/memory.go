package protocol

import "slices"

// MemoryKind says how a layer keeps the positions of a session. The list is
// append-only.
type MemoryKind string

// Kinds of memory.
const (
	MemoryFull       MemoryKind = "full"       // keys and values of every position
	MemorySliding    MemoryKind = "sliding"    // keys and values of a window
	MemoryMLA        MemoryKind = "mla"        // one compressed row of every position
	MemoryIndexer    MemoryKind = "indexer"    // keys by which an indexer chooses positions
	MemoryCompressed MemoryKind = "compressed" // one row for several positions
	MemoryRecurrent  MemoryKind = "recurrent"  // a state of fixed size
)

// MemoryPart is what layers of one kind keep of one session.
type MemoryPart struct {
	Kind   MemoryKind `json:"kind"`
	Layers int        `json:"layers"`
	// CellBytes is the cost of one kept row in all of these layers together.
	CellBytes int64 `json:"cell_bytes,omitempty"`
	// WindowCells bounds the rows that are kept; 0: all.
	WindowCells int `json:"window_cells,omitempty"`
	// Every is how many positions share a row; 0 and 1: each has its own.
	Every int `json:"every,omitempty"`
	// StateBytes do not grow with the session.
	StateBytes int64 `json:"state_bytes,omitempty"`
	// Pad: layers without weights that only make the cut possible.
	Pad bool `json:"pad,omitempty"`
}

// CellPad is what libllama rounds the cells of a session up to.
const CellPad = 256

// rows is how many rows the part keeps of so many cells.
func (p *MemoryPart) rows(cells int) int64 {
	n := int64(max(cells, 0))
	if p.Every > 1 {
		n = (n + int64(p.Every) - 1) / int64(p.Every)
	}
	n = max(1, (n+CellPad-1)/CellPad) * CellPad
	if p.WindowCells > 0 {
		n = min(n, int64(p.WindowCells))
	}
	return n
}

// Bytes is what the part takes of a session with so many cells.
func (p *MemoryPart) Bytes(cells int) int64 {
	n := p.StateBytes
	if p.CellBytes > 0 {
		n += p.CellBytes * p.rows(cells)
	}
	return n
}

// Memory is what a session takes in the layers of a stage.
type Memory []MemoryPart

// MaxMemoryParts bounds the parts of a report.
const MaxMemoryParts = 32

// Bytes is what a session with so many cells takes. Cells are what the stage
// reserved, a power of two from 256 on.
func (m Memory) Bytes(cells int) (n int64) {
	for i := range m {
		n += m[i].Bytes(cells)
	}
	return n
}

// StateBytes is the part that does not grow with the session.
func (m Memory) StateBytes() (n int64) {
	for i := range m {
		n += m[i].StateBytes
	}
	return n
}

// PadBytes is what pad layers take of a session with so many cells.
func (m Memory) PadBytes(cells int) (n int64) {
	for i := range m {
		if m[i].Pad {
			n += m[i].Bytes(cells)
		}
	}
	return n
}

// Has reports whether some layer has memory of a kind.
func (m Memory) Has(k MemoryKind) bool {
	return slices.ContainsFunc(m, func(p MemoryPart) bool { return p.Kind == k })
}

// Rewinds reports whether a session can forget its newest positions: each has
// rows of its own, none of which another one has taken over.
func (m Memory) Rewinds() bool {
	return !slices.ContainsFunc(m, func(p MemoryPart) bool {
		return p.Kind != MemoryFull && p.Kind != MemoryMLA && p.Kind != MemoryIndexer || p.Every > 1
	})
}

// Moves reports whether the state of a session can be moved to another one of
// another pool: only where it is one cache of libllama's plain form.
func (m Memory) Moves() bool { return m.Rewinds() && !m.Has(MemoryIndexer) }

// CheckMemory refuses parts whose sums could not be trusted.
func CheckMemory(m Memory) *Error {
	const most = 1 << 40
	if len(m) > MaxMemoryParts {
		return Errorf(CodeInvalidRequest, "%d parts of memory, at most %d", len(m), MaxMemoryParts)
	}
	for i := range m {
		p := &m[i]
		switch {
		case p.Kind == "" || len(p.Kind) > 32:
			return Errorf(CodeInvalidRequest, "a part of memory without a kind")
		case p.Layers < 0 || p.Layers > 4096 || p.CellBytes < 0 || p.CellBytes > 1<<30 || p.StateBytes < 0 || p.StateBytes > most:
			return Errorf(CodeInvalidRequest, "%s memory of %d layers with %d and %d bytes", p.Kind, p.Layers, p.CellBytes, p.StateBytes)
		case p.WindowCells < 0 || p.WindowCells > 1<<30 || p.Every < 0 || p.Every > 1<<20:
			return Errorf(CodeInvalidRequest, "%s memory with a window of %d and one row for %d", p.Kind, p.WindowCells, p.Every)
		}
	}
	return nil
}
