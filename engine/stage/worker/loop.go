package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
	"neuron/internal/stopwatch"
	"neuron/llama/exec"
)

// loop handles messages and runs the model until the input ends. Messages come
// first, so that a cancel or a new decode row never waits behind a queue of
// chunks longer than the one that runs.
func (st *state) loop(ctx context.Context) error {
	for {
		if !st.drain() {
			return nil
		}
		now := time.Now()
		expires, saves := st.expirePools(now), st.save(now)
		if !st.named && st.stage != nil {
			st.publish()
		}
		if group, until := st.next(now); group != nil {
			st.step(group)
		} else if !st.wait(ctx, until, expires, saves) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
}

// wait handles the next message or reading of load, if one comes before the
// times that are not zero; false when the input has ended.
func (st *state) wait(ctx context.Context, times ...time.Time) bool {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	var over <-chan time.Time
	if !first.IsZero() {
		timer := time.NewTimer(time.Until(first))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case v := <-st.w.loads:
		st.load(v)
		return true
	case a, ok := <-st.w.inbox:
		if ok {
			st.handle(a)
		}
		return ok
	case then := <-st.back:
		then()
		return true
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

// load takes a reading of how many cores other programs use.
func (st *state) load(foreign float64) {
	if st.gov == nil {
		return
	}
	was := st.gov.HostBusy()
	st.gov.Load(time.Now(), foreign)
	if st.gov.HostBusy() != was {
		st.publish()
	}
}

// drain handles what lies in the inbox without waiting; false at its end.
func (st *state) drain() bool {
	for {
		select {
		case a, ok := <-st.w.inbox:
			if !ok {
				return false
			}
			st.handle(a)
		case v := <-st.w.loads:
			st.load(v)
		case then := <-st.back:
			then()
		default:
			return true
		}
	}
}

func (st *state) handle(a arrival) {
	f := a.f
	switch f.Kind {
	case protocol.KindOpen:
		st.open(f)
		return
	case protocol.KindCall:
		st.call(f)
		return
	case protocol.KindPing:
		return
	}
	s := st.sessions[f.Slot]
	switch {
	case f.Kind == protocol.KindClose:
		if s != nil {
			st.drop(s, false)
			st.w.log.Info("Session closed", "session", string(s.id), "slot", s.slot)
		}
		delete(st.opening, f.Slot)
		st.w.cancels.clear(f.Slot)
		// The echo tells the parent that the memory is free.
		st.w.send(protocol.ControlFrame(protocol.KindClose, f.Slot, 0, 0))
	case s == nil:
		// The session has ended here; its error frame is on the way.
	case f.Kind == protocol.KindCancel:
		if err := st.cancel(s, f.Epoch); err != nil {
			st.fail(s, err)
		}
		st.publish()
	case f.Kind == protocol.KindTruncate:
		st.truncate(s, f)
	case f.Kind.Rows():
		st.enqueue(s, a)
	default:
		st.fail(s, protocol.Errorf(protocol.CodeFrameOrder, "a stage takes no %s frame", f.Kind))
	}
}

// truncate forgets positions and begins the frame's epoch. Rows that still
// wait and lie before the position run first.
func (st *state) truncate(s *session, f *protocol.Frame) {
	if f.Epoch <= s.epoch {
		st.fail(s, protocol.Errorf(protocol.CodeFrameOrder, "truncate with epoch %d in epoch %d", f.Epoch, s.epoch))
		return
	}
	s.epoch, s.begun = f.Epoch, true
	s.queue = slices.DeleteFunc(s.queue, func(q queued) bool { return q.f.Pos+q.f.Rows > f.Pos })
	switch end := s.end(); {
	case f.Pos > end:
		st.fail(s, protocol.Errorf(protocol.CodeFrameOrder, "truncate to %d, rows end at %d", f.Pos, end))
	case f.Pos < s.nextPos:
		if err := st.takeBack(s, f.Pos); err != nil {
			st.fail(s, err)
			return
		}
		s.nextPos = f.Pos
	}
}

// step runs one call for the group and sends what came out.
func (st *state) step(group []*session) {
	p := group[0].pool.run
	work := make([]exec.Work, len(group))
	prefill := group[0].queue[0].f.Kind == protocol.KindPrefill
	for i, s := range group {
		rows := int(s.queue[0].f.Rows)
		if prefill {
			rows = st.slice(s, time.Now())
		}
		work[i] = st.work(s, rows)
	}
	if prefill {
		st.turn = group[0].slot
	}
	// Only a call of a single session can be interrupted for it; a step of
	// several is short.
	if len(group) == 1 && !st.w.cancels.arm(group[0].slot, group[0].queue[0].f.Epoch, p.Abort) {
		group[0].queue = group[0].queue[1:] // its cancel or close is in the inbox
		return
	}
	start, watch := time.Now(), stopwatch.Start()
	if st.gov != nil {
		st.threads = st.gov.Next(start)
	}
	err := p.SetThreads(st.threads)
	var r *exec.Result
	if err == nil {
		r, err = p.Run(group[0].exit, work)
	}
	took := watch.Elapsed()
	st.w.cancels.disarm()
	if st.gov != nil && !prefill && err == nil {
		st.gov.Step(time.Now(), took, len(group)*int(group[0].queue[0].f.Rows))
	}
	if errors.Is(err, exec.ErrAborted) && len(group) == 1 {
		st.undo(group[0])
		return
	}
	if err != nil {
		for _, s := range group {
			st.fail(s, err)
		}
		return
	}
	st.count(group[0], prefill, took, work[0].Rows(st.stage.Width()))
	offset := 0
	for i, s := range group {
		n := work[i].Rows(st.stage.Width())
		rows := st.given(r, s, offset, offset+n)
		q := &s.queue[0]
		if q.done == 0 {
			q.queue = start.Sub(q.at)
		}
		q.compute += took
		if !prefill {
			s.decoded = start
		}
		if s.advance(n, rows); q.done == int(q.f.Rows) {
			st.finish(s, r.Rows[i]+n-1, rows)
		}
		offset += n
	}
	st.idle = time.Now()
	st.publish()
}

// finish sends what the session's front frame gave; last is the batch index of
// its last row, rows what the call that ended it gave.
func (st *state) finish(s *session, last int, rows given) {
	q := s.queue[0]
	s.queue = s.queue[1:]
	ack := protocol.AckFrame(q.f.Header, protocol.Ack{Rows: q.f.Rows, Queue: micros(q.queue), Compute: micros(q.compute)})
	s.habit.answer(time.Now(), q.f.Rows)
	switch {
	case q.rows.hidden != nil:
		st.w.send(ack, s.rowFrame(q.f, st.stage.Width(), q.rows))
	case rows.hidden != nil:
		st.w.send(ack, s.rowFrame(q.f, st.stage.Width(), rows))
	case q.f.Flags&protocol.FlagSample != 0 && q.f.Kind == protocol.KindVerify:
		toks, err := st.verify(s, q.f, last-int(q.f.Rows)+1)
		st.w.send(append([]*protocol.Frame{ack}, toks...)...)
		if err != nil {
			st.fail(s, err)
		}
	case q.f.Flags&protocol.FlagSample != 0:
		tok, err := st.sample(s, q.f, s.nextPos, last)
		if err != nil {
			st.w.send(ack)
			st.fail(s, err)
			return
		}
		st.w.send(ack, tok)
	default:
		st.w.send(ack)
	}
}

// undo drops a session's interrupted rows; it can go on at the position where
// their frame began.
func (st *state) undo(s *session) {
	pos := s.queue[0].f.Pos
	s.queue = s.queue[1:]
	s.nextPos = pos
	if err := st.takeBack(s, pos); err != nil {
		st.fail(s, err)
	}
}

// takeBack forgets a session's positions from pos on. A recurrent state has no
// earlier one to go back to, but for its beginning.
func (st *state) takeBack(s *session, pos uint32) error {
	if pos == 0 {
		return s.pool.run.Clear(s.seq)
	}
	if len(st.cfg.Memory) > 0 && (st.cfg.Memory.Has(protocol.MemoryRecurrent) || st.cfg.Memory.Has(protocol.MemoryCompressed)) {
		return protocol.Errorf(protocol.CodeUnsupported, "back to position %d: layers of this model keep a state, which cannot forget single positions", pos)
	}
	return s.pool.run.Truncate(s.seq, int32(pos))
}

// sample draws the session's token for pos from the logits of a batch row.
func (st *state) sample(s *session, f *protocol.Frame, pos uint32, row int) (*protocol.Frame, error) {
	tok, err := s.sampler.Next(s.pool.run, row)
	if err != nil {
		return nil, err
	}
	if s.habit.answer(time.Now(), f.Rows); tok.EOG {
		s.habit.rest()
	}
	return protocol.TokenFrame(s.slot, f.Epoch, pos, tok)
}

// count notes what a call took for what is planned by it: the running averages
// of real work (1/8 for the newest) of a decode call and of a chunk scaled to
// ChunkRows, the cost of prefill rows, and the time since the last slice. s is
// the call's first session, rows are its.
func (st *state) count(s *session, prefill bool, took time.Duration, rows int) {
	us := took.Microseconds()
	if !prefill {
		st.sinceSlice += took
		if rows == 1 { // what a step takes, not a pass that checks guesses
			st.stepMicros += (us - st.stepMicros) / 8
		}
		return
	}
	st.sinceSlice = 0
	st.sliced(s, s.nextPos, took, rows)
	if rows >= fullRows { // short slices run other kernels
		st.chunkMicros += (us*int64(st.cfg.ChunkRows)/int64(rows) - st.chunkMicros) / 8
	}
}

// publish updates what the pings report.
func (st *state) publish() {
	queue := 0
	for _, s := range st.sessions {
		queue += len(s.queue)
	}
	st.w.setStats(wire.Stats{
		FreeKVBytes: st.freeKV(), Sessions: len(st.sessions), Queue: queue,
		StepMicros: st.stepMicros, ChunkMicros: st.chunkMicros,
		Prefixes: st.prefixNames(), Snapshots: st.counts,
		Threads: st.threads, HostBusy: st.gov != nil && st.gov.HostBusy(),
	})
}

// micros saturates: an ack has 32 bits for over an hour.
func micros(d time.Duration) uint32 { return uint32(min(max(0, d.Microseconds()), 1<<32-1)) }
