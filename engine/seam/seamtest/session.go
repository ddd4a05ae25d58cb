package seamtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
	"neuron/engine/protocol/rowbytes"
	"neuron/engine/seam"
)

// session is one session of the fake. run, its only goroutine, delivers, and
// ends with ctx; Close waits for it.
type session struct {
	stage      *Stage
	id         protocol.SessionID
	head, tail bool
	cells      int
	prefix     seam.Prefix
	kept       int
	dtype      protocol.DType
	arrives    protocol.Sideband
	leaves     protocol.Sideband
	in         chan *protocol.Frame
	put        func(*protocol.Frame) // seam.StageOpen.Deliver
	ctx        context.Context
	cancel     context.CancelFunc
	done       chan struct{} // closed by run
	closing    sync.Once

	mu   sync.Mutex    // guards below
	live uint32        // epochs below were cancelled
	wake chan struct{} // closed and replaced by a cancel
	err  *protocol.Error

	epoch, next uint32 // run only
	begun       bool   // run only
}

func (s *session) Cells() int { return s.cells }
func (s *session) Kept() int  { return s.kept }

func (s *session) Send(ctx context.Context, f *protocol.Frame) error {
	if f.Kind == protocol.KindCancel {
		s.mu.Lock()
		s.live = max(s.live, f.Epoch+1)
		close(s.wake)
		s.wake = make(chan struct{})
		s.mu.Unlock()
		s.stage.mu.Lock()
		s.stage.cancels++
		s.stage.mu.Unlock()
		return nil
	}
	if s.ctx.Err() != nil {
		return s.reason()
	}
	kept := *f // f is the caller's again
	kept.Payload = slices.Clone(f.Payload)
	select {
	case s.in <- &kept:
		return nil
	case <-s.ctx.Done():
		return s.reason()
	case <-ctx.Done():
		return protocol.Errorf(protocol.CodeCancelled, "send: %w", context.Cause(ctx))
	}
}

func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return protocol.Errorf(protocol.CodeSessionUnknown, "the session has ended")
}

func (s *session) fail(err *protocol.Error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.cancel()
}

func (s *session) Close() error {
	s.closing.Do(func() {
		s.cancel()
		<-s.done
		s.stage.mu.Lock()
		defer s.stage.mu.Unlock()
		delete(s.stage.sessions, s.id)
		s.stage.cells += s.cells
		if n := min(int(s.next)/prefix.Block, s.prefix.Keys.Blocks()); s.stage.keeps && n > 0 {
			s.prefix.Keys = s.prefix.Keys.First(n)
			s.stage.kept = append(s.stage.kept, s.prefix)
		}
	})
	<-s.done
	return nil
}

func (s *session) run() {
	defer close(s.done)
	defer s.put(nil)
	for {
		select {
		case <-s.ctx.Done():
			s.mu.Lock()
			err := s.err
			s.mu.Unlock()
			if err != nil {
				s.put(protocol.ErrorFrame(0, s.epoch, err))
			}
			return
		case f := <-s.in:
			if err := s.frame(f); err != nil {
				s.fail(err)
			}
		}
	}
}

func (s *session) frame(f *protocol.Frame) *protocol.Error {
	switch {
	case f.Kind == protocol.KindTruncate:
		if f.Epoch != s.epoch+1 || f.Pos > s.next {
			return protocol.Errorf(protocol.CodeFrameOrder, "truncate to %d in epoch %d, rows end at %d of epoch %d", f.Pos, f.Epoch, s.next, s.epoch)
		}
		s.epoch, s.next = f.Epoch, f.Pos
		return nil
	case !f.Kind.Rows():
		return protocol.Errorf(protocol.CodeUnsupported, "a %s frame", f.Kind)
	}
	for s.alive(f) {
		s.mu.Lock()
		wake := s.wake
		s.mu.Unlock()
		s.stage.mu.Lock()
		hold, poison := s.stage.hold, s.stage.poison
		s.stage.mu.Unlock()
		select {
		case <-hold:
			if !s.alive(f) { // both came while this goroutine did not run
				return nil
			}
			return s.compute(f, poison)
		case <-wake:
		case <-s.ctx.Done():
			return nil
		}
	}
	return nil
}

func (s *session) alive(f *protocol.Frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.Epoch >= s.live
}

