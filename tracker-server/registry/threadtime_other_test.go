//go:build !linux

package registry

import "time"

var began = time.Now()

// threadTime is the time on the clock where no other is known.
func threadTime() time.Duration { return time.Since(began) }
