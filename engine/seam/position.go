package seam

import (
	"neuron/engine/protocol"
)

// maxEpoch bounds epochs far below overflow; a session that truncates once per
// token of the longest context stays a thousand times below it.
const maxEpoch = 1 << 28

// position is where a session stands on this hop: which rows may come next. It
// has no lock of its own; session.mu guards it.
//
// Epochs: a truncate starts the next one, in order with the rows. A cancel
// kills its epoch and those before, out of order: rows of dead epochs are
// dropped, and how far the stage came is known only by its acknowledgements,
// so the truncate that follows must stay within them.
type position struct {
	epoch uint32 // of the rows that may come
	live  uint32 // epochs below are dead
	next  uint32 // position of the next row
	done  uint32 // rows before it were executed
	limit uint32 // cells of the session
}

// admit checks a row frame and advances; false without an error means that f
// belongs to a dead epoch and is dropped.
func (p *position) admit(f *protocol.Frame) (bool, *protocol.Error) {
	if f.Epoch < p.live || f.Epoch < p.epoch {
		return false, nil
	}
	if f.Epoch != p.epoch {
		return false, errorf(protocol.CodeFrameOrder, "rows of epoch %d in epoch %d", f.Epoch, p.epoch)
	}
	if f.Pos != p.next {
		return false, errorf(protocol.CodeFrameOrder, "rows at position %d, expected %d", f.Pos, p.next)
	}
	if uint64(f.Pos)+uint64(f.Rows) > uint64(p.limit) {
		return false, errorf(protocol.CodeContextExceeded, "rows up to position %d, the session has %d cells", f.Pos+f.Rows, p.limit)
	}
	p.next += f.Rows
	return true, nil
}

// truncate checks a truncate frame and moves to its epoch. It returns the
// position that the stage shall truncate to.
func (p *position) truncate(f *protocol.Frame) (uint32, *protocol.Error) {
	if f.Epoch != p.epoch+1 || f.Epoch > maxEpoch {
		return 0, errorf(protocol.CodeFrameOrder, "truncate to epoch %d in epoch %d", f.Epoch, p.epoch)
	}
	to, bound := f.Pos, p.next
	if p.epoch < p.live {
		bound = p.done
		if f.Epoch < p.live {
			to = min(to, bound) // overtaken by a cancel, nobody counts on it
		}
	}
	if to > bound {
		return 0, errorf(protocol.CodeFrameOrder, "truncate to position %d, rows end at %d", to, bound)
	}
	p.epoch, p.next = f.Epoch, to
	p.done = min(p.done, to)
	return to, nil
}

// cancel kills epochs; false when f's were dead already.
func (p *position) cancel(f *protocol.Frame) (bool, *protocol.Error) {
	if f.Epoch > maxEpoch {
		return false, errorf(protocol.CodeFrameOrder, "cancel of epoch %d", f.Epoch)
	}
	if f.Epoch < p.live {
		return false, nil
	}
	p.live = f.Epoch + 1
	return true, nil
}

// executed notes an acknowledgement of rows of epoch that end before end.
func (p *position) executed(epoch, end uint32) {
	if epoch != p.epoch {
		end = min(end, p.next) // a truncate behind them is on its way
	}
	p.done = max(p.done, end)
}
