package link

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// fake is an engine in a bubble of synctest, where no sockets are.
type fake struct {
	mu     sync.Mutex
	frozen bool          // guarded by mu
	asked  int           // guarded by mu
	gone   chan struct{} // closed: the connection breaks
}

func (f *fake) Close() {}

func (f *fake) Events(ctx context.Context, tell func(localapi.Event) error) error {
	if err := tell(localapi.Event{Status: localapi.Status{Version: "fake"}}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-f.gone:
		return errGone
	}
}

func (f *fake) Status(ctx context.Context) (*localapi.Status, error) {
	f.mu.Lock()
	f.asked++
	frozen := f.frozen
	f.mu.Unlock()
	if frozen {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &localapi.Status{}, nil
}

// bubble runs l in a bubble and ends it with the test.
func bubble(t *testing.T, l *Link, test func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	test()
	cancel()
	<-done
}

func TestStartsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var starts []time.Time
		l := New(Options{Start: func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, time.Now())
			return protocol.Errorf(protocol.CodeDiskFull, "no room")
		}})
		l.dial = func(string) (engine, error) { return nil, protocol.Errorf(protocol.CodeUnavailable, "none") }
		l.there = func(string) bool { return false }
		bubble(t, l, func() {
			time.Sleep(time.Hour)
			synctest.Wait()
			s := l.State()
			if s.Phase != Absent || s.Err == nil || s.Err.Code != protocol.CodeDiskFull || s.Err.Message != "the engine has ended again and again and is not started any more: no room" {
				t.Errorf("%s, %v", s.Phase, s.Err)
			}
			mu.Lock()
			if len(starts) != mostStarts || starts[mostStarts-1].Sub(starts[0]) >= startWindow {
				t.Errorf("starts: %v", starts)
			}
			mu.Unlock()
			l.Retry()
			time.Sleep(time.Minute)
			synctest.Wait()
			mu.Lock()
			if len(starts) != 2*mostStarts {
				t.Errorf("%d starts after another try", len(starts))
			}
			mu.Unlock()
		})
	})
}

// An engine that answers and dies at once is not started for ever either.
func TestCrashLoopEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		starts, up := 0, false
		l := New(Options{Start: func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			starts++
			up = true
			return nil
		}})
		l.there = func(string) bool { return true }
		l.dial = func(string) (engine, error) {
			mu.Lock()
			defer mu.Unlock()
			if !up {
				return nil, protocol.Errorf(protocol.CodeUnavailable, "none")
			}
			up = false
			f := &fake{gone: make(chan struct{})}
			close(f.gone)
			return f, nil
		}
		bubble(t, l, func() {
			time.Sleep(time.Hour)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if s := l.State(); starts != mostStarts || s.Phase != Absent || s.Err == nil || s.Err.Code == protocol.CodeUnavailable {
				t.Errorf("%d starts, %+v", starts, s)
			}
		})
	})
}

// One crash an hour is healed each time.
func TestRareCrashesAreHealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var now *fake
		starts := 0
		l := New(Options{Start: func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			starts++
			now = &fake{gone: make(chan struct{})}
			return nil
		}})
		l.there = func(string) bool { return true }
		l.dial = func(string) (engine, error) {
			mu.Lock()
			defer mu.Unlock()
			if now == nil {
				return nil, protocol.Errorf(protocol.CodeUnavailable, "none")
			}
			return now, nil
		}
		bubble(t, l, func() {
			for i := range 10 {
				time.Sleep(time.Hour)
				synctest.Wait()
				if s := l.State(); s.Phase != Connected {
					t.Fatalf("hour %d: %+v", i, s)
				}
				mu.Lock()
				close(now.gone)
				now = nil
				mu.Unlock()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if starts != 11 {
				t.Errorf("%d starts", starts)
			}
		})
	})
}

// A frozen engine breaks no connection; it is noticed all the same.
func TestFrozenEngineIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{gone: make(chan struct{})}
		l := New(Options{})
		l.there = func(string) bool { return true }
		l.dial = func(string) (engine, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.frozen {
				return nil, protocol.Errorf(protocol.CodeUnavailable, "none")
			}
			return f, nil
		}
		bubble(t, l, func() {
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			f.mu.Lock()
			if f.asked < 20 || f.asked > 40 {
				t.Errorf("a quiet engine was asked %d times in ten minutes", f.asked)
			}
			f.frozen = true
			f.mu.Unlock()
			if s := l.State(); s.Phase != Connected {
				t.Fatalf("a quiet engine counts as %s", s.Phase)
			}
			time.Sleep(silence + patience + time.Second)
			synctest.Wait()
			if s := l.State(); s.Phase != Lost || s.Err == nil || s.Err.Code != protocol.CodeTimeout {
				t.Errorf("%s, %v", s.Phase, s.Err)
			}
			time.Sleep(lostFor + longestPause)
			synctest.Wait()
			if s := l.State(); s.Phase != Absent {
				t.Errorf("for ever %s", s.Phase)
			}
			f.mu.Lock()
			f.frozen = false
			f.mu.Unlock()
			time.Sleep(longestPause + time.Second)
			synctest.Wait()
			if s := l.State(); s.Phase != Connected || s.Err != nil {
				t.Errorf("back, and %s, %v", s.Phase, s.Err)
			}
		})
	})
}

// An engine that takes connections and tells no state does not keep the
// processor busy.
func TestEngineWithoutEventsIsNotAskedWithoutPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		dials := 0
		l := New(Options{})
		l.dial = func(string) (engine, error) {
			mu.Lock()
			defer mu.Unlock()
			dials++
			return mute{}, nil
		}
		bubble(t, l, func() {
			time.Sleep(time.Minute)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if dials > 60 {
				t.Errorf("%d times in a minute", dials)
			}
			if s := l.State(); s.Phase == Connected {
				t.Error("connected without a state")
			}
		})
	})
}

type mute struct{}

func (mute) Close()                                                   {}
func (mute) Events(context.Context, func(localapi.Event) error) error { return errGone }
func (mute) Status(context.Context) (*localapi.Status, error)         { return nil, errGone }
