//go:build !windows

package stopwatch

import "time"

var began = time.Now()

// now is monotonic time since some fixed point.
func now() time.Duration { return time.Since(began) }
