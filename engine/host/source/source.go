// Package source is what the sources of the host's signals have in common.
// Packages under engine/host import it; it imports nothing of ours and asks
// nothing by itself.
package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// ErrNotTold says that this system does not tell, as far as can be seen now: it
// is worth asking again, but not soon. Any other error is a failure.
var ErrNotTold = errors.New("this system does not tell")

// NotTold is ErrNotTold with the reason.
func NotTold(why string) error { return fmt.Errorf("%w: %s", ErrNotTold, why) }

// Source answers one question about the computer.
type Source[T any] interface {
	// Read asks, and returns when ctx ends at the latest. One goroutine at a time
	// calls it. Errors: ErrNotTold, or what went wrong.
	Read(ctx context.Context) (T, error)
	// Name is the part of the system that answers ("GNOME", "X11"), "" while none
	// has. Any goroutine may call it.
	Name() string
	// Close gives back what the source holds; nothing may follow.
	Close() error
}

// Func is a source without connections.
type Func[T any] struct {
	From string // its name
	Ask  func(ctx context.Context) (T, error)
}

// Read implements Source.
func (f Func[T]) Read(ctx context.Context) (T, error) { return f.Ask(ctx) }

// Name implements Source.
func (f Func[T]) Name() string { return f.From }

// Close implements Source.
func (f Func[T]) Close() error { return nil }

// None is a source for systems that do not tell.
func None[T any](why string) Source[T] {
	return Func[T]{Ask: func(context.Context) (zero T, err error) { return zero, NotTold(why) }}
}

// First is the first of several sources that answers. It stays with that one
// until it fails, and tries all in order then.
func First[T any](all ...Source[T]) Source[T] { return &first[T]{all: all} }

type first[T any] struct {
	all []Source[T]

	mu  sync.Mutex
	now Source[T] // the one that answered last; guarded by mu
}

// Read implements Source.
func (f *first[T]) Read(ctx context.Context) (T, error) {
	f.mu.Lock()
	now := f.now
	f.mu.Unlock()
	if now != nil {
		if v, err := now.Read(ctx); err == nil {
			return v, nil
		}
	}
	var failed, untold []error
	for _, s := range f.all {
		v, err := s.Read(ctx)
		if err == nil {
			f.mu.Lock()
			f.now = s
			f.mu.Unlock()
			return v, nil
		}
		if errors.Is(err, ErrNotTold) {
			untold = append(untold, err)
		} else {
			failed = append(failed, err)
		}
	}
	f.mu.Lock()
	f.now = nil
	f.mu.Unlock()
	var zero T
	if len(failed) > 0 {
		return zero, errors.Join(failed...)
	}
	why := make([]string, len(untold))
	for i, err := range untold {
		why[i] = strings.TrimPrefix(err.Error(), ErrNotTold.Error()+": ")
	}
	return zero, NotTold(strings.Join(why, "; "))
}

// Name implements Source.
func (f *first[T]) Name() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		return ""
	}
	return f.now.Name()
}

// Close implements Source.
func (f *first[T]) Close() error {
	errs := make([]error, len(f.all))
	for i, s := range f.all {
		errs[i] = s.Close()
	}
	return errors.Join(errs...)
}
