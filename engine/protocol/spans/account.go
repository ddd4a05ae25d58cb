package spans

import (
	"slices"

	"neuron/engine/protocol"
)

// maxSpanEvents bounds the frames that wait for an acknowledgement; the window
// of a seam is far smaller. maxSpansKept bounds the spans whose receipt may
// still be asked for: the longest context has half as many.
const (
	maxSpanEvents = 4096
	maxSpansKept  = 8192
)

// account cuts the work of one hop into spans, as one end of its seam sees it.
type account struct {
	session protocol.SessionID
	events  []event         // row frames and truncates not yet counted, oldest first
	open    protocol.Span   // the open span; none while states is empty
	states  []protocol.Span // the open span as it was after each of its frames
	closed  []protocol.Span // of the numbers below seq, without gap
	seq     uint32          // of the open span
	epoch   uint32          // of the rows that may come, and where the next one lies
	next    uint32
	begun   bool // a row frame came: it says where the session begins
}

// event is a row frame on its way, or a truncate between them.
type event struct {
	h        protocol.Header
	in       protocol.Hash
	outs     []protocol.Hash
	answered bool // executed, tokens may follow
}

func (a *account) push(e event) error {
	if len(a.events) >= maxSpanEvents {
		return protocol.Errorf(protocol.CodeStageOverloaded, "more than %d frames wait for their acknowledgement", maxSpanEvents)
	}
	if e.h.Kind.Rows() && !a.begun {
		a.begun, a.next = true, e.h.Pos // what lies before it is kept state
	}
	a.events = append(a.events, e)
	return nil
}

// find is the place of the rows at pos of epoch, or -1.
func (a *account) find(epoch, pos uint32) int {
	return slices.IndexFunc(a.events, func(e event) bool {
		return e.h.Kind.Rows() && e.h.Epoch == epoch && e.h.Pos == pos
	})
}

// answered notes an acknowledgement that tokens may follow. Rows before it that
// still wait for theirs were cancelled.
func (a *account) answered(epoch, pos uint32) error {
	i := a.find(epoch, pos)
	if i < 0 {
		return protocol.Errorf(protocol.CodeBatchLayout, "rows at position %d were executed that did not come", pos)
	}
	if a.events[i].h.Flags&protocol.FlagSample == 0 {
		return a.commit(epoch, pos)
	}
	a.events[i].answered = true
	for j := range i {
		a.events[j].answered = false
	}
	return nil
}

// token takes a token of the rows that were answered last; the last token of a
// step completes them.
func (a *account) token(h protocol.Header, sum protocol.Hash) error {
	i := slices.IndexFunc(a.events, func(e event) bool { return e.answered })
	if i < 0 {
		return protocol.Errorf(protocol.CodeBatchLayout, "a token at position %d that no rows ask for", h.Pos)
	}
	e := &a.events[i]
	if len(e.outs) >= protocol.MaxSpanPositions {
		return protocol.Errorf(protocol.CodeBatchLayout, "more than %d tokens for one step", protocol.MaxSpanPositions)
	}
	e.outs = append(e.outs, sum)
	if h.Flags&protocol.FlagMore != 0 {
		return nil
	}
	return a.commit(e.h.Epoch, e.h.Pos)
}

// commit counts the rows at pos of epoch, with the truncates before them. Rows
// before them were dropped on the way.
func (a *account) commit(epoch, pos uint32) error {
	i := a.find(epoch, pos)
	if i < 0 {
		return protocol.Errorf(protocol.CodeBatchLayout, "rows at position %d are acknowledged that were not sent", pos)
	}
	for _, e := range a.events[:i] {
		if !e.h.Kind.Rows() {
			a.truncate(e)
		}
	}
	if epoch != a.epoch || pos != a.next {
		return protocol.Errorf(protocol.CodeBatchLayout, "rows at position %d of epoch %d came, the next are at %d of %d", pos, epoch, a.next, a.epoch)
	}
	a.absorb(a.events[i])
	a.events = slices.Delete(a.events, 0, i+1)
	return nil
}

// catchUp counts sent rows whose acknowledgement did not come in time, as far
// as the receiver says that it has executed them.
func (a *account) catchUp(mark protocol.ReceiptMark) {
	for a.seq < mark.Seq || a.seq == mark.Seq && len(a.states) < int(mark.Frames) {
		i := slices.IndexFunc(a.events, func(e event) bool { return len(e.outs) > 0 })
		if i < 0 || a.commit(a.events[i].h.Epoch, a.events[i].h.Pos) != nil {
			return
		}
	}
}

// truncate rolls the open span back. A span that lies behind the cut closes as
// it is, like those before it: that it was rolled back shows in where and in
// which epoch the next one starts.
func (a *account) truncate(e event) {
	a.epoch, a.next = e.h.Epoch, min(a.next, e.h.Pos)
	switch sp := &a.open; {
	case len(a.states) == 0:
	case e.h.Pos < sp.First:
		a.close()
	default:
		sp.EpochLast = e.h.Epoch
		sp.Last = min(sp.Last, e.h.Pos)
		sp.Input, sp.Output = protocol.ChainRoot(sp.Input, e.in), protocol.ChainRoot(sp.Output, e.in)
	}
}

func (a *account) absorb(e event) {
	sp := &a.open
	prefill := e.h.Kind == protocol.KindPrefill
	a.next = e.h.Pos + e.h.Rows
	if len(a.states) > 0 && (prefill || e.h.Pos+e.h.Rows-sp.First > protocol.MaxSpanPositions || sp.Rows+e.h.Rows > protocol.MaxSpanRows) {
		a.close()
	}
	if len(a.states) == 0 {
		root := protocol.SpanRoot(a.session, e.h.Pos)
		*sp = protocol.Span{Kind: protocol.SpanDecode, Seq: a.seq, EpochFirst: e.h.Epoch, First: e.h.Pos, Input: root, Output: root}
	}
	sp.EpochLast = e.h.Epoch
	sp.Last = e.h.Pos + e.h.Rows
	sp.Rows += e.h.Rows
	sp.Input = protocol.ChainRoot(sp.Input, e.in)
	for _, sum := range e.outs {
		sp.Output = protocol.ChainRoot(sp.Output, sum)
	}
	if prefill {
		sp.Kind = protocol.SpanPrefill
	}
	a.states = append(a.states, *sp)
	if prefill {
		a.close()
	}
}

func (a *account) close() {
	a.closed = append(a.closed, a.open)
	if len(a.closed) > maxSpansKept {
		a.closed = slices.Delete(a.closed, 0, len(a.closed)-maxSpansKept)
	}
	a.states = a.states[:0]
	a.seq++
}
