// Package worker is the stage process: it reads checked frames from one pipe,
// runs them through libllama, and writes what came out to the other. It has no
// sockets and no keys, and ends when its input ends.
//
// It and worker/sampling are the only packages of the engine that import the
// libllama binding. Only the engine's main imports it.
//
// Goroutines: read (only reads), write (pings every second, also during a long
// step, writes what the owner leaves to it, and reads how busy the computer is),
// and the owner (the caller of Run), which alone touches the library.
package worker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/pen"
	"neuron/engine/stage/wire"
)

const (
	inboxSize  = 256
	outboxSize = 256
	pingEvery  = time.Second
)

// Worker is one stage process's state.
type Worker struct {
	log    *slog.Logger
	inbox  chan arrival
	outbox chan *protocol.Frame // what the writer has to write
	pen    pen.Pen              // writes to the parent
	broken chan error           // of the owner's write, for the writer; room for one

	// loads carries the newest reading of foreign load to the owner.
	loads chan float64

	// cancels is where the reader leaves the slots of cancelled sessions, so
	// that a running call can be interrupted before the owner reads its inbox.
	cancels cancelBoard

	// statsMu guards stats, written by the owner, read by the writer.
	statsMu sync.Mutex
	stats   wire.Stats
	// kvBytes and computeBytes are what the pools take; guarded by statsMu.
	kvBytes, computeBytes int64
}

// arrival is a frame and when the reader had it; the owner may be in a call by
// then.
type arrival struct {
	f  *protocol.Frame
	at time.Time
}

// Run serves in until it ends or ctx does. It returns nil when the input ended
// in order.
func Run(ctx context.Context, in io.Reader, out io.Writer, log *slog.Logger) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Worker{
		log:    log,
		inbox:  make(chan arrival, inboxSize),
		outbox: make(chan *protocol.Frame, outboxSize),
		broken: make(chan error, 1),
		loads:  make(chan float64, 1),
	}
	var writer sync.WaitGroup
	writer.Go(func() { w.write(ctx, out, cancel) })
	// The reader is not waited for: its Read ends only when the parent closes
	// the pipe, and then the process does.
	go w.read(ctx, in)

	err := w.serve(ctx)
	close(w.outbox)
	writer.Wait()
	cancel(nil)
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// read only reads. It closes the inbox when the input ends.
func (w *Worker) read(ctx context.Context, in io.Reader) {
	defer close(w.inbox)
	r := protocol.NewFrameReader(in, protocol.PipeLimits())
	for {
		f, err := r.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				w.log.Error("Input pipe broke", "error", err)
			}
			return
		}
		switch f.Kind {
		case protocol.KindCancel:
			w.cancels.post(f.Slot, uint64(f.Epoch)+1)
		case protocol.KindClose:
			w.cancels.post(f.Slot, math.MaxUint64)
		}
		select {
		case w.inbox <- arrival{f, time.Now()}:
		case <-ctx.Done():
			return
		}
	}
}

// write only writes: the first ping, then one with statistics every second, and
// frames that the owner could not write at once or that are large, so that the
// owner computes on meanwhile. It reads foreign load with each ping, and between
// them while the stage computes: an idle one wakes up once for both.
func (w *Worker) write(ctx context.Context, out io.Writer, fail context.CancelCauseFunc) {
	fw := protocol.NewFrameWriter(out, protocol.PipeLimits())
	ping := func(write func(...*protocol.Frame) error) error {
		f, err := protocol.JSONFrame(protocol.KindPing, 0, w.getStats())
		if err != nil {
			return err
		}
		return write(f)
	}
	err := ping(fw.Write)
	w.pen.Use(fw, nil)
	load := w.newForeign()
	defer load.close()
	pace, pinged := pingEvery, time.Now()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for err == nil {
		select {
		case f, ok := <-w.outbox:
			if !ok {
				return
			}
			err = w.pen.Write(f)
			w.pen.Unqueue()
		case now := <-tick.C:
			next := load.sample()
			if next == pingEvery || now.Sub(pinged) > pingEvery-sampleEvery/2 {
				err = ping(w.pen.Write)
				pinged = now
			}
			if next != pace {
				pace = next
				tick.Reset(pace)
			}
		case err = <-w.broken:
		}
	}
	fail(err)
	for range w.outbox { // keep the owner from blocking until it sees ctx
	}
}

