package probe

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/process"
)

// LoadSampler measures how many cores other programs keep busy: the system's
// busy time less that of this process, between two calls. Other stages of the
// same computer count as others, since they compete for the same cores. One
// goroutine uses it.
type LoadSampler struct {
	self *process.Process
	busy float64 // seconds of all cores, since boot
	own  float64 // seconds of this process
	at   time.Time
}

// NewLoadSampler takes the first reading.
func NewLoadSampler() (*LoadSampler, error) {
	p, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("this process's times: %w", err)
	}
	s := &LoadSampler{self: p}
	_, err = s.Foreign()
	return s, err
}

// Foreign is the number of cores, 0 to the number of all, that other programs
// kept busy on average since the last call.
func (s *LoadSampler) Foreign() (float64, error) {
	all, err := cpu.Times(false)
	if err != nil {
		return 0, fmt.Errorf("processor times: %w", err)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("processor times: the system reports none")
	}
	t, err := s.self.Times()
	if err != nil {
		return 0, fmt.Errorf("this process's times: %w", err)
	}
	// Steal is time that a hypervisor gave to others: a core is not ours then.
	busy := all[0].User + all[0].System + all[0].Nice + all[0].Irq + all[0].Softirq + all[0].Steal
	own := t.User + t.System
	now := time.Now()
	wall := now.Sub(s.at).Seconds()
	cores := 0.0
	if !s.at.IsZero() && wall > 0 {
		cores = ((busy - s.busy) - (own - s.own)) / wall
	}
	s.busy, s.own, s.at = busy, own, now
	return min(max(0, cores), float64(runtime.NumCPU())), nil
}
