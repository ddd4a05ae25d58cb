package worker

import (
	"encoding/json"
	"slices"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
	"neuron/engine/stage/worker/sampling"
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
	sampler *sampling.Sampler // on the tail
	decoded time.Time         // when it last decoded here
	habit   habit             // how soon its rows follow each other
	pace    pace              // what its prefill rows cost
	seams
}

// queued is a row frame that waits for its turn, or a prefill frame of which a
// part has run (see slice.go).
type queued struct {
	f  *protocol.Frame
	at time.Time

	done    int           // rows that have run
	rows    given         // what they gave for the next hop
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
	x, err := st.seamsOf(o)
	if err != nil {
		return nil, err
	}
	s := &session{slot: slot, id: o.Session, exit: o.Exit, prompt: b, seams: x}
	tail := o.Exit == st.cfg.Layers
	if tail {
		if o.Sampler == nil {
			return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the tail needs sampler settings")
		}
		if s.sampler, err = sampling.New(st.vocab, o.Sampler, o.Context, o.Prompt); err != nil {
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

// close frees what the session holds outside its pool.
func (s *session) close() {
	if s.sampler != nil {
		s.sampler.Close()
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
func (st *state) cancel(s *session, epoch uint32) error {
	s.live = max(s.live, uint64(epoch)+1)
	if len(s.queue) > 0 && s.queue[0].f.Epoch <= epoch {
		if err := st.rewind(s); err != nil {
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
