package seam

import (
	"testing"
	"testing/synctest"

	"neuron/engine/protocol"
)

// The drainer gets what could not be handled at once, in order, and nothing goes
// past it or past what it has in hand.
func TestOutboxKeepsTheOrder(t *testing.T) {
	t.Parallel()
	b := newOutbox()
	var at []uint32
	able := false
	b.use(func(f *protocol.Frame) bool {
		if able {
			at = append(at, f.Pos)
		}
		return able
	})
	b.deliver(row(0, 0, 1, 0)) // could wait for a neighbour
	able = true
	b.deliver(row(0, 1, 1, 0)) // has to queue behind it
	f, ok := b.pop()
	if !ok || f.Pos != 0 || len(at) != 0 {
		t.Fatalf("%v, %v, at once: %v", f, ok, at)
	}
	b.done()
	f, _ = b.pop()
	b.deliver(row(0, 2, 1, 0)) // behind the one in hand
	if f.Pos != 1 || len(at) != 0 {
		t.Fatalf("%v, at once: %v", f, at)
	}
	b.done()
	f, _ = b.pop()
	b.done()
	b.deliver(row(0, 3, 1, 0))
	if f.Pos != 2 || len(at) != 1 || at[0] != 3 {
		t.Fatalf("%v, at once: %v", f, at)
	}
	b.kick()
	b.deliver(row(0, 4, 1, 0)) // a truncate goes first
	if f, ok := b.pop(); !ok || f == nil || f.Pos != 4 || len(at) != 1 {
		t.Fatalf("%v, %v, at once: %v", f, ok, at)
	}
	b.done()
	if f, ok := b.pop(); !ok || f != nil {
		t.Fatalf("%v, %v, want a kick", f, ok)
	}
	b.done()
	b.deliver(nil)
	if f, ok := b.pop(); ok {
		t.Fatalf("%v behind the end", f)
	}
}

// While one frame is handled on the stage's goroutine the drainer waits, and it
// learns of what came meanwhile.
func TestOutboxDrainerWaitsItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newOutbox()
		handling, handled := make(chan bool), make(chan bool)
		b.use(func(*protocol.Frame) bool {
			handling <- true
			return <-handled
		})
		popped := make(chan bool, 1)
		go func() {
			f, ok := b.pop()
			popped <- ok && f == nil
		}()
		go b.deliver(row(0, 0, 1, 0))
		<-handling
		b.kick()
		synctest.Wait()
		if len(popped) > 0 {
			t.Error("the drainer did not wait")
		}
		handled <- true
		if !<-popped {
			t.Error("the kick is lost")
		}
	})
}

// A stage that produces without end ends the session, and no more is kept.
func TestOutboxIsBounded(t *testing.T) {
	t.Parallel()
	b := newOutbox()
	for i := range uint32(2 * outboxFrames) {
		b.deliver(row(0, i, 1, 0))
	}
	b.deliver(nil)
	n := 0
	var last *protocol.Frame
	for {
		f, ok := b.pop()
		if !ok {
			break
		}
		n, last = n+1, f
		b.done()
	}
	if n != outboxFrames+1 || last.Kind != protocol.KindError || last.Err().Code != protocol.CodeStageOverloaded {
		t.Errorf("%d frames, the last one %v", n, last)
	}
}
