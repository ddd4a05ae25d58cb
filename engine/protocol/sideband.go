package protocol

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

// Sideband is what rows carry across a seam besides hidden states. The zero
// value: nothing.
type Sideband struct {
	// IDs: the token ids of the rows, for layers that look them up (hash
	// routing). A hop that does not need them passes them on to one that does.
	IDs bool `json:"ids,omitempty"`
	// TopK is how many cells of the KV cache an indexer chooses per row at most;
	// the seam's next layer attends to the same ones. 0: none.
	TopK int `json:"top_k,omitempty"`
}

// Names of sidebands in capability reports.
const (
	SidebandIDs  = "ids"
	SidebandTopK = "top_k"
)

// MaxTopK bounds the cell indices of a row; published models choose 2048.
const MaxTopK = 8192

// TopKSize is the size of one cell index in a frame, in bytes (i32).
const TopKSize = 4

// RowBytes is what the sideband adds to a row.
func (s Sideband) RowBytes() int {
	n := TopKSize * s.TopK
	if s.IDs {
		n += 4
	}
	return n
}

// SeamNeed says what stages that begin at the boundaries First to Last-1 need of
// their sender.
type SeamNeed struct {
	First int `json:"first"`
	Last  int `json:"last"`
	Sideband
}

// MaxSeamNeeds bounds the entries of a capability report.
const MaxSeamNeeds = 512

// SeamNeeds packs what each boundary of a model needs: boundaries 1 to layers-1,
// as asked of at. Boundary 0 has no sender.
func SeamNeeds(layers int, at func(boundary int) Sideband) []SeamNeed {
	var out []SeamNeed
	for b := 1; b < layers; b++ {
		s := at(b)
		switch n := len(out); {
		case s == Sideband{}:
		case n > 0 && out[n-1].Last == b && out[n-1].Sideband == s:
			out[n-1].Last = b + 1
		default:
			out = append(out, SeamNeed{First: b, Last: b + 1, Sideband: s})
		}
	}
	return out
}

// SidebandNames lists what needs name, for people; never nil.
func SidebandNames(needs []SeamNeed) []string {
	out := []string{}
	if slices.ContainsFunc(needs, func(n SeamNeed) bool { return n.IDs }) {
		out = append(out, SidebandIDs)
	}
	if slices.ContainsFunc(needs, func(n SeamNeed) bool { return n.TopK > 0 }) {
		out = append(out, SidebandTopK)
	}
	return out
}

// CheckSeamNeeds refuses lists that are not ordered inside of a model's layers,
// or that ask for too much.
func CheckSeamNeeds(needs []SeamNeed, layers int) *Error {
	if len(needs) > MaxSeamNeeds {
		return Errorf(CodeInvalidRequest, "%d kinds of seams, at most %d", len(needs), MaxSeamNeeds)
	}
	at := 1
	for _, n := range needs {
		if n.First < at || n.Last <= n.First || n.Last > layers || n.TopK < 0 || n.TopK > MaxTopK || n.Sideband == (Sideband{}) {
			return Errorf(CodeInvalidRequest, "a sideband of %d indices at boundaries %d to %d of %d layers", n.TopK, n.First, n.Last, layers)
		}
		at = n.Last
	}
	return nil
}

// Needs is what a stage that begins at boundary needs of its sender.
func (c *Capability) Needs(boundary int) Sideband {
	for _, n := range c.Seams {
		if n.First <= boundary && boundary < n.Last {
			return n.Sideband
		}
	}
	return Sideband{}
}

// Crosses is what rows carry into hop of a route: what its first layer needs,
// and ids that a later hop does. Hop 0 has no sender: the driver gives ids.
func (c *Capability) Crosses(hops []Hop, hop int) Sideband {
	if hop <= 0 || hop >= len(hops) {
		return Sideband{}
	}
	s := c.Needs(hops[hop].Use.First)
	for _, h := range hops[hop:] {
		s.IDs = s.IDs || c.Needs(h.Use.First).IDs
	}
	return s
}

