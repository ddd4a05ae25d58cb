// Package probe reads what this computer is and has left: processor, memory,
// disk. The engine's composition, planner and status pages import it; it never
// touches the network or libllama. GPUs are reported by the stage, from ggml's
// own device list.
package probe

import (
	"fmt"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/disk"
	"github.com/shirou/gopsutil/v3/mem"
	"github.com/shirou/gopsutil/v3/process"
)

// Host is what does not change while the engine runs.
type Host struct {
	CPU         string // model name, "" when the system does not say
	Cores       int    // logical
	MemoryBytes int64
}

// Read probes the computer.
func Read() (Host, error) {
	var h Host
	n, err := cpu.Counts(true)
	if err != nil {
		return h, fmt.Errorf("count processors: %w", err)
	}
	h.Cores = n
	if info, err := cpu.Info(); err == nil && len(info) > 0 {
		h.CPU = info[0].ModelName
	}
	m, err := mem.VirtualMemory()
	if err != nil {
		return h, fmt.Errorf("read memory size: %w", err)
	}
	h.MemoryBytes = int64(m.Total)
	return h, nil
}

// String says it in words: "AMD EPYC, 2 cores, 23.5 GB".
func (h Host) String() string {
	s := fmt.Sprintf("%d cores, %.1f GB", h.Cores, float64(h.MemoryBytes)/1e9)
	if h.CPU != "" {
		s = h.CPU + ", " + s
	}
	return s
}

// Memory is the state of main memory.
type Memory struct {
	AvailableBytes int64
	// Pressure is 0 while at least a quarter is available, 1 when nothing is.
	Pressure float64
}

// pressureFrom is the available share at which pressure begins.
const pressureFrom = 0.25

// ReadMemory reads it now.
func ReadMemory() (Memory, error) {
	m, err := mem.VirtualMemory()
	if err != nil {
		return Memory{}, fmt.Errorf("read memory: %w", err)
	}
	share := float64(m.Available) / max(1, float64(m.Total))
	return Memory{AvailableBytes: int64(m.Available), Pressure: min(1, max(0, 1-share/pressureFrom))}, nil
}

// FreeDisk is the free space where path lies, in bytes.
func FreeDisk(path string) (int64, error) {
	u, err := disk.Usage(path)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", path, err)
	}
	return int64(u.Free), nil
}

// OpenFiles counts a process's open files and sockets; 0 where the system does
// not tell.
func OpenFiles(pid int) int {
	// Not process.NewProcess: on Linux it leaves a descriptor of the process
	// open until the next garbage collection, which is what we count.
	n, err := (&process.Process{Pid: int32(pid)}).NumFDs()
	if err != nil {
		return 0
	}
	return int(n)
}
