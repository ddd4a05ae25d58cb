// Package rowbytes puts what a stage computed into the bytes of a row frame:
// hidden states in binary16, an indexer's choice of cells, the frame itself.
//
// engine/seam and engine/stage import it; of our packages it imports
// engine/protocol only. It has no I/O.
package rowbytes

import (
	"encoding/binary"

	"neuron/engine/protocol"
)

// Chosen brings a choice of cells, top per row of which the first is for
// position pos, into the form that crosses seams: cells behind a row's own
// position, which hold nothing that it may see, are left out, and what remains
// of the row is -1. It changes v.
func Chosen(v []int32, top int, pos uint32) {
	if top < 1 {
		return
	}
	for r := range len(v) / top {
		row, own := v[r*top:(r+1)*top], int64(pos)+int64(r)
		n := 0
		for _, x := range row {
			if x >= 0 && int64(x) <= own {
				row[n] = x
				n++
			}
		}
		for ; n < top; n++ {
			row[n] = -1
		}
	}
}

// Parts is the content of a row frame.
type Parts struct {
	IDs    []int32 // nil: no ids
	Hidden []byte  // rows x width of DType, nil: no hidden states
	DType  protocol.DType
	Width  int
	TopK   []int32 // nil: no sideband
}

// Frame makes a frame of rows with the kind, position, epoch, slot and flags
// of h.
func Frame(h protocol.Header, rows int, p Parts) *protocol.Frame {
	out := protocol.Header{Kind: h.Kind, Flags: h.Flags, Slot: h.Slot, Epoch: h.Epoch, Pos: h.Pos, Rows: uint32(rows)}
	b := make([]byte, 0, 4*len(p.IDs)+len(p.Hidden)+protocol.TopKSize*len(p.TopK))
	le := binary.LittleEndian
	if p.IDs != nil {
		out.Parts |= protocol.PartIDs
		for _, id := range p.IDs {
			b = le.AppendUint32(b, uint32(id))
		}
	}
	if p.Hidden != nil {
		out.Parts |= protocol.PartHidden
		out.DType, out.Width = p.DType, uint32(p.Width)
		b = append(b, p.Hidden...)
	}
	if p.TopK != nil {
		out.Parts |= protocol.PartSideband
		out.Sideband = uint32(protocol.TopKSize * len(p.TopK) / max(1, rows))
		for _, x := range p.TopK {
			b = le.AppendUint32(b, uint32(x))
		}
	}
	out.Length = uint32(len(b))
	return &protocol.Frame{Header: out, Payload: b}
}
