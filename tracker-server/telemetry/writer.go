package telemetry

import (
	"context"
	"time"
)

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
