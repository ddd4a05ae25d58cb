package session

import (
	"context"
	"errors"
	"time"

	"neuron/engine/protocol"
)

// prefill sends the prompt in chunks and returns the first token.
func (d *driver) prefill() (protocol.Token, *protocol.Error) {
	g := d.g
	g.setPhase(protocol.PhasePrefill)
	total := uint32(len(g.req.Prompt))
	rows := uint32(min(chunkUnit, d.rows))
	d.progress = time.Now()
	for {
		for d.sent < total && len(d.headWait) < maxUnacked {
			rows = d.chunk(rows, total-d.start)
			n := min(rows, total-d.sent)
			f := protocol.IDFrame(protocol.KindPrefill, d.sent, g.req.Prompt[d.sent:d.sent+n])
			if d.sent+n == total {
				f.Flags = protocol.FlagSample
			}
			if err := d.send(f); err != nil {
				return protocol.Token{}, err
			}
			d.guess.add(g.req.Prompt[f.Pos:d.sent]...) // while the route works
		}
		tok, err := d.next()
		if err != nil {
			return protocol.Token{}, err
		}
		if tok != nil {
			return *tok, nil
		}
	}
}

// chunk chooses the size of the next chunk: as many rows as take the aimed
// time, at most twice the last size, and on a route of several hops small
// enough that each of them gets several chunks to work on at the same time.
func (d *driver) chunk(last, total uint32) uint32 {
	limit := uint32(d.rows)
	if limit < chunkUnit {
		return limit
	}
	if n := uint32(len(d.hops)); n > 1 {
		limit = min(limit, max(chunkUnit, total/(maxUnacked*n)))
	}
	if d.perRow <= 0 {
		return min(last, limit) / chunkUnit * chunkUnit
	}
	aim := d.o.ChunkAlone
	if running, _ := d.g.m.Active(); running > 1 {
		aim = d.o.ChunkShared
	}
	rows := uint32(min(aim/d.perRow, protocol.MaxChunkRows))
	rows = min(rows, 2*last, limit)
	return max(rows/chunkUnit*chunkUnit, chunkUnit)
}

// decode delivers tokens and feeds them back, with guesses of what follows
// where that pays, until the answer ends.
func (d *driver) decode(tok protocol.Token) (protocol.FinishReason, *protocol.Error) {
	g := d.g
	for n := 1; ; n++ {
		g.token(tok.EOG)
		select {
		case g.tokens <- tok:
		case <-g.ctx.Done():
			return "", stopReason(g.ctx)
		}
		if tok.EOG {
			return protocol.FinishStop, nil
		}
		if n == g.req.MaxTokens {
			return protocol.FinishLength, nil
		}
		d.guess.add(tok.ID)
		if !d.guess.more {
			if err := d.pass(tok.ID, g.req.MaxTokens-n); err != nil {
				return "", err
			}
		}
		for {
			t, err := d.next()
			if err != nil {
				return "", err
			}
			if t != nil {
				tok = *t
				break
			}
		}
	}
}

// turns is how many sessions may take turns on a hop before ours: each may run a
// frame in between. A peer or stage that freezes is noticed by its pings within
// seconds; this bound is for one that lives and does nothing.
const turns = 8

// unknownStep stands for a hop whose step time has not been measured yet.
const unknownStep = 100 * time.Millisecond

// allowed is how long the route may take without any sign of progress: the
// margin plus what the rows under way cost by the tracker's statement or by
// our own measurement, whichever is longer.
func (d *driver) allowed() time.Duration {
	var step time.Duration
	for _, h := range d.hops {
		us := min(max(h.StepMicros, 0), int64(time.Minute/time.Microsecond))
		if us == 0 {
			us = unknownStep.Microseconds()
		}
		step += time.Duration(us) * time.Microsecond
	}
	rows := uint32(1)
	for _, f := range d.tailWait {
		rows = max(rows, f.rows)
	}
	measured := 2 * d.perRow * time.Duration(int(rows)*len(d.hops))
	return d.o.Frozen + min(turns*max(step*time.Duration(rows), measured), 2*time.Minute)
}