// Widest is the most that rows carry at any seam of the model.
func (c *Capability) Widest() Sideband {
	var s Sideband
	for _, n := range c.Seams {
		s.IDs, s.TopK = s.IDs || n.IDs, max(s.TopK, n.TopK)
	}
	return s
}

// SameSeams says why rows of a cannot go to b or back, nil if they can: width,
// vocabulary where ids cross, and what crosses besides.
func (c *Capability) SameSeams(o *Capability) *Error {
	switch {
	case c.Width != o.Width:
		return Errorf(CodeSeamMismatch, "hidden rows of %d elements, the neighbour has %d", c.Width, o.Width)
	case !slices.Equal(c.Seams, o.Seams):
		return Errorf(CodeSeamMismatch, "the neighbours differ in the sidebands of their seams")
	case c.Vocab != o.Vocab && c.Widest().IDs:
		return Errorf(CodeSeamMismatch, "a vocabulary of %d tokens, the neighbour has %d", c.Vocab, o.Vocab)
	}
	return nil
}

// SeamName stands for all that SameSeams compares: shards of one model with
// equal names can share a route.
func (c *Capability) SeamName() string {
	b := strconv.AppendInt(nil, int64(c.Width), 10)
	if c.Widest().IDs {
		b = strconv.AppendInt(append(b, '/'), int64(c.Vocab), 10)
	}
	for _, n := range c.Seams {
		b = fmt.Appendf(b, " %d-%d:%t,%d", n.First, n.Last, n.IDs, n.TopK)
	}
	return string(b)
}

// SeamRows is how many rows a prefill chunk may have so that a frame with them
// stays within MaxRowPayload: most, or less for wide rows, in steps of 64 where
// that many fit (kernels for fewer are slower).
func SeamRows(most, width int, d DType, s Sideband) int {
	row := max(1, width*d.Size()+s.RowBytes())
	n := min(most, MaxRowPayload/row)
	if n > rowStep {
		n -= n % rowStep
	}
	return max(1, n)
}

const rowStep = 64

// TopK decodes the frame's cell indices, row by row; nil without PartSideband.
func (f *Frame) TopK() []int32 {
	b := f.SidebandBytes()
	if b == nil {
		return nil
	}
	out := make([]int32, len(b)/TopKSize)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(b[TopKSize*i:]))
	}
	return out
}

// CheckIDs refuses token ids that are negative or, with a known vocabulary, not
// in it.
func (f *Frame) CheckIDs(vocab int) *Error {
	for i, id := range f.IDs() {
		if id < 0 || vocab > 0 && int(id) >= vocab {
			return Errorf(CodeFrameInvalid, "token id %d at position %d, the vocabulary has %d", id, int(f.Pos)+i, vocab)
		}
	}
	return nil
}

// CheckTopK refuses a sideband that does not hold top indices per row, or rows
// that name other cells than those of their own positions and the ones before.
// Each row names one cell at least; entries behind the last one are -1.
func (f *Frame) CheckTopK(top int) *Error {
	if top < 1 || int64(f.Sideband) != TopKSize*int64(top) {
		return Errorf(CodeFrameInvalid, "a sideband of %d bytes per row, %d cell indices belong there", f.Sideband, top)
	}
	b := f.SidebandBytes()
	le := binary.LittleEndian
	for r := range int(f.Rows) {
		pos, over := int64(f.Pos)+int64(r), false
		for i := range top {
			x := int32(le.Uint32(b[TopKSize*(r*top+i):]))
			switch {
			case x == -1 && i > 0:
				over = true
			case over || x < 0 || int64(x) > pos:
				return Errorf(CodeFrameInvalid, "cell %d as choice %d of position %d", x, i, pos)
			}
		}
	}
	return nil
}
