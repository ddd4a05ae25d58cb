package seam

import (
	"neuron/engine/protocol"
)

// rowRules say what row frames of a session look like on one side of a hop.
type rowRules struct {
	ids   bool // token ids (into the head), else hidden states
	width int
	dtype protocol.DType
	rows  int
	side  protocol.Sideband // beside hidden states
	vocab int               // 0: not known
}

// check refuses frames that do not look like it; f has passed the checks that
// a header alone allows.
func (r rowRules) check(f *protocol.Frame) *protocol.Error {
	if f.Flags&^protocol.FlagSample != 0 {
		return errorf(protocol.CodeFrameInvalid, "flags %#x in a %s frame", uint16(f.Flags), f.Kind)
	}
	if int(f.Rows) > r.rows {
		return errorf(protocol.CodeFrameInvalid, "%d rows in a frame, the stage takes %d", f.Rows, r.rows)
	}
	want := protocol.PartHidden
	switch {
	case r.ids:
		want = protocol.PartIDs
	case r.side.IDs:
		want |= protocol.PartIDs
	}
	if r.side.TopK > 0 {
		want |= protocol.PartSideband
	}
	if f.Kind == protocol.KindVerify {
		if f.Rows > protocol.MaxSpanPositions {
			return errorf(protocol.CodeFrameInvalid, "%d rows in a verify frame, at most %d", f.Rows, protocol.MaxSpanPositions)
		}
		want |= protocol.PartIDs // the guesses ride along to the tail
	}
	if f.Parts != want {
		return errorf(protocol.CodeFrameInvalid, "row parts %d, want %d", f.Parts, want)
	}
	if err := f.CheckIDs(r.vocab); err != nil {
		return err
	}
	if r.ids {
		return nil
	}
	if r.side.TopK > 0 {
		if err := f.CheckTopK(r.side.TopK); err != nil {
			return err
		}
	}
	if int(f.Width) != r.width || f.DType != r.dtype {
		return errorf(protocol.CodeFrameInvalid, "rows of %d x %s, want %d x %s", f.Width, f.DType, r.width, r.dtype)
	}
	if err := f.CheckFinite(); err != nil {
		return protocol.AsError(err)
	}
	return nil
}

// rowLimits bounds frames that flow to a hop with capability c.
func rowLimits(c protocol.Capability) protocol.Limits {
	l := protocol.SeamLimits()
	l.MaxRows = uint32(min(max(c.ChunkRows, 1), protocol.MaxChunkRows))
	l.MaxWidth = min(l.MaxWidth, uint32(max(c.Width, 1)))
	row := uint64(l.MaxWidth)*4 + uint64(max(c.Widest().RowBytes(), 4))
	l.MaxPayload = max(l.MaxControl, uint32(min(uint64(l.MaxPayload), uint64(l.MaxRows)*row)))
	return l
}
