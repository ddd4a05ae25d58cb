package flow

import (
	"neuron/engine/protocol"
)

// maxEpoch bounds epochs far below overflow; a session that truncates once per
// token of the longest context stays a thousand times below it.
const maxEpoch = 1 << 28

// Position is where a session stands on this hop: which rows may come next. It
// has no lock of its own; its owner guards it.
//
// Epochs: a truncate starts the next one, in order with the rows. A cancel
// kills its epoch and those before, out of order: rows of dead epochs are
// dropped, and how far the stage came is known only by its acknowledgements,
// so the truncate that follows must stay within them.
type Position struct {
	Limit uint32 // cells of the session; set once
	// Kept is the position up to which the stage has state from the start; the
	// first rows may begin there or before. Set once.
	Kept uint32

	begun bool   // rows or a truncate came
	epoch uint32 // of the rows that may come
	live  uint32 // epochs below are dead
	next  uint32 // position of the next row
	done  uint32 // rows before it were executed
}

// Admit checks a row frame and advances; false without an error means that f
// belongs to a dead epoch and is dropped.
func (p *Position) Admit(f *protocol.Frame) (bool, *protocol.Error) {
	if f.Epoch < p.live || f.Epoch < p.epoch {
		return false, nil
	}
	if f.Epoch != p.epoch {
		return false, protocol.Errorf(protocol.CodeFrameOrder, "rows of epoch %d in epoch %d", f.Epoch, p.epoch)
	}
	if !p.begun && f.Pos <= p.Kept {
		p.next, p.done = f.Pos, f.Pos
	}
	if f.Pos != p.next {
		return false, protocol.Errorf(protocol.CodeFrameOrder, "rows at position %d, expected %d", f.Pos, p.next)
	}
	if uint64(f.Pos)+uint64(f.Rows) > uint64(p.Limit) {
		return false, protocol.Errorf(protocol.CodeContextExceeded, "rows up to position %d, the session has %d cells", f.Pos+f.Rows, p.Limit)
	}
	p.next += f.Rows
	p.begun = true
	return true, nil
}

// Truncate checks a truncate frame and moves to its epoch. It returns the
// position that the stage shall truncate to.
func (p *Position) Truncate(f *protocol.Frame) (uint32, *protocol.Error) {
	if f.Epoch != p.epoch+1 || f.Epoch > maxEpoch {
		return 0, protocol.Errorf(protocol.CodeFrameOrder, "truncate to epoch %d in epoch %d", f.Epoch, p.epoch)
	}
	to, bound := f.Pos, p.next
	if p.epoch < p.live {
		bound = p.done
		if f.Epoch < p.live {
			to = min(to, bound) // overtaken by a cancel, nobody counts on it
		}
	}
	if to > bound {
		return 0, protocol.Errorf(protocol.CodeFrameOrder, "truncate to position %d, rows end at %d", to, bound)
	}
	p.begun = true
	p.epoch, p.next = f.Epoch, to
	p.done = min(p.done, to)
	return to, nil
}

// Cancel kills epochs; false when f's were dead already.
func (p *Position) Cancel(f *protocol.Frame) (bool, *protocol.Error) {
	if f.Epoch > maxEpoch {
		return false, protocol.Errorf(protocol.CodeFrameOrder, "cancel of epoch %d", f.Epoch)
	}
	if f.Epoch < p.live {
		return false, nil
	}
	p.live = f.Epoch + 1
	return true, nil
}

// Executed notes an acknowledgement of rows of epoch that end before end.
func (p *Position) Executed(epoch, end uint32) {
	if epoch != p.epoch {
		end = min(end, p.next) // a truncate behind them is on its way
	}
	p.done = max(p.done, end)
}

// Next is the position of the next row.
func (p *Position) Next() uint32 { return p.next }

// Live is the first epoch that was not cancelled.
func (p *Position) Live() uint32 { return p.live }
