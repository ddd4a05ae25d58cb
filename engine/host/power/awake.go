package power

import (
	"context"
	"errors"
	"sync"
)

// Awake keeps the computer from going to sleep by itself while it is on. The
// screen may go dark, and closing the lid still works. Any goroutine may use it.
type Awake struct {
	hold func(ctx context.Context) (release func() error, err error)

	mu      sync.Mutex
	release func() error // nil while off; guarded by mu
}

// On reports whether the system was told to stay awake.
func (a *Awake) On() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.release != nil
}

// Set turns it on or off; what is so already is not told again. On an error
// nothing has changed when turning on, and it is off when turning off. Errors:
// source.ErrNotTold where the system has no such thing.
func (a *Awake) Set(ctx context.Context, on bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if on == (a.release != nil) {
		return nil
	}
	if !on {
		release := a.release
		a.release = nil
		return release()
	}
	release, err := a.hold(ctx)
	if err == nil && release == nil {
		err = errors.New("nothing to release")
	}
	if err != nil {
		return err
	}
	a.release = release
	return nil
}

// Close turns it off.
func (a *Awake) Close() error { return a.Set(context.Background(), false) }

// why is what the system shows of us.
const why = "Neuron answers for others"
