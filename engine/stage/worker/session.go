package worker

import (
	"encoding/json"
	"slices"
	"time"
	"unsafe"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
	"neuron/llama/exec"
)

// session is one route session's part in this stage.
type session struct {
	slot    uint32
	id      protocol.SessionID
	exit    int
	pool    *pool
	seq     int
	epoch   uint32
	live    uint64 // rows of epochs before it were cancelled
	nextPos uint32
	begun   bool      // a row came: nextPos is not only what is kept
	prompt  beginning // for whom its state may be kept
	queue   []queued
	sampler *sampler  // on the tail
	decoded time.Time // when it last decoded here
	habit   habit     // how soon its rows follow each other
	pace    pace      // what its prefill rows cost
}

// queued is a row frame that waits for its turn, or a prefill frame of which a
// part has run (see slice.go).
type queued struct {
	f  *protocol.Frame
	at time.Time

	done    int           // rows that have run
	hidden  []float32     // their rows for the next hop
	queue   time.Duration // from arrival to the first row
	compute time.Duration // in the model
}

// queueFrames bounds the row frames that wait per session; the seam keeps
// fewer in flight.
const queueFrames = 16

// open handles KindOpen of a session.
func (st *state) open(f *protocol.Frame) {
	var o wire.Open
	var b beginning
	err := json.Unmarshal(f.Payload, &o)
	if err != nil {
		err = protocol.Errorf(protocol.CodeFrameInvalid, "open message: %w", err)
	} else {
		b, err = st.beginningOf(&o)
	}
	switch {
	case err != nil:
		st.refused(f.Slot, err)
	case !st.fetch(f.Slot, &o, b):
		st.opened(f.Slot, &o, b, nil)
	}
}

// refused answers an open message with the reason why not.
func (st *state) refused(slot uint32, err error) {
	e := protocol.AsError(coded(err))
	st.w.log.Warn("Session refused", "slot", slot, "code", string(e.Code))
	st.w.sendJSON(protocol.KindOpened, slot, wire.Opened{Error: e})
}

// opened makes a session and answers its open message; l is a snapshot that was
// read for it, or nil.
func (st *state) opened(slot uint32, o *wire.Open, b beginning, l *loaded) {
	s, err := st.newSession(slot, o, b, l)
	if err != nil {
		st.refused(slot, err)
		return
	}
	st.sessions[slot] = s
	st.publish()
	st.w.log.Info("Session opened", "session", string(s.id), "slot", s.slot, "sequence", s.seq, "cells", s.pool.run.Cells(), "kept", s.nextPos)
	st.w.sendJSON(protocol.KindOpened, slot, wire.Opened{Cells: s.pool.run.Cells(), Kept: int(s.nextPos)})
}

func (st *state) newSession(slot uint32, o *wire.Open, b beginning, l *loaded) (*session, error) {
	if st.stage == nil || st.sessions[slot] != nil {
		return nil, protocol.Errorf(protocol.CodeFrameOrder, "slot %d cannot be opened", slot)
	}
	if o.Exit <= st.cfg.First || o.Exit > st.cfg.Last {
		return nil, protocol.Errorf(protocol.CodeRangeInvalid, "exit %d of layers %d-%d", o.Exit, st.cfg.First, st.cfg.Last)
	}
	s := &session{slot: slot, id: o.Session, exit: o.Exit, prompt: b}
	tail := o.Exit == st.cfg.Layers
	if tail {
		if o.Sampler == nil {
			return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the tail needs sampler settings")
		}
		var err error
		if s.sampler, err = newSampler(st.vocab, wholeWindows(o.Sampler, o.Context), o.Prompt); err != nil {
			return nil, err
		}
	}
	k, blocks := st.match(&s.prompt)
	p, seq, err := st.reserve(o.Context, !tail, k)
	if err != nil {
		s.close()
		return nil, err
	}
	n, err := st.fillFrom(l, p, seq, k, blocks)
	if err != nil {
		s.close()
		st.emptied(p, time.Now())
		return nil, err
	}
	s.pool, s.seq, s.nextPos = p, seq, uint32(n)
	p.seqs[seq] = s
	return s, nil
}

// wholeWindows writes out the penalty windows of -1, which mean the session's
// whole context.
func wholeWindows(c *protocol.Sampler, context int) *protocol.Sampler {
	out := *c
	for _, n := range []*int32{&out.RepeatLastN, &out.DRYLastN} {
		if *n == -1 {
			*n = int32(min(max(context, 0), protocol.MaxContext))
		}
	}
	return &out
}

// close frees what the session holds outside its pool.
func (s *session) close() {
	if s.sampler != nil {
		s.sampler.close()
	}
}

// drop ends a session here: but for what is kept of its prompt its KV is
// forgotten, and an empty pool is kept or freed.
func (st *state) drop(s *session, failed bool) {
	delete(st.sessions, s.slot)
	s.close()
	if !failed { // else the library does not say what the sequence holds
		st.keep(s, time.Now())
	}
	s.pool.seqs[s.seq] = nil
	st.emptied(s.pool, time.Now())
	st.publish()
}

