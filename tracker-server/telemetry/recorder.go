package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"neuron/engine/protocol"
)

// Options configures a Recorder.
type Options struct {
	// Open opens the store; it is called again after the store failed. Nil: no
	// history is kept, apart from a day of minutes in memory.
	Open func(ctx context.Context) (Store, error)
	// Keep is how long history stays in the store.
	Keep time.Duration
	// Sink gets all snapshots; may be nil.
	Sink Sink
	// Nodes counts the ready nodes; it is called once a minute.
	Nodes  func() int
	Now    func() time.Time
	Logger *slog.Logger
	// Queue is the number of snapshots that may wait; default 4096.
	Queue int
}

const (
	defaultQueue = 4096
	flushEvery   = time.Second
	// gatherFor is about how long snapshots wait for others: one transaction
	// serves them all, and most of the snapshots of a short session.
	gatherFor = 250 * time.Millisecond
	// maxPending bounds what waits for the disk; above it snapshots are dropped.
	maxPending = 8192
	// reopenAfter is the time between two tries to open a store that failed.
	reopenAfter = 10 * time.Second
	pruneEvery  = 10 * time.Minute
	// forgetAfter ends the memory of a session whose end was dropped. The server
	// ends silent sessions earlier.
	forgetAfter = 20 * time.Minute
	closeWithin = 5 * time.Second
)

// Totals count since the start.
type Totals struct {
	Tokens, Prefill, Credit int64
	// Dropped counts snapshots that found the queue full, or no disk.
	Dropped int64
}

// Recorder takes snapshots without ever waiting, and passes them on. Run is
// its one owner of goroutines: an intake, and a writer that alone waits for
// the disk.
type Recorder struct {
	o     Options
	queue chan *Snapshot
	flush chan chan struct{}
	full  chan *Batch   // to the writer
	wrote chan *Batch   // from it; what failed comes back
	done  chan struct{} // closed when Run has returned
	ring  *ring         // has its own lock

	dropped, credit                     atomic.Int64
	tokens, prefill, creditAll, lostAll atomic.Int64

	mu    sync.RWMutex // held by readers for the time of a query
	store Store        // nil: closed, or it failed
	bad   error        // why it failed, for Health
}

// New makes a recorder that does nothing until Run.
func New(o Options) *Recorder {
	if o.Queue == 0 {
		o.Queue = defaultQueue
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Recorder{
		o: o, queue: make(chan *Snapshot, o.Queue), flush: make(chan chan struct{}), done: make(chan struct{}),
		full: make(chan *Batch), wrote: make(chan *Batch), ring: newRing(),
	}
}

// Snapshot hands in a snapshot. It never waits: when the queue is full the
// snapshot is dropped and counted.
func (r *Recorder) Snapshot(s *Snapshot) {
	select {
	case r.queue <- s:
	default:
		r.drop(1)
	}
}

func (r *Recorder) drop(n int64) {
	r.dropped.Add(n)
	r.lostAll.Add(n)
}

// Credit counts credit posted to accounts, in millionths. It never waits.
func (r *Recorder) Credit(micro int64) {
	r.credit.Add(micro)
	r.creditAll.Add(micro)
}

// Totals counts since the start.
func (r *Recorder) Totals() Totals {
	return Totals{Tokens: r.tokens.Load(), Prefill: r.prefill.Load(), Credit: r.creditAll.Load(), Dropped: r.lostAll.Load()}
}

// Failed says why history cannot be kept now, or is nil.
func (r *Recorder) Failed() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.bad
}

// Flush waits until what was handed in before is on disk, or cannot be.
func (r *Recorder) Flush(ctx context.Context) error {
	ack := make(chan struct{})
	select {
	case r.flush <- ack:
	case <-r.done:
		return protocol.Errorf(protocol.CodeShutdown, "the recorder has stopped")
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-ack:
		return nil
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run works until ctx ends, then writes what is left and closes the store. It
// may be called once.
func (r *Recorder) Run(ctx context.Context) {
	defer close(r.done)
	var wg sync.WaitGroup
	if r.o.Open != nil {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r.write(context.WithoutCancel(ctx), ctx)
		}()
	}
	in := &intake{r: r, live: make(map[protocol.SessionID]*known), minute: Figures{At: r.o.Now().Truncate(time.Minute)}, swept: r.o.Now()}
	in.run(ctx)
	if r.o.Open != nil {
		if in.writing {
			<-r.wrote
		}
		if len(in.pending.Samples)+len(in.pending.Minutes) > 0 {
			r.full <- &in.pending
			<-r.wrote
		}
		close(r.full)
	}
	wg.Wait()
}

// errOff is what readers get where no history is kept.
var errOff = protocol.Errorf(protocol.CodeNotFound, "this tracker keeps no history of sessions")

// History returns what is kept of a session: not_found where nothing is,
// unavailable while the store does not work.
func (r *Recorder) History(ctx context.Context, id protocol.SessionID) (*History, error) {
	if r.o.Open == nil {
		return nil, errOff
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.store == nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the history cannot be read now")
	}
	h, err := r.store.History(ctx, id)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, protocol.Errorf(protocol.CodeTimeout, "reading the history took too long")
	case err != nil:
		r.o.Logger.Error("read a history", "err", err)
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the history cannot be read now")
	case h == nil:
		return nil, protocol.Errorf(protocol.CodeNotFound, "no history of session %s", string(id))
	}
	return h, nil
}
