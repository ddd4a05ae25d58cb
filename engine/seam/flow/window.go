package flow

import (
	"context"
	"sync"

	"neuron/engine/protocol"
)

// Window is the flow control of one stream: at most limit payload bytes and
// MaxInFlight row frames are on their way without acknowledgement. It is safe
// for concurrent use; one goroutine at a time acquires.
type Window struct {
	limit int64 // bytes; 0 or less: only the number of frames counts

	mu      sync.Mutex
	sent    []flight
	bytes   int64
	largest int64 // the most bytes ever in flight
	live    uint32
	changed chan struct{} // closed and replaced when room was made
}

// flight is a row frame without acknowledgement.
type flight struct {
	epoch, pos uint32
	bytes      int64
}

// NewWindow bounds what is in flight by limit bytes (0 or less: only by the
// number of frames) and MaxInFlight frames.
func NewWindow(limit int64) *Window {
	return &Window{limit: limit, changed: make(chan struct{})}
}

// Acquire waits for room for f. It returns false without an error when f's
// epoch has been cancelled: then f must not be sent.
func (w *Window) Acquire(ctx context.Context, ended <-chan struct{}, f *protocol.Frame) (bool, error) {
	n := int64(len(f.Payload))
	if w.limit > 0 && n > w.limit {
		return false, protocol.Errorf(protocol.CodeUnsupported, "a chunk of %d bytes exceeds the next hop's window of %d", n, w.limit)
	}
	for {
		w.mu.Lock()
		if f.Epoch < w.live {
			w.mu.Unlock()
			return false, nil
		}
		if w.roomLocked(n) {
			w.sent = append(w.sent, flight{epoch: f.Epoch, pos: f.Pos, bytes: n})
			w.bytes += n
			w.largest = max(w.largest, w.bytes)
			w.mu.Unlock()
			return true, nil
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ended:
			return false, ErrEnded
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// roomLocked reports whether a frame of n payload bytes may go.
func (w *Window) roomLocked(n int64) bool {
	return len(w.sent) < MaxInFlight && (w.limit <= 0 || w.bytes+n <= w.limit)
}

// Free reports whether Acquire would have room for f without waiting.
func (w *Window) Free(f *protocol.Frame) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f.Epoch >= w.live && w.roomLocked(int64(len(f.Payload)))
}

// Release takes the acknowledged frame and those before it out. It returns
// false for an acknowledgement of something that was never sent; late ones of
// a cancelled epoch are ignored.
func (w *Window) Release(f *protocol.Frame) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.Epoch < w.live {
		return true
	}
	// A hop executes in order, so the oldest frame is the one to be named.
	if len(w.sent) == 0 || w.sent[0].epoch != f.Epoch || w.sent[0].pos != f.Pos {
		return false
	}
	w.bytes -= w.sent[0].bytes
	w.sent = w.sent[1:]
	w.wakeLocked()
	return true
}

// Kill forgets all frames of epochs up to epoch: a cancel stops their work, so
// their acknowledgements may never come.
func (w *Window) Kill(epoch uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live = max(w.live, epoch+1)
	kept := w.sent[:0]
	for _, s := range w.sent {
		if s.epoch >= w.live {
			kept = append(kept, s)
		} else {
			w.bytes -= s.bytes
		}
	}
	w.sent = kept
	w.wakeLocked()
}

func (w *Window) wakeLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// Peak is the largest number of bytes that were ever in flight.
func (w *Window) Peak() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.largest
}

// Pending is the number of frames in flight.
func (w *Window) Pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sent)
}
