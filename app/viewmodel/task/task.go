// Package task runs what view models ask of the engine without keeping the
// screen waiting. View models import it; it knows nothing of what is asked.
package task

import (
	"context"
	"sync"
	"time"
)

// Patience is how long one question to the engine may take. The engine asks the
// tracker for some of them.
const Patience = 20 * time.Second

// Group owns the goroutines of one model, and tells that the model has changed.
type Group struct {
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	changed chan struct{}

	mu     sync.Mutex
	closed bool // guarded by mu
}

// New makes a group; Close ends it.
func New() *Group {
	ctx, cancel := context.WithCancel(context.Background())
	return &Group{ctx: ctx, cancel: cancel, changed: make(chan struct{}, 1)}
}

// Go runs f, whose ctx ends after Patience or with Close. After Close it does
// nothing.
func (g *Group) Go(f func(ctx context.Context)) {
	g.Stay(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, Patience)
		defer cancel()
		f(ctx)
	})
}

// Stay is Go for what runs until Close.
func (g *Group) Stay(f func(ctx context.Context)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.wg.Go(func() { f(g.ctx) })
}

// Repeat runs f now and then again and again, each time after every, until stop
// or Close; both end the ctx of the f that runs. It does not wait for f.
func (g *Group) Repeat(every time.Duration, f func(ctx context.Context)) (stop context.CancelFunc) {
	ctx, cancel := context.WithCancel(g.ctx)
	g.Stay(func(context.Context) {
		defer cancel()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			f(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return cancel
}

// Tell says that the model has changed.
func (g *Group) Tell() {
	select {
	case g.changed <- struct{}{}:
	default: // the last change has not been seen yet
	}
}

// Changed gives a value after each change; capacity 1, one reader.
func (g *Group) Changed() <-chan struct{} { return g.changed }

// Close ends all goroutines and waits for them.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	g.wg.Wait()
}
