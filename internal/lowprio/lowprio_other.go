//go:build !linux && !windows

package lowprio

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// nice is the lowest priority of a process.
const nice = 19

// lowerThread does nothing: a priority belongs to the process here.
func lowerThread() {}

func lowerProcess() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		return fmt.Errorf("lower the priority: %w", err)
	}
	return nil
}
