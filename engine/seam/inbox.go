package seam

import (
	"context"
	"sync"

	"neuron/engine/protocol"
)

// inbox is the bounded queue between the goroutine that reads a session's
// stream and the one that feeds the stage. A previous hop that keeps to its
// window never fills it; one that does not is no longer read from.
//
// A cancel overtakes: it removes the rows that wait and interrupts the row that
// is being handed to the stage.
type inbox struct {
	maxFrames int
	maxBytes  int64

	mu           sync.Mutex // guards below
	frames       []*protocol.Frame
	bytes        int64
	busy         bool               // a frame is being handed to the stage
	handing      context.CancelFunc // interrupts the row in hand, or nil
	handingEpoch uint32
	changed      chan struct{} // closed and replaced at every change
}

func newInbox(maxFrames int, maxBytes int64) *inbox {
	return &inbox{maxFrames: maxFrames, maxBytes: maxBytes, changed: make(chan struct{})}
}

// push appends f and waits for room first; false when ctx has ended.
func (b *inbox) push(ctx context.Context, f *protocol.Frame) bool {
	for {
		b.mu.Lock()
		if f.Kind == protocol.KindCancel {
			b.cancelLocked(f.Epoch)
		}
		if len(b.frames) == 0 || len(b.frames) < b.maxFrames && b.bytes+int64(len(f.Payload)) <= b.maxBytes {
			b.frames = append(b.frames, f)
			b.bytes += int64(len(f.Payload))
			b.wakeLocked()
			b.mu.Unlock()
			return true
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (b *inbox) cancelLocked(epoch uint32) {
	kept := b.frames[:0]
	for _, f := range b.frames {
		if f.Kind.Rows() && f.Epoch <= epoch {
			b.bytes -= int64(len(f.Payload))
			continue
		}
		kept = append(kept, f)
	}
	clear(b.frames[len(kept):])
	b.frames = kept
	if b.handing != nil && b.handingEpoch <= epoch {
		b.handing()
	}
	b.wakeLocked()
}

// pass reports whether a frame may go past the queue, since nothing waits or is
// in hand; passed must be called when it was handed to the stage.
func (b *inbox) pass() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy || len(b.frames) > 0 {
		return false
	}
	b.busy = true
	return true
}

func (b *inbox) passed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = false
	if len(b.frames) > 0 {
		b.wakeLocked()
	}
}

// pop takes the oldest frame. hand is the context for handing it to the stage:
// it ends with ctx, and for rows also when a cancel came. done must be called
// when that is over. ok is false when ctx has ended.
func (b *inbox) pop(ctx context.Context) (f *protocol.Frame, hand context.Context, done func(), ok bool) {
	for {
		if ctx.Err() != nil {
			return nil, nil, nil, false
		}
		b.mu.Lock()
		if len(b.frames) > 0 && !b.busy {
			f = b.frames[0]
			b.frames[0] = nil
			b.frames = b.frames[1:]
			b.bytes -= int64(len(f.Payload))
			hand, cancel := context.WithCancel(ctx)
			if f.Kind.Rows() {
				b.handing, b.handingEpoch = cancel, f.Epoch
			}
			b.busy = true
			b.wakeLocked()
			b.mu.Unlock()
			return f, hand, func() {
				b.mu.Lock()
				b.busy, b.handing = false, nil
				b.mu.Unlock()
				cancel()
			}, true
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (b *inbox) wakeLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}
