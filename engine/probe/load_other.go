//go:build !linux

package probe

import (
	"fmt"
	"os"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/process"
)

// clocks are the counters of processor time that LoadSampler reads.
type clocks struct{ self *process.Process }

func newClocks() (*clocks, error) {
	p, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("this process's times: %w", err)
	}
	return &clocks{p}, nil
}

func (c *clocks) close() {}

// read returns the busy seconds of all cores since boot and those of this
// process since its start.
func (c *clocks) read() (busy, own float64, err error) {
	all, err := cpu.Times(false)
	if err != nil {
		return 0, 0, fmt.Errorf("processor times: %w", err)
	}
	if len(all) == 0 {
		return 0, 0, fmt.Errorf("processor times: the system reports none")
	}
	t, err := c.self.Times()
	if err != nil {
		return 0, 0, fmt.Errorf("this process's times: %w", err)
	}
	return all[0].User + all[0].System + all[0].Nice + all[0].Irq + all[0].Softirq, t.User + t.System, nil
}
