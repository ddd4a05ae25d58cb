package flow

import (
	"context"
	"errors"
	"testing"

	"neuron/engine/protocol"
)

func row(epoch, pos, rows uint32, bytes int) *protocol.Frame {
	return &protocol.Frame{Header: protocol.Header{Kind: protocol.KindPrefill, Epoch: epoch, Pos: pos, Rows: rows}, Payload: make([]byte, bytes)}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	p := Position{Limit: 100}
	admit := func(epoch, pos, rows uint32, want bool) {
		t.Helper()
		if ok, err := p.Admit(row(epoch, pos, rows, 0)); err != nil || ok != want {
			t.Fatalf("admit %d@%d: %v, %v; want %v", pos, epoch, ok, err, want)
		}
	}
	truncate := func(epoch, pos, want uint32, fails bool) {
		t.Helper()
		got, err := p.Truncate(protocol.ControlFrame(protocol.KindTruncate, 0, epoch, pos))
		if (err != nil) != fails || err == nil && got != want {
			t.Fatalf("truncate %d@%d: %d, %v", pos, epoch, got, err)
		}
	}
	cancel := func(epoch uint32, want bool) {
		t.Helper()
		if ok, err := p.Cancel(protocol.ControlFrame(protocol.KindCancel, 0, epoch, 0)); err != nil || ok != want {
			t.Fatalf("cancel %d: %v, %v", epoch, ok, err)
		}
	}
	admit(0, 0, 64, true)
	admit(0, 64, 20, true)
	p.Executed(0, 64)
	truncate(1, 85, 0, true) // beyond the rows
	truncate(1, 80, 80, false)
	admit(0, 84, 1, false) // old epoch
	p.Executed(0, 84)      // late: counts up to the truncate
	if p.done != 80 {
		t.Fatalf("done %d, want 80", p.done)
	}
	admit(1, 80, 20, true)
	if _, err := p.Admit(row(1, 100, 1, 0)); !errors.Is(err, &protocol.Error{Code: protocol.CodeContextExceeded}) {
		t.Fatalf("beyond the cells: %v", err)
	}
	cancel(1, true)
	cancel(1, false)
	admit(1, 100, 1, false)  // dead
	truncate(2, 90, 0, true) // rows from 80 on may never have run
	truncate(2, 80, 80, false)
	admit(2, 80, 1, true)
	cancel(3, true) // overtakes the truncate to epoch 3
	truncate(3, 81, 80, false)
	truncate(4, 80, 80, false)
	admit(4, 80, 1, true)
}

// TestPositionBehindKeptState: the first rows say where a session begins, up to
// what is kept, and only they.
func TestPositionBehindKeptState(t *testing.T) {
	t.Parallel()
	for pos, ok := range map[uint32]bool{0: true, 64: true, 192: true, 193: false, 400: false} {
		p := Position{Limit: 500, Kept: 192}
		if got, err := p.Admit(row(0, pos, 10, 0)); got != ok || (err == nil) != ok {
			t.Fatalf("rows at %d: %v, %v", pos, got, err)
		}
		if !ok {
			continue
		}
		if _, err := p.Admit(row(0, pos, 10, 0)); err == nil {
			t.Errorf("rows at %d came twice", pos)
		}
		if got, err := p.Admit(row(0, pos+10, 10, 0)); !got || err != nil || p.Next() != pos+20 {
			t.Errorf("rows behind %d: %v, next %d", pos+10, err, p.Next())
		}
	}
	// A truncate that comes first is the beginning.
	p := Position{Limit: 500, Kept: 192}
	if to, err := p.Truncate(protocol.ControlFrame(protocol.KindTruncate, 0, 1, 0)); to != 0 || err != nil {
		t.Fatal(to, err)
	}
	if _, err := p.Admit(row(1, 64, 10, 0)); err == nil {
		t.Error("rows at 64 behind a truncate to 0")
	}
	// A cancel of the first rows leaves what is kept before them.
	p = Position{Limit: 500, Kept: 192}
	if _, err := p.Admit(row(0, 128, 10, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Cancel(protocol.ControlFrame(protocol.KindCancel, 0, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if to, err := p.Truncate(protocol.ControlFrame(protocol.KindTruncate, 0, 1, 128)); to != 128 || err != nil {
		t.Errorf("back to %d, %v", to, err)
	}
}

func TestWindowBounds(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	ended := make(chan struct{})
	w := NewWindow(100)
	if _, err := w.Acquire(ctx, ended, row(0, 0, 1, 101)); !errors.Is(err, &protocol.Error{Code: protocol.CodeUnsupported}) {
		t.Fatalf("a chunk above the window: %v", err)
	}
	for i := range uint32(2) {
		if ok, err := w.Acquire(ctx, ended, row(0, i, 1, 50)); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	full, cancel := context.WithCancelCause(ctx)
	mark := errors.New("mark")
	cancel(mark)
	if _, err := w.Acquire(full, ended, row(0, 2, 1, 1)); !errors.Is(err, mark) {
		t.Fatalf("full window: %v", err)
	}
	if w.Free(row(0, 2, 1, 1)) {
		t.Fatal("a full window is free")
	}
	if w.Release(row(0, 1, 1, 0)) {
		t.Fatal("an acknowledgement out of order was taken")
	}
	if !w.Release(row(0, 0, 1, 0)) {
		t.Fatal("the acknowledgement was refused")
	}
	if !w.Free(row(0, 2, 1, 50)) || w.Free(row(0, 2, 1, 51)) {
		t.Fatal("the window has 50 bytes of room")
	}
	waiting := make(chan error, 1)
	go func() {
		ok, err := w.Acquire(ctx, ended, row(0, 2, 1, 80))
		if ok {
			err = errors.New("sent into a dead epoch")
		}
		waiting <- err
	}()
	w.Kill(0)
	if w.Free(row(0, 2, 1, 1)) {
		t.Fatal("free for a dead epoch")
	}
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	if !w.Release(row(0, 1, 1, 0)) {
		t.Fatal("a late acknowledgement of a dead epoch was refused")
	}
	for i := range uint32(MaxInFlight) {
		if ok, err := w.Acquire(ctx, ended, row(1, i, 1, 1)); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	close(ended)
	if _, err := w.Acquire(ctx, ended, row(1, 9, 1, 1)); !errors.Is(err, ErrEnded) {
		t.Fatalf("more than %d chunks: %v", MaxInFlight, err)
	}
	if w.Peak() != 100 || w.Pending() != MaxInFlight {
		t.Fatalf("peak %d, pending %d", w.Peak(), w.Pending())
	}
}