// send hands one row or truncate frame to hop 0, in the epoch that is now.
func (d *driver) send(f *protocol.Frame) *protocol.Error {
	if d.g.ctx.Err() != nil {
		return stopReason(d.g.ctx)
	}
	f.Epoch = d.epoch
	fl := flight{epoch: f.Epoch, pos: f.Pos, rows: f.Rows}
	if len(d.tailWait) == 0 {
		d.progress = time.Now() // nothing was under way that could be stuck
	}
	allowed := d.allowed()
	ctx, cancel := context.WithTimeout(d.g.ctx, allowed)
	defer cancel()
	if f.Kind == protocol.KindTruncate {
		d.rec.truncate(f)
	} else {
		d.rec.in(f)
	}
	if err := d.stream.Send(ctx, f); err != nil {
		if d.g.ctx.Err() != nil {
			return stopReason(d.g.ctx)
		}
		if ctx.Err() != nil {
			return d.blame(frozen(0, allowed))
		}
		return d.broken(err, 0, d.tokens, len(d.hops)-1)
	}
	if d.sent = f.Pos + f.Rows; f.Kind == protocol.KindTruncate {
		return nil
	}
	d.expect = d.sent
	if f.Kind == protocol.KindVerify {
		d.expect = f.Pos + 1
	}
	d.headWait = append(d.headWait, fl)
	d.tailWait = append(d.tailWait, fl)
	return nil
}

// next waits for one sign of the route: nil for an ack, or a token.
func (d *driver) next() (*protocol.Token, *protocol.Error) {
	allowed := d.allowed()
	timer := time.NewTimer(time.Until(d.progress.Add(allowed)))
	defer timer.Stop()
	tail := len(d.hops) - 1
	for {
		select {
		case <-d.g.ctx.Done():
			return nil, stopReason(d.g.ctx)
		case <-timer.C:
			return nil, d.blame(frozen(d.stuck(), allowed))
		case f, ok := <-d.stream.Frames():
			if !ok {
				return nil, d.broken(d.stream.Err(), 0, d.tokens, tail)
			}
			switch f.Kind {
			case protocol.KindPing:
				continue
			case protocol.KindAck:
				return nil, d.ack(f, &d.headWait, 0)
			case protocol.KindError:
				return nil, d.told(f.Err(), 0, d.tokens, tail)
			}
			return nil, unexpected(f, 0)
		case f, ok := <-d.tokens.Frames():
			if !ok {
				return nil, d.broken(d.tokens.Err(), tail, d.stream, 0)
			}
			switch f.Kind {
			case protocol.KindPing:
				continue
			case protocol.KindAck:
				return nil, d.ack(f, &d.tailWait, tail)
			case protocol.KindError:
				return nil, d.told(f.Err(), tail, d.stream, 0)
			case protocol.KindToken:
				return d.token(f, tail)
			}
			return nil, unexpected(f, tail)
		}
	}
}

func frozen(hop int, allowed time.Duration) *protocol.Error {
	return protocol.Errorf(protocol.CodeStageFrozen, "no progress for %s", allowed.Round(10*time.Millisecond)).AtHop(hop)
}

func unexpected(f *protocol.Frame, hop int) *protocol.Error {
	return protocol.Errorf(protocol.CodeFrameOrder, "unexpected %s frame from the route", f.Kind).AtHop(hop)
}

// ack takes the oldest flight off; hops acknowledge in order.
func (d *driver) ack(f *protocol.Frame, waits *[]flight, hop int) *protocol.Error {
	a, err := f.Ack()
	if err != nil {
		return protocol.AsError(err).AtHop(hop)
	}
	q := *waits
	if len(q) == 0 || q[0].pos != f.Pos || q[0].rows != a.Rows || q[0].epoch != f.Epoch {
		return protocol.Errorf(protocol.CodeFrameOrder, "acknowledgement of %d rows at position %d", a.Rows, f.Pos).AtHop(hop)
	}
	fl := q[0]
	*waits = q[1:]
	d.progress = time.Now()
	if waits == &d.tailWait {
		d.rec.executed(f, fl.rows)
	}
	if int(f.Pos) >= len(d.g.req.Prompt) {
		return nil // decode
	}
	// What the driver sees of a chunk's cost are the times in the model of both
	// ends; the slower one counts.
	last := waits == &d.tailWait
	cost := &d.rowHead
	if last {
		cost = &d.rowTail
	}
	if row := time.Duration(a.Compute) * time.Microsecond / time.Duration(fl.rows); *cost == 0 {
		*cost = row
	} else {
		*cost = (*cost + row) / 2
	}
	d.perRow = max(d.rowHead, d.rowTail)
	if last {
		d.g.update(func(t *protocol.Telemetry) { t.PrefillDone = min(int(f.Pos+fl.rows), t.PrefillTotal) })
	}
	return nil
}

