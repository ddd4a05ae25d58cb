// Package pen lets several goroutines write the frames of one byte stream, each
// at once where nothing waits. It starts no goroutine and opens nothing.
//
// engine/seam and engine/stage/worker import it; of our packages it imports
// engine/protocol only.
package pen

import (
	"sync"
	"sync/atomic"

	"neuron/engine/protocol"
)

// Pen writes the frames of one byte stream for several goroutines. Whoever has
// a frame writes it himself when nothing waits and nobody else writes (Try):
// waking the stream's own writer is the largest part of what a small frame
// costs. Else the frame goes to that writer through a queue of the owner's. The
// zero Pen has no stream yet: Try writes nothing.
type Pen struct {
	queued atomic.Int64

	mu   sync.Mutex // held while writing; guards below
	fw   *protocol.FrameWriter
	room func() int // nil: not known
	free int        // of the bytes that room told, those that are left for sure
	over bool       // nothing may be written any more
}

// AtOnce bounds the payload of frames that their sender should write himself:
// a pipe or connection takes them without waiting for the other side.
const AtOnce = 64 << 10

// Use gives the pen its stream. room says how many bytes can be written without
// waiting for the other side; nil where nobody knows. Nothing but the pen writes to
// the stream, so it is asked only when what it told last is used up.
func (p *Pen) Use(fw *protocol.FrameWriter, room func() int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fw, p.room = fw, room
}

// Queue notes a frame that is about to go to the writer's queue; until Unqueue
// nobody goes past it.
func (p *Pen) Queue() { p.queued.Add(1) }

// Unqueue notes that it was written, or never will be.
func (p *Pen) Unqueue() { p.queued.Add(-1) }

// Ready reports whether Try would write n bytes now, without waiting for anybody.
func (p *Pen) Ready(n int) bool {
	if n > AtOnce+protocol.HeaderSize || p.queued.Load() > 0 || !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	if p.fw == nil || p.over || p.room == nil {
		return false
	}
	if p.free < n+extra(n) {
		p.free = p.room()
	}
	return p.free >= n+extra(n)
}

// extra bounds what HTTP and encryption add to n bytes that are written in one
// piece: the frame of a chunk, and a header and a tag for each record.
func extra(n int) int { return 256 + n/64 }

// writeLocked writes frames in one piece.
func (p *Pen) writeLocked(frames ...*protocol.Frame) error {
	n := 0
	for _, f := range frames {
		n += protocol.HeaderSize + len(f.Payload)
	}
	p.free -= n + extra(n)
	return p.fw.Write(frames...)
}

// Try writes the frames in one piece, if it can do so at once and none is
// larger than AtOnce. The error is that of the write, and the last one: the pen
// writes nothing after it.
func (p *Pen) Try(frames ...*protocol.Frame) (bool, error) {
	for _, f := range frames {
		if len(f.Payload) > AtOnce {
			return false, nil
		}
	}
	if p.queued.Load() > 0 || !p.mu.TryLock() {
		return false, nil
	}
	defer p.mu.Unlock()
	if p.fw == nil || p.over {
		return false, nil
	}
	err := p.writeLocked(frames...)
	p.over = err != nil
	return true, err
}

// Write is for the stream's own writer. The pen must have a stream.
func (p *Pen) Write(frames ...*protocol.Frame) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writeLocked(frames...)
}

// Last writes frames and lets nothing follow.
func (p *Pen) Last(frames ...*protocol.Frame) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if len(frames) == 0 {
		return nil
	}
	return p.writeLocked(frames...)
}
