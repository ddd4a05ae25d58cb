package link

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

const (
	// firstPause and longestPause bound the time between two looks.
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
	// silence is how long an engine may tell nothing before it is asked, and
	// patience how long it may take to answer then.
	silence  = 20 * time.Second
	patience = 5 * time.Second
	// An engine is started mostStarts times within startWindow, and then not any
	// more until Retry: one that ends at once would keep the computer busy. The
	// error then has another code than unavailable, which says that none runs.
	mostStarts  = 4
	startWindow = time.Minute
	// lostFor is how long a lost engine is looked for before none is said to run.
	lostFor = 10 * time.Second
)

func dialEngine(data string) (engine, error) {
	c, err := localapi.Dial(data)
	if err != nil {
		return nil, err // not c: a nil *Client is no nil engine
	}
	return c, nil
}

// hasAddress reports whether the engine's address file is there: an engine that
// ends in order removes it.
func hasAddress(data string) bool {
	_, err := os.Stat(filepath.Join(data, localapi.AddressFile))
	return err == nil
}

// Run looks for the engine and follows it until ctx ends. Call it once; whoever
// calls waits for its end, which takes up to five seconds when an engine is
// there and does not answer.
func (l *Link) Run(ctx context.Context) {
	r := runner{Link: l, wanted: true, pause: firstPause}
	for ctx.Err() == nil {
		e, err := l.dial(l.o.Data)
		if err == nil {
			r.follow(ctx, e)
			continue
		}
		r.missing(ctx, protocol.AsError(err))
		r.wait(ctx)
	}
	l.mu.Lock()
	l.client = nil
	l.mu.Unlock()
}

// runner is what only Run's goroutine knows.
type runner struct {
	*Link
	wanted bool // an engine is to be started when none answers
	starts []time.Time
	pause  time.Duration
}

// follow stays with a connected engine until it is gone.
func (r *runner) follow(ctx context.Context, e engine) {
	defer e.Close()
	events, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	var heard atomic.Int64 // nanoseconds after began
	silent := make(chan error, 1)
	go func() {
		defer cancel()
		silent <- watch(events, e, func() time.Duration { return time.Since(began) - time.Duration(heard.Load()) })
	}()
	first := true
	err := e.Events(events, func(ev localapi.Event) error {
		heard.Store(int64(time.Since(began)))
		if first {
			first = false
			r.connected(e)
		}
		r.set(func(s *State) { s.Phase, s.Event, s.Err = Connected, ev, nil })
		return nil
	})
	cancel()
	if why := <-silent; why != nil {
		err = why
	}
	r.mu.Lock()
	r.client = nil
	r.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case first:
		// It answers and tells no state: pause, or this would spin.
		r.missing(ctx, protocol.AsError(err))
		r.wait(ctx)
	default:
		// One that ends in order was told to: it is not started against the
		// user's will. One that crashed leaves its address behind.
		r.wanted = r.there(r.o.Data)
		// What was asked for while it was there was done: kept, it would start an
		// engine that is stopped an hour later.
		r.forget()
		r.o.Logger.Warn("lost the engine", "crashed", r.wanted, "error", err)
		r.move(Lost, protocol.AsError(err))
	}
}

func (r *runner) connected(e engine) {
	r.forget()
	r.pause, r.wanted = firstPause, true
	c, _ := e.(*localapi.Client) // tests have another one
	r.mu.Lock()
	r.client = c
	r.mu.Unlock()
	r.o.Logger.Info("connected to the engine")
}

// forget drops a Retry that is done.
func (r *runner) forget() {
	select {
	case <-r.retry:
	default:
	}
}

// watch asks a silent engine for a sign of life and returns an error when there
// is none: a frozen process breaks no connection. It returns nil with ctx.
func watch(ctx context.Context, e engine, quiet func() time.Duration) error {
	t := time.NewTimer(silence)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if left := silence - quiet(); left > 0 {
			t.Reset(left)
			continue
		}
		ask, cancel := context.WithTimeout(ctx, patience)
		_, err := e.Status(ask)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return protocol.Errorf(protocol.CodeTimeout, "the engine gives no sign of life: %w", err)
		}
		t.Reset(silence)
	}
}

// missing says that no engine answers, and starts one where it may.
func (r *runner) missing(ctx context.Context, err *protocol.Error) {
	if ctx.Err() != nil {
		return
	}
	if r.o.Start != nil && r.wanted {
		r.start(ctx)
		return
	}
	now := r.State()
	switch {
	case now.Phase == Absent && now.Err != nil && r.o.Start != nil:
		// Why it was given up says more than that there is none.
	case r.there(r.o.Data) && now.Phase == Lost && time.Since(now.Since) < lostFor:
		// It may be on its way back.
	default:
		r.move(Absent, err)
	}
}

// start starts an engine, unless that was done too often.
func (r *runner) start(ctx context.Context) {
	now := time.Now()
	for len(r.starts) > 0 && now.Sub(r.starts[0]) >= startWindow {
		r.starts = r.starts[1:]
	}
	if len(r.starts) >= mostStarts {
		r.wanted = false
		code, text := protocol.CodeInternal, "the engine has ended again and again and is not started any more"
		if last := r.State().Err; last != nil && last.Code != protocol.CodeUnavailable {
			code, text = last.Code, text+": "+last.Message
		}
		r.o.Logger.Error("the engine is not started any more", "starts", len(r.starts))
		r.move(Absent, protocol.Errorf(code, "%s", text))
		return
	}
	r.starts = append(r.starts, now)
	if now := r.State(); now.Phase != Lost {
		r.move(Starting, now.Err)
	}
	if err := r.o.Start(ctx); err != nil && ctx.Err() == nil {
		r.o.Logger.Warn("the engine could not be started", "error", err)
		r.move(Starting, protocol.AsError(err))
		return
	}
	r.pause = firstPause
}

// wait is the pause before the next look; Retry ends it.
func (r *runner) wait(ctx context.Context) {
	t := time.NewTimer(r.pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
		r.pause = min(2*r.pause, longestPause)
	case <-r.retry:
		r.wanted, r.starts, r.pause = true, nil, firstPause
		if r.o.Start != nil {
			r.move(Starting, nil)
		}
	}
}
