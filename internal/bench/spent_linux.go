package bench

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// spent is the processor time of a process, all its threads together. The
// kernel's clock of the process counts nanoseconds (clock_getcpuclockid(3));
// /proc/PID/stat rounds down two times to 10 ms, /proc/PID/schedstat is the
// first thread alone.
func spent(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED of the whole process
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
