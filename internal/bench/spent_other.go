//go:build !linux

package bench

import (
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v3/process"
)

// spent is the processor time of a process, all its threads together.
func spent(pid int) (time.Duration, error) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	t, err := p.Times()
	if err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration((t.User + t.System) * float64(time.Second)), nil
}
