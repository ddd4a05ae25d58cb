package page

import (
	"time"
)

// least is the time between two copies of a model to the screen.
const least = 100 * time.Millisecond

// Follow copies a model to the screen while a page is shown: update runs on the
// UI goroutine by do, once at first and then after each value of changed, at
// most ten times a second. stop ends it and waits; Follow owns one goroutine
// until then.
func Follow(do func(func()), changed <-chan struct{}, update func()) (stop func()) {
	end := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(least)
		defer tick.Stop()
		for {
			do(update)
			select {
			case <-end:
				return
			case <-tick.C: // not sooner
			}
			select {
			case <-end:
				return
			case <-changed:
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// Following is what a page follows while it is shown. The zero value follows
// nothing. Used on the UI goroutine.
type Following struct{ stops []func() }

// Model follows a view model by its changes.
func (f *Following) Model(e *Env, changed <-chan struct{}, update func()) {
	f.stops = append(f.stops, Follow(e.Do, changed, update))
}

// Link follows the engine's state.
func (f *Following) Link(e *Env, update func()) {
	changed, unwatch := e.Link.Watch()
	f.stops = append(f.stops, Follow(e.Do, changed, update), unwatch)
}

// Stop ends all of it and waits.
func (f *Following) Stop() {
	for _, stop := range f.stops {
		stop()
	}
	f.stops = nil
}
