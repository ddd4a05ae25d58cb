package pen_test

import (
	"bytes"
	"errors"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/protocol/pen"
)

func TestPen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var p pen.Pen
	ping := protocol.ControlFrame(protocol.KindPing, 0, 0, 0)
	try := func(want bool, frames ...*protocol.Frame) {
		t.Helper()
		if ok, err := p.Try(frames...); ok != want || err != nil {
			t.Fatalf("try: %v, %v; want %v", ok, err, want)
		}
	}
	try(false, ping) // no stream yet
	p.Use(protocol.NewFrameWriter(&out, protocol.PipeLimits()), nil)
	try(true, ping, ping)
	p.Queue()
	try(false, ping) // would go past what waits
	if err := p.Write(ping); err != nil {
		t.Fatal(err)
	}
	p.Unqueue()
	large := &protocol.Frame{Header: protocol.Header{Kind: protocol.KindCall}, Payload: make([]byte, pen.AtOnce+1)}
	try(false, ping, large)
	if err := p.Last(ping); err != nil {
		t.Fatal(err)
	}
	try(false, ping) // nothing follows the last
	if n := out.Len(); n != 4*protocol.HeaderSize {
		t.Errorf("%d bytes written, want 4 headers", n)
	}
}

// A pen is ready only for what it knows to have room, less what it has written
// since, and asks again only when that is used up.
func TestPenReady(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var p pen.Pen
	const n = 4000
	ready := func(want bool, what string) {
		t.Helper()
		if p.Ready(n) != want {
			t.Fatalf("%s: ready is %v", what, !want)
		}
	}
	ready(false, "no stream")
	p.Use(protocol.NewFrameWriter(&out, protocol.PipeLimits()), nil)
	ready(false, "nobody knows the room")
	room, asked := 10000, 0
	p.Use(protocol.NewFrameWriter(&out, protocol.PipeLimits()), func() int { asked++; return room })
	ready(true, "room for two")
	f := &protocol.Frame{Header: protocol.Header{Kind: protocol.KindCall}, Payload: make([]byte, n-protocol.HeaderSize)}
	for range 2 {
		ready(true, "still room")
		if ok, err := p.Try(f); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	room = 100
	ready(false, "used up, and no more")
	room = 10000
	ready(true, "room again")
	if p.Ready(2 * pen.AtOnce) {
		t.Error("ready for what goes to the writer")
	}
	p.Queue()
	ready(false, "something waits")
	p.Unqueue()
	if err := p.Last(); err != nil {
		t.Fatal(err)
	}
	ready(false, "over")
}

// A failed write is the last one: what the stream got of the frame is unknown.
func TestPenStopsAtFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var p pen.Pen
	p.Use(protocol.NewFrameWriter(failing{broken}, protocol.PipeLimits()), nil)
	ping := protocol.ControlFrame(protocol.KindPing, 0, 0, 0)
	if ok, err := p.Try(ping); !ok || !errors.Is(err, broken) {
		t.Fatalf("try: %v, %v", ok, err)
	}
	if ok, err := p.Try(ping); ok || err != nil {
		t.Fatalf("try after a failure: %v, %v", ok, err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