// fail ends a session with a reason.
func (st *state) fail(s *session, err error) {
	e := protocol.AsError(coded(err))
	st.w.log.Warn("Session ended", "session", string(s.id), "code", string(e.Code), "error", err)
	st.drop(s, true)
	st.w.send(protocol.ErrorFrame(s.slot, s.epoch, e))
}

// cancel drops what waits in the epoch and before it, and what has run of a
// frame that is dropped.
func (s *session) cancel(epoch uint32) error {
	s.live = max(s.live, uint64(epoch)+1)
	if len(s.queue) > 0 && s.queue[0].f.Epoch <= epoch {
		if err := s.rewind(); err != nil {
			return err
		}
	}
	s.queue = slices.DeleteFunc(s.queue, func(q queued) bool { return q.f.Epoch <= epoch })
	return nil
}

// end is the position behind the last row that has run or waits.
func (s *session) end() uint32 {
	if n := len(s.queue); n > 0 {
		last := s.queue[n-1].f
		return last.Pos + last.Rows
	}
	return s.nextPos
}

// enqueue takes a row frame that continues the session.
func (st *state) enqueue(s *session, a arrival) {
	f := a.f
	if f.Epoch < s.epoch || uint64(f.Epoch) < s.live {
		return // from before a truncate, or cancelled
	}
	if err := st.checkRows(s, f); err != nil {
		st.fail(s, err)
		return
	}
	if err := s.begin(f.Pos); err != nil {
		st.fail(s, err)
		return
	}
	switch end := s.end(); {
	case f.Epoch > s.epoch:
		st.fail(s, protocol.Errorf(protocol.CodeFrameOrder, "%s of epoch %d in epoch %d", f.Kind, f.Epoch, s.epoch))
	case f.Pos != end:
		st.fail(s, protocol.Errorf(protocol.CodeFrameOrder, "%s at position %d, expected %d", f.Kind, f.Pos, end))
	case len(s.queue) >= queueFrames:
		st.fail(s, protocol.Errorf(protocol.CodeStageOverloaded, "more than %d frames wait", queueFrames))
	default:
		s.take(a)
	}
}

// take queues rows that were checked.
func (s *session) take(a arrival) {
	if a.f.Kind != protocol.KindPrefill {
		s.habit.arrive(a.at)
	}
	s.habit.rest() // here it is
	s.queue = append(s.queue, queued{f: a.f, at: a.at})
}

// checkRows refuses rows that this stage cannot compute. The seam has checked
// them; a call with others would end the process, and all its sessions.
func (st *state) checkRows(s *session, f *protocol.Frame) error {
	rows := int(f.Rows)
	if rows < 1 || rows > st.cfg.ChunkRows {
		return protocol.Errorf(protocol.CodeFrameInvalid, "a %s frame of %d rows, a call takes 1 to %d", f.Kind, f.Rows, st.cfg.ChunkRows)
	}
	if f.Kind == protocol.KindVerify {
		if err := st.checkVerify(s, f); err != nil {
			return err
		}
	}
	if st.stage.Head() {
		if f.Parts&protocol.PartIDs == 0 {
			return protocol.Errorf(protocol.CodeFrameInvalid, "rows without token ids for the head")
		}
		n := st.vocab.N() // asked once: it is a call into C
		for _, id := range f.IDs() {
			if id < 0 || int(id) >= n {
				return protocol.Errorf(protocol.CodeFrameInvalid, "token id %d of %d", id, n)
			}
		}
		return nil
	}
	if width := st.stage.Width(); f.Parts&protocol.PartHidden == 0 || f.DType != protocol.DTypeF32 || int(f.Width) != width {
		return protocol.Errorf(protocol.CodeFrameInvalid, "rows of %d elements in %s, this stage takes %d in %s", f.Width, f.DType, width, protocol.DTypeF32)
	}
	return nil
}

// work is the next rows of the head of the queue as the runner wants them.
func (st *state) work(s *session, rows int) exec.Work {
	q := s.queue[0]
	f := q.f
	end := q.done + rows
	w := exec.Work{Seq: s.seq, Pos: int32(f.Pos) + int32(q.done), Logits: f.Flags&protocol.FlagSample != 0 && end == int(f.Rows)}
	w.AllLogits = w.Logits && f.Kind == protocol.KindVerify
	if st.stage.Head() {
		w.IDs = f.IDs()[q.done:end]
	} else {
		width := st.stage.Width()
		w.Hidden = floats(f.Hidden())[q.done*width : end*width]
	}
	return w
}

// floats reads little-endian F32 bytes as a slice of their own memory; every
// platform that libllama's packages exist for is little-endian.
func floats(b []byte) []float32 {
	if len(b) < 4 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%4 != 0 {
		c := make([]float32, len(b)/4)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&c[0])), len(c)*4), b)
		return c
	}
	return unsafe.Slice((*float32)(p), len(b)/4)
}

// rawBytes is the opposite of floats, as a copy.
func rawBytes(v []float32) []byte {
	out := make([]byte, 4*len(v))
	if len(v) > 0 {
		copy(out, unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(out)))
	}
	return out
}
