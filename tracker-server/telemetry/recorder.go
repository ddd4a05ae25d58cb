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

// known is what the intake knows of a live session.
type known struct {
	first, sampled, seen time.Time
	phase                protocol.Phase
	tokens, prefill      int
}

// intake is the state of the goroutine that takes snapshots.
type intake struct {
	r       *Recorder
	live    map[protocol.SessionID]*known
	pending Batch
	writing bool // a batch is with the writer
	minute  Figures
	waiting []chan struct{} // flushes
	swept   time.Time
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

func (in *intake) run(ctx context.Context) {
	r := in.r
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		var full chan<- *Batch
		var out *Batch
		if !in.writing && r.o.Open != nil && in.due() {
			full, out = r.full, &Batch{Samples: in.pending.Samples, Minutes: in.pending.Minutes}
		}
		select {
		case <-ctx.Done():
			for len(r.queue) > 0 {
				in.take(<-r.queue)
			}
			in.endMinute(r.o.Now(), true)
			return
		case s := <-r.queue:
			in.take(s)
		case <-tick.C:
			in.endMinute(r.o.Now(), false)
			in.sweep(r.o.Now())
		case full <- out:
			in.pending, in.writing = Batch{}, true
		case <-r.wrote:
			in.writing = false
			in.answer()
		case ack := <-r.flush:
			for n := len(r.queue); n > 0; n-- {
				in.take(<-r.queue)
			}
			in.waiting = append(in.waiting, ack)
			in.answer()
		}
	}
}

// due says whether the pending batch should go to the writer.
func (in *intake) due() bool { return len(in.pending.Samples) > 0 || len(in.pending.Minutes) > 0 }

// answer ends flushes once nothing is on its way.
func (in *intake) answer() {
	if in.r.o.Open != nil && (in.writing || in.due()) {
		return
	}
	for _, ack := range in.waiting {
		close(ack)
	}
	in.waiting = nil
}

// gap is the time between two samples of a session of some age: one a second
// at first, then one per hundredth of its age, so that a session of two hours
// has about 500.
func gap(age time.Duration) time.Duration { return max(time.Second, age/100) }

// take counts a snapshot, and passes it on.
func (in *intake) take(s *Snapshot) {
	now := in.r.o.Now()
	in.endMinute(now, false)
	k := in.live[s.Session]
	fresh := k == nil
	if fresh {
		k = &known{first: s.At}
		if s.Phase == protocol.PhaseQueued || s.Phase == protocol.PhaseRouting {
			in.minute.Started++
		} else {
			// The tracker was restarted, or the beginning was dropped: what the
			// session did before is not done now.
			k.tokens, k.prefill = s.Tokens, s.PrefillDone
		}
		in.live[s.Session] = k
	}
	if n := s.Tokens - k.tokens; n > 0 {
		in.minute.Tokens += int64(n)
		in.r.tokens.Add(int64(n))
		k.tokens = s.Tokens
	}
	if n := s.PrefillDone - k.prefill; n > 0 {
		in.minute.Prefill += int64(n)
		in.r.prefill.Add(int64(n))
		k.prefill = s.PrefillDone
	}
	newPhase := fresh || s.Phase != k.phase
	sampled := newPhase || s.End != nil || s.At.Sub(k.sampled) >= gap(s.At.Sub(k.first))
	k.phase, k.seen = s.Phase, now
	if s.End != nil {
		in.minute.Ended++
		if s.Phase == protocol.PhaseFailed && s.End.Code != protocol.CodeCancelled && s.End.Finish != protocol.FinishCancelled {
			in.minute.Failed++
		}
		delete(in.live, s.Session)
	}
	pub := s.Public()
	if in.r.o.Sink != nil {
		in.r.o.Sink.Publish(pub, newPhase || s.End != nil)
	}
	if in.r.o.Open == nil || !sampled {
		return
	}
	if len(in.pending.Samples) >= maxPending {
		in.r.drop(1)
		return
	}
	if s.Private && !newPhase && s.End == nil {
		return // nothing that is kept of it has changed
	}
	k.sampled = s.At
	in.pending.Samples = append(in.pending.Samples, Row{Snapshot: pub, NewPhase: newPhase, Sampled: !s.Private})
}

