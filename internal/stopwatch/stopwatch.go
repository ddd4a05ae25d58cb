// Package stopwatch times short work. Go's clock moves in steps of 0.5 to 16 ms
// on Windows (golang.org/issue/44343), which is longer than a step of a stage;
// this one does not. It knows nothing of what is timed; any package may import
// it. For points in time and for waiting, package time is right.
package stopwatch

import "time"

// Watch is a started stopwatch. The zero value was never started.
type Watch struct{ at time.Duration }

// Start starts one.
func Start() Watch { return Watch{at: now()} }

// Elapsed is the time since Start, at least 0.
func (w Watch) Elapsed() time.Duration { return max(0, now()-w.at) }
