//go:build unix

package layers

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what this process has computed so far. One thread computes here, so
// the difference over a call is its time without the turns of other programs.
func cpuTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