// token checks a token frame: exactly the next position, after everything that
// was sent, and followed by another one exactly if it is the guess of the next
// row of a pass.
func (d *driver) token(f *protocol.Frame, tail int) (*protocol.Token, *protocol.Error) {
	t, err := f.Token()
	if err != nil {
		return nil, protocol.AsError(err).AtHop(tail)
	}
	waits := len(d.tailWait)
	switch {
	case f.Pos != d.expect || f.Epoch != d.epoch || int(f.Pos) < len(d.g.req.Prompt):
		return nil, protocol.Errorf(protocol.CodeFrameOrder, "token at position %d of epoch %d, expected %d of %d", f.Pos, f.Epoch, d.expect, d.epoch).AtHop(tail)
	case waits > 0:
		return nil, protocol.Errorf(protocol.CodeFrameOrder, "token before the acknowledgement of its rows").AtHop(tail)
	case t.ID < 0 && !t.EOG:
		return nil, protocol.Errorf(protocol.CodeFrameInvalid, "token id %d", t.ID).AtHop(tail)
	case f.Flags&protocol.FlagMore != 0 != d.guess.hit(&t):
		return nil, protocol.Errorf(protocol.CodeFrameOrder, "the tail sent more or fewer tokens than it was asked for").AtHop(tail)
	}
	d.progress = time.Now()
	d.expect++
	d.rec.out(f)
	d.guess.came(d.g, &t, d.progress)
	return &t, nil
}

// settle is how long the driver waits for a better explanation than its own
// when a stream breaks: the neighbours of the broken hop report it by name.
const settle = 250 * time.Millisecond

// incoming is what either stream of a route brings.
type incoming interface {
	Frames() <-chan *protocol.Frame
	Err() error
}

// told takes an error that hop sent. Nobody but the driver cancels, and it has
// not: one end of the route lost the driver, and the other one heard of it.
func (d *driver) told(e *protocol.Error, hop int, other incoming, otherHop int) *protocol.Error {
	if e.Code == protocol.CodeCancelled {
		return d.broken(e, hop, other, otherHop)
	}
	return e.AtHop(hop)
}

// broken explains why hop sends nothing more. On the other stream an error that
// names a hop may arrive, or it broke as well: if hop was only told that the
// session is over, the fault is there.
func (d *driver) broken(err error, hop int, other incoming, otherHop int) *protocol.Error {
	var e *protocol.Error
	only := false
	switch coded := errors.As(err, &e); {
	case !coded:
	case e.Code == protocol.CodeInternal || e.Code == protocol.CodeCancelled:
		e, only = nil, e.Code == protocol.CodeCancelled
	case e.Hop != nil && *e.Hop == hop:
		return d.blame(e)
	case e.Hop != nil:
		return e
	}
	timer := time.NewTimer(settle)
	defer timer.Stop()
	for more := true; more; {
		select {
		case <-d.g.ctx.Done():
			return stopReason(d.g.ctx)
		case <-timer.C:
			more = false
		case f, ok := <-other.Frames():
			switch {
			case !ok && only:
				return d.lostAt(other.Err(), otherHop)
			case !ok:
				more = false
			case f.Kind == protocol.KindError && f.Err().Hop != nil:
				return f.Err()
			}
		}
	}
	if e != nil {
		return d.blame(e.AtHop(hop))
	}
	return d.lostAt(err, hop)
}

// lostAt blames a hop for a stream that ended without a reason of its own.
func (d *driver) lostAt(err error, hop int) *protocol.Error {
	if err == nil {
		return d.blame(protocol.Errorf(protocol.CodeHopLost, "the stream ended before the answer").AtHop(hop))
	}
	return d.blame(protocol.Errorf(protocol.CodeHopLost, "the connection broke: %w", err).AtHop(hop))
}

// stuck finds the hop that holds the oldest rows: hop 0 when it did not
// acknowledge them, else the first one whose position is behind.
func (d *driver) stuck() int {
	tail := len(d.hops) - 1
	if len(d.headWait) > 0 && (len(d.tailWait) == 0 || d.headWait[0].pos <= d.tailWait[0].pos) {
		return 0
	}
	if tail <= 1 || len(d.tailWait) == 0 {
		return tail
	}
	ctx, cancel := context.WithTimeout(d.g.ctx, time.Second)
	defer cancel()
	want := int64(d.tailWait[0].pos + d.tailWait[0].rows)
	for i, next := range d.poll(ctx, func(i int) bool { return i > 0 }) {
		if i > 0 && next < want {
			return i
		}
	}
	return tail
}
