package seamtest

import (
	"context"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam"
)

// run is a session under test with what is needed to feed it.
type run struct {
	t     *testing.T
	capab protocol.Capability
	s     *Session
	tail  bool
}

func openRun(t *testing.T, stage seam.Stage) *run {
	t.Helper()
	c := stage.Capability()
	o := seam.StageOpen{Session: protocol.NewSessionID(), Use: c.Loaded, Context: min(suiteContext, c.MaxContext)}
	if c.Tail {
		o.Sampler = &protocol.Sampler{IgnoreEOG: true}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := Open(ctx, stage, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	r := &run{t: t, capab: c, s: s, tail: c.Tail}
	t.Cleanup(func() { s.Close() })
	if s.Cells() < o.Context {
		t.Fatalf("%d cells reserved, %d asked", s.Cells(), o.Context)
	}
	return r
}

// rows makes a row frame that the stage takes.
func (r *run) rows(kind protocol.Kind, epoch, pos uint32, n int, flags protocol.Flags) *protocol.Frame {
	var f *protocol.Frame
	if r.capab.Head {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32((int(pos)+i)%30 + 1)
		}
		f = protocol.IDFrame(kind, pos, ids)
	} else {
		v := make([]float32, n*r.capab.Width)
		for i := range v {
			v[i] = float32((int(pos)*13+i)%17-8) / 16
		}
		p := protocol.F32Bytes(v)
		f = &protocol.Frame{Header: protocol.Header{
			Kind: kind, Parts: protocol.PartHidden, DType: protocol.DTypeF32, Pos: pos,
			Rows: uint32(n), Width: uint32(r.capab.Width), Length: uint32(len(p)),
		}, Payload: p}
	}
	f.Epoch, f.Flags = epoch, flags
	return f
}

func (r *run) send(f *protocol.Frame) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := r.s.Send(ctx, f); err != nil {
		r.t.Fatalf("send %s at %d: %v", f.Kind, f.Pos, err)
	}
}

func (r *run) next() *protocol.Frame {
	r.t.Helper()
	select {
	case f, ok := <-r.s.Frames():
		if !ok {
			r.t.Fatal("frames closed too early")
		}
		return f
	case <-time.After(patience):
		r.t.Fatal("the stage produced nothing")
	}
	return nil
}

// answer checks what the stage produces for one row frame with header h.
func (r *run) answer(h protocol.Header) {
	r.t.Helper()
	f := r.next()
	if f.Kind == protocol.KindError {
		r.t.Fatalf("the stage failed: %v", f.Err())
	}
	a, err := f.Ack()
	if err != nil || f.Pos != h.Pos || f.Epoch != h.Epoch || f.Slot != h.Slot || a.Rows != h.Rows {
		r.t.Fatalf("got %+v %+v (%v), want an ack of %+v", f.Header, a, err, h)
	}
	switch {
	case !r.tail:
		f := r.next()
		if f.Kind != h.Kind || f.Pos != h.Pos || f.Epoch != h.Epoch || f.Slot != h.Slot || f.Flags != h.Flags || f.Rows != h.Rows {
			r.t.Fatalf("got rows %+v for %+v", f.Header, h)
		}
		parts := protocol.PartHidden
		if h.Kind == protocol.KindVerify {
			parts |= protocol.PartIDs
		}
		if f.Parts != parts || f.DType != protocol.DTypeF32 || int(f.Width) != r.capab.Width {
			r.t.Fatalf("rows of parts %d, %d x %s", f.Parts, f.Width, f.DType)
		}
		if err := f.CheckFinite(); err != nil {
			r.t.Fatal(err)
		}
		if _, err := protocol.AppendFrame(nil, f, protocol.SeamLimits()); err != nil {
			r.t.Fatalf("rows cannot be sent: %v", err)
		}
	case h.Flags&protocol.FlagSample != 0:
		f := r.next()
		if _, err := f.Token(); err != nil || f.Pos != h.Pos+h.Rows || f.Epoch != h.Epoch || f.Slot != h.Slot {
			r.t.Fatalf("got %+v (%v), want a token for position %d", f.Header, err, h.Pos+h.Rows)
		}
	}
}

// step sends one row frame and checks its answer.
func (r *run) step(kind protocol.Kind, epoch, pos uint32, n int, flags protocol.Flags) {
	r.t.Helper()
	f := r.rows(kind, epoch, pos, n, flags)
	h := f.Header
	r.send(f)
	r.answer(h)
}

// closed waits until the stage has closed its channel and returns the error
// frame before that, if any.
func (r *run) closed() *protocol.Error {
	r.t.Helper()
	var last *protocol.Error
	limit := time.After(patience)
	for {
		select {
		case f, ok := <-r.s.Frames():
			if !ok {
				return last
			}
			if last != nil {
				r.t.Fatalf("a %s frame behind the error frame", f.Kind)
			}
			if f.Kind == protocol.KindError {
				last = f.Err()
			}
		case <-limit:
			r.t.Fatal("frames stay open")
		}
	}
}

// verified checks the tokens of a verify frame: as far as the guesses are right,
// and one more.
func (r *run) verified(h protocol.Header, guess []int32) {
	r.t.Helper()
	if f := r.next(); f.Kind != protocol.KindAck || f.Pos != h.Pos {
		r.t.Fatalf("got %+v, want an ack of %+v", f.Header, h)
	}
	for i := 1; ; i++ {
		f := r.next()
		tok, err := f.Token()
		if err != nil || f.Pos != h.Pos+uint32(i) || f.Epoch != h.Epoch {
			r.t.Fatalf("got %+v (%v), want a token for position %d", f.Header, err, h.Pos+uint32(i))
		}
		more := i < len(guess) && !tok.EOG && tok.ID == guess[i]
		if (f.Flags&protocol.FlagMore != 0) != more {
			r.t.Fatalf("token %d at %d, flags %#x", tok.ID, f.Pos, uint16(f.Flags))
		}
		if !more {
			return
		}
	}
}
