// Package lowprio runs work that must not slow a stage down (hashing,
// downloads) at low scheduling priority. Any package may import it; it knows
// nothing of the work.
//
// Linux has priorities of threads, and so does Windows; on macOS and other
// systems only Process works, and Do runs its function as it is.
package lowprio

import (
	"runtime"
)

// Do runs f on a thread of low priority and waits for it. The thread ends with
// f, since its priority cannot be raised again without rights; goroutines that
// f starts run on other threads, so f calls Do for them too. The error is f's:
// where the priority cannot be lowered, f runs all the same.
func Do(f func() error) error {
	done := make(chan error, 1)
	panicked := make(chan any, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		defer func() {
			if p := recover(); p != nil {
				panicked <- p
			}
		}()
		lowerThread()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case p := <-panicked:
		panic(p) // in the caller's goroutine, whose owner may know what to do
	}
}

// Process lowers the priority of the whole process, and of what it starts,
// for good. It is called first thing in main, while few threads exist: on
// Linux a priority belongs to a thread, and new ones take it over.
func Process() error { return lowerProcess() }