// send sends frames to the parent, in one piece where it can.
func (w *Worker) send(frames ...*protocol.Frame) {
	ok, err := w.pen.Try(frames...)
	if err != nil {
		w.broken <- err // room: the pen writes nothing after it
	}
	if ok {
		return
	}
	for _, f := range frames {
		w.pen.Queue()
		w.outbox <- f
	}
}

func (w *Worker) sendJSON(k protocol.Kind, slot uint32, v any) {
	f, err := protocol.JSONFrame(k, slot, v)
	if err != nil {
		f = protocol.ErrorFrame(slot, 0, protocol.AsError(err))
	}
	w.send(f)
}

// serve is the owner: it loads on the first message and then works until the
// input ends.
func (w *Worker) serve(ctx context.Context) error {
	first, ok := w.next(ctx)
	if !ok {
		return nil
	}
	st, err := w.load(first.f)
	if err != nil {
		e := protocol.AsError(err)
		w.log.Error("Stage not loaded", "code", string(e.Code), "error", err)
		w.sendJSON(protocol.KindOpened, 0, wire.Loaded{Error: e})
		return nil
	}
	defer st.close()
	return st.loop(ctx)
}

// next waits for one frame; false when the input has ended.
func (w *Worker) next(ctx context.Context) (arrival, bool) {
	select {
	case a, ok := <-w.inbox:
		return a, ok
	case <-ctx.Done():
		return arrival{}, false
	}
}

func (w *Worker) getStats() wire.Stats {
	w.statsMu.Lock()
	defer w.statsMu.Unlock()
	s := w.stats
	s.KVBytes, s.ComputeBytes = w.kvBytes, w.computeBytes
	return s
}

// setMemory says what the pools take.
func (w *Worker) setMemory(kv, compute int64) {
	w.statsMu.Lock()
	w.kvBytes, w.computeBytes = kv, compute
	w.statsMu.Unlock()
}

func (w *Worker) setStats(s wire.Stats) {
	w.statsMu.Lock()
	w.stats = s
	w.statsMu.Unlock()
}

// cancelBoard tells the owner, during a call, that the call's rows are not
// wanted any more. The reader posts, the owner arms it with the call's only
// slot.
type cancelBoard struct {
	mu    sync.Mutex
	armed uint32
	epoch uint64 // of the armed rows
	abort func(bool)
	// posted holds, per slot, the first epoch whose rows are still wanted.
	posted map[uint32]uint64
}

// arm says that slot's rows are about to run and how to interrupt them; false
// if they were cancelled already.
func (b *cancelBoard) arm(slot, epoch uint32, abort func(bool)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if uint64(epoch) < b.posted[slot] {
		return false
	}
	b.armed, b.epoch, b.abort = slot, uint64(epoch), abort
	abort(false)
	return true
}

// disarm ends what arm began.
func (b *cancelBoard) disarm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.abort != nil {
		b.abort(false)
	}
	b.armed, b.abort = 0, nil
}

// post is called by the reader: rows of epochs before live are void.
func (b *cancelBoard) post(slot uint32, live uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.posted == nil {
		b.posted = map[uint32]uint64{}
	}
	b.posted[slot] = max(b.posted[slot], live)
	if b.abort != nil && b.armed == slot && b.epoch < live {
		b.abort(true)
	}
}

// clear forgets a slot once the owner has handled its close.
func (b *cancelBoard) clear(slot uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.posted, slot)
}