func (s *session) compute(f *protocol.Frame, poison bool) *protocol.Error {
	if !s.begun && int(f.Pos) <= s.kept {
		s.next = f.Pos
	}
	s.begun = true
	if f.Epoch != s.epoch || f.Pos != s.next || int(f.Pos+f.Rows) > s.cells {
		return protocol.Errorf(protocol.CodeFrameOrder, "rows at %d of epoch %d, expected %d of %d", f.Pos, f.Epoch, s.next, s.epoch)
	}
	s.next += f.Rows
	if err := s.arrived(f); err != nil {
		return err
	}
	rows := s.rows(f)
	if poison {
		rows[0] = float32(math.NaN())
	}
	s.put(protocol.AckFrame(f.Header, protocol.Ack{Rows: f.Rows, Queue: 1, Compute: 2}))
	if !s.tail {
		p := rowbytes.Parts{Hidden: protocol.F32Bytes(rows), DType: s.dtype, Width: Width}
		if s.dtype == protocol.DTypeF16 {
			p.Hidden = rowbytes.F16Bytes(rows)
		}
		if s.leaves.IDs || f.Kind == protocol.KindVerify {
			p.IDs = f.IDs()
		}
		for i := range f.Rows {
			p.TopK = append(p.TopK, ChosenAt(f.Pos+i, s.leaves.TopK)...)
		}
		out := rowbytes.Frame(f.Header, int(f.Rows), p)
		s.stage.mu.Lock()
		if s.stage.spoil != nil {
			s.stage.spoil(out)
		}
		s.stage.mu.Unlock()
		s.put(out)
		return nil
	}
	if f.Flags&protocol.FlagSample != 0 {
		return s.sample(f, rows)
	}
	return nil
}

// sample says the token behind f's last row, or those of a verify frame.
func (s *session) sample(f *protocol.Frame, rows []float32) *protocol.Error {
	first, ids := f.Rows-1, []int32(nil)
	if f.Kind == protocol.KindVerify {
		first, ids = 0, f.IDs()
	}
	for i := first; i < f.Rows; i++ {
		pos := f.Pos + i + 1
		id := s.stage.tokenAt(pos)
		t, err := protocol.TokenFrame(f.Slot, f.Epoch, pos, protocol.Token{
			ID: id, Piece: fmt.Append(nil, rows[i*Width]), Logprob: float32(math.NaN()),
		})
		if err != nil {
			return protocol.AsError(err)
		}
		more := i+1 < f.Rows && ids[i+1] == id
		if more {
			t.Flags |= protocol.FlagMore
		}
		if s.put(t); !more {
			return nil
		}
	}
	return nil
}

// arrived checks what came beside hidden states. The seam has checked its form,
// so that what is wrong here was lost or mixed up on the way.
func (s *session) arrived(f *protocol.Frame) *protocol.Error {
	if s.head {
		return nil
	}
	if f.DType != s.dtype {
		return protocol.Errorf(protocol.CodeInternal, "rows of %s, the session has %s", f.DType, s.dtype)
	}
	if s.arrives.IDs {
		b := values(f)
		for i, id := range f.IDs() {
			// What the head made of the id, and each hop since.
			if hops := b[i*Width] - float32(id); hops < 1 || hops > MaxHops {
				return protocol.Errorf(protocol.CodeInternal, "id %d came with a row of %g", id, b[i*Width])
			}
		}
	}
	if top := s.arrives.TopK; top > 0 {
		v := f.TopK()
		for i := range int(f.Rows) {
			if !slices.Equal(v[i*top:(i+1)*top], ChosenAt(f.Pos+uint32(i), top)) {
				return protocol.Errorf(protocol.CodeInternal, "another choice of cells for position %d", int(f.Pos)+i)
			}
		}
	}
	return nil
}

// MaxHops is the longest route of the fake.
const MaxHops = Layers

// values are the hidden states of a frame.
func values(f *protocol.Frame) []float32 {
	b := f.Hidden()
	if f.DType == protocol.DTypeF16 {
		return rowbytes.F16Floats(b)
	}
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// rows is the fake's model.
func (s *session) rows(f *protocol.Frame) []float32 {
	out := make([]float32, int(f.Rows)*Width)
	if s.head {
		for i, id := range f.IDs() {
			for j := range Width {
				out[i*Width+j] = float32(id) + 1
			}
		}
		return out
	}
	for i, v := range values(f) {
		out[i] = v + 1
	}
	return out
}
