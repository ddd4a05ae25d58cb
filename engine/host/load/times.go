//go:build !darwin

package load

import (
	"fmt"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/process"
)

// busyTime is what programs have used. What a hypervisor gave to other machines
// is no program of this computer.
func busyTime() (float64, error) {
	all, err := cpu.Times(false)
	if err != nil {
		return 0, fmt.Errorf("processor times: %w", err)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("processor times: the system reports none")
	}
	t := all[0]
	return t.User + t.System + t.Nice + t.Irq + t.Softirq, nil
}

func processTime(pid int) (float64, error) {
	// Not process.NewProcess, which leaves a descriptor of the process open.
	t, err := (&process.Process{Pid: int32(pid)}).Times()
	if err != nil {
		return 0, fmt.Errorf("times of process %d: %w", pid, err)
	}
	return t.User + t.System, nil
}