// endMinute closes the minute when it is over; at the end of Run it closes
// what there is of it.
func (in *intake) endMinute(now time.Time, stop bool) {
	at := now.Truncate(time.Minute)
	if at.Equal(in.minute.At) && !stop {
		return
	}
	m := in.minute
	m.Credit, m.Dropped, m.Measured = in.r.credit.Swap(0), in.r.dropped.Swap(0), 1
	if in.r.o.Nodes != nil && !stop {
		m.Nodes = int64(in.r.o.Nodes())
	}
	in.r.ring.put(m)
	in.minute = Figures{At: at}
	if in.r.o.Open != nil && len(in.pending.Minutes) < maxPending {
		in.pending.Minutes = append(in.pending.Minutes, m)
	}
}

// sweep forgets sessions whose end never came.
func (in *intake) sweep(now time.Time) {
	if now.Sub(in.swept) < time.Minute {
		return
	}
	in.swept = now
	for id, k := range in.live {
		if now.Sub(k.seen) > forgetAfter {
			delete(in.live, id)
		}
	}
}

// write is the writer's goroutine. It opens the store, opens it again after it
// failed, and forgets what is old while nothing waits.
func (r *Recorder) write(ctx, running context.Context) {
	var tried time.Time
	loaded := false // afterwards the ring knows more than the store
	open := func() {
		if r.current() != nil || !tried.IsZero() && time.Since(tried) < reopenAfter {
			return
		}
		tried = time.Now()
		// Checking a large file takes its time, for which nobody waits at the end.
		s, err := r.o.Open(running)
		if err != nil {
			if running.Err() == nil {
				r.fail(nil, err, "open the history")
			}
			return
		}
		r.mu.Lock()
		r.store, r.bad = s, nil
		r.mu.Unlock()
		if !loaded {
			loaded = r.load(ctx, s)
		}
	}
	open()
	prune := time.NewTimer(flushEvery)
	defer prune.Stop()
	for {
		select {
		case b, ok := <-r.full:
			if !ok {
				if s := r.current(); s != nil {
					r.mu.Lock()
					r.store = nil
					r.mu.Unlock()
					if err := s.Close(); err != nil {
						r.o.Logger.Warn("close the history", "err", err)
					}
				}
				return
			}
			open()
			r.put(ctx, running, b)
			r.wrote <- b
		case <-prune.C:
			open()
			next := pruneEvery
			if s := r.current(); s != nil {
				more, err := s.Prune(running, r.o.Now().Add(-r.o.Keep))
				switch {
				case running.Err() != nil: // the last batches are still to come
				case err != nil:
					r.fail(s, err, "forget old history")
				case more:
					next = flushEvery
				}
			} else {
				next = reopenAfter
			}
			prune.Reset(next)
		}
	}
}

func (r *Recorder) put(ctx, running context.Context, b *Batch) {
	s := r.current()
	if s == nil {
		r.drop(int64(len(b.Samples)))
		return
	}
	if running.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeWithin)
		defer cancel()
	}
	if err := s.Write(ctx, b); err != nil {
		r.drop(int64(len(b.Samples)))
		r.fail(s, err, "write history")
	}
}

func (r *Recorder) current() Store {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.store
}

// fail closes a store that does not work; it is opened again later.
func (r *Recorder) fail(s Store, err error, doing string) {
	r.o.Logger.Error("telemetry: history is not kept now", "doing", doing, "err", err)
	r.mu.Lock() // waits for readers
	r.store, r.bad = nil, err
	r.mu.Unlock()
	if s != nil {
		if err := s.Close(); err != nil {
			r.o.Logger.Debug("close the history", "err", err)
		}
	}
}

// load fills the ring with the minutes of the last day.
func (r *Recorder) load(ctx context.Context, s Store) bool {
	now := r.o.Now()
	list, err := s.Minutes(ctx, now.Add(-(ringSize-1)*time.Minute).Truncate(time.Minute), now.Add(time.Minute))
	if err != nil {
		r.o.Logger.Warn("read the figures of the last day", "err", err)
		return false
	}
	for i := range list {
		r.ring.fill(list[i])
	}
	return true
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
