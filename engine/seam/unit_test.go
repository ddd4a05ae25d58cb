package seam

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"neuron/engine/protocol"
)

func row(epoch, pos, rows uint32, bytes int) *protocol.Frame {
	return &protocol.Frame{Header: protocol.Header{Kind: protocol.KindPrefill, Epoch: epoch, Pos: pos, Rows: rows}, Payload: make([]byte, bytes)}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	p := position{limit: 100}
	admit := func(epoch, pos, rows uint32, want bool) {
		t.Helper()
		if ok, err := p.admit(row(epoch, pos, rows, 0)); err != nil || ok != want {
			t.Fatalf("admit %d@%d: %v, %v; want %v", pos, epoch, ok, err, want)
		}
	}
	truncate := func(epoch, pos, want uint32, fails bool) {
		t.Helper()
		got, err := p.truncate(protocol.ControlFrame(protocol.KindTruncate, 0, epoch, pos))
		if (err != nil) != fails || err == nil && got != want {
			t.Fatalf("truncate %d@%d: %d, %v", pos, epoch, got, err)
		}
	}
	cancel := func(epoch uint32, want bool) {
		t.Helper()
		if ok, err := p.cancel(protocol.ControlFrame(protocol.KindCancel, 0, epoch, 0)); err != nil || ok != want {
			t.Fatalf("cancel %d: %v, %v", epoch, ok, err)
		}
	}
	admit(0, 0, 64, true)
	admit(0, 64, 20, true)
	p.executed(0, 64)
	truncate(1, 85, 0, true) // beyond the rows
	truncate(1, 80, 80, false)
	admit(0, 84, 1, false) // old epoch
	p.executed(0, 84)      // late: counts up to the truncate
	if p.done != 80 {
		t.Fatalf("done %d, want 80", p.done)
	}
	admit(1, 80, 20, true)
	if _, err := p.admit(row(1, 100, 1, 0)); !isCode(err, protocol.CodeContextExceeded) {
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

func TestWindowBounds(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	ended := make(chan struct{})
	w := newWindow(100)
	if _, err := w.acquire(ctx, ended, row(0, 0, 1, 101)); !isCode(err, protocol.CodeUnsupported) {
		t.Fatalf("a chunk above the window: %v", err)
	}
	for i := range uint32(2) {
		if ok, err := w.acquire(ctx, ended, row(0, i, 1, 50)); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	full, cancel := context.WithCancelCause(ctx)
	mark := errors.New("mark")
	cancel(mark)
	if _, err := w.acquire(full, ended, row(0, 2, 1, 1)); !errors.Is(err, mark) {
		t.Fatalf("full window: %v", err)
	}
	if w.release(row(0, 1, 1, 0)) {
		t.Fatal("an acknowledgement out of order was taken")
	}
	if !w.release(row(0, 0, 1, 0)) {
		t.Fatal("the acknowledgement was refused")
	}
	waiting := make(chan error, 1)
	go func() {
		ok, err := w.acquire(ctx, ended, row(0, 2, 1, 80))
		if ok {
			err = errors.New("sent into a dead epoch")
		}
		waiting <- err
	}()
	w.kill(0)
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	if !w.release(row(0, 1, 1, 0)) {
		t.Fatal("a late acknowledgement of a dead epoch was refused")
	}
	for i := range uint32(maxInFlight) {
		if ok, err := w.acquire(ctx, ended, row(1, i, 1, 1)); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	close(ended)
	if _, err := w.acquire(ctx, ended, row(1, 9, 1, 1)); !errors.Is(err, errStreamEnded) {
		t.Fatalf("more than %d chunks: %v", maxInFlight, err)
	}
	if w.peak() != 100 || w.pending() != maxInFlight {
		t.Fatalf("peak %d, pending %d", w.peak(), w.pending())
	}
}

func TestInboxCancelOvertakes(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	b := newInbox(2, 1000)
	b.push(ctx, row(0, 0, 1, 10))
	_, hand, done, _ := b.pop(ctx)
	b.push(ctx, row(0, 1, 1, 10))
	b.push(ctx, protocol.ControlFrame(protocol.KindTruncate, 0, 1, 0))
	pushed := make(chan bool, 1)
	go func() { pushed <- b.push(ctx, protocol.ControlFrame(protocol.KindCancel, 0, 0, 0)) }()
	<-hand.Done() // the row in hand is interrupted though the inbox was full
	done()
	if !<-pushed {
		t.Fatal("cancel was not taken")
	}
	for _, want := range []protocol.Kind{protocol.KindTruncate, protocol.KindCancel} {
		f, hand, done, ok := b.pop(ctx)
		if !ok || f.Kind != want || hand.Err() != nil {
			t.Fatalf("got %v, want %s", f, want)
		}
		done()
	}
	stop()
	if _, _, _, ok := b.pop(ctx); ok {
		t.Fatal("pop after the end")
	}
}

func FuzzReadError(f *testing.F) {
	f.Add(`{"code":"hop_lost","message":"m","hop":3,"phase":"decode"}`)
	f.Add(`{"code":"","message":1}`)
	f.Fuzz(func(t *testing.T, body string) {
		e := readError(&http.Response{
			StatusCode: 500, Header: http.Header{"Content-Type": {contentJSON}}, Body: io.NopCloser(strings.NewReader(body)),
		})
		if e == nil || e.Code == "" || len(e.Code) > 64 || len(e.Message) > maxErrorText {
			t.Fatalf("error %+v", e)
		}
		if e.Hop != nil && (*e.Hop < 0 || *e.Hop >= protocol.MaxHops) {
			t.Fatalf("hop %d", *e.Hop)
		}
	})
}
