package lowprio

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// nice leaves a hundredth of a busy core to the work, and all of an idle one.
const nice = 19

func lowerThread() {
	// May be refused in a container; then the work runs as it is.
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), nice)
}

// lowerProcess lowers every thread that there is; threads that they start
// later inherit it. A thread that appears between two looks was started by one
// of them, so looking until nothing is new finds all.
func lowerProcess() error {
	seen := map[int]bool{}
	for {
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		fresh := false
		for _, e := range list {
			tid, err := strconv.Atoi(e.Name())
			if err != nil || seen[tid] {
				continue
			}
			seen[tid], fresh = true, true
			if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("lower the priority: %w", err)
			}
		}
		if !fresh {
			return nil
		}
	}
}
