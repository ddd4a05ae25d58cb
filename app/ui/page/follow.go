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
