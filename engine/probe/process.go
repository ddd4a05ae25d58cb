package probe

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v3/process"
)

// Resident is the memory of processes that lies in RAM, in bytes.
type Resident struct {
	// Anonymous is the processes' own memory: heap, repacked weights, KV state,
	// compute buffers.
	Anonymous int64
	// File is mapped files, shared memory included; the system can drop its
	// clean pages at any time. 0 where the system does not tell (macOS): all is
	// Anonymous there.
	File int64
}

// ProcessMemory adds up the memory of processes; ended ones count nothing.
func ProcessMemory(pids ...int) Resident {
	var sum Resident
	for _, pid := range pids {
		r, err := readResident(pid)
		if err != nil {
			continue // it has ended
		}
		sum.Anonymous += r.Anonymous
		sum.File += r.File
	}
	return sum
}

func readResident(pid int) (Resident, error) {
	if runtime.GOOS == "linux" {
		// The counters of /proc/PID/statm are rounded per thread; this file is
		// exact (proc_pid_smaps(5)).
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
		if err != nil {
			return Resident{}, fmt.Errorf("memory of process %d: %w", pid, err)
		}
		return parseRollup(string(raw))
	}
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return Resident{}, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	m, err := p.MemoryInfo()
	if err != nil {
		return Resident{}, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	r := Resident{Anonymous: int64(m.RSS)}
	if runtime.GOOS == "windows" {
		// VMS is the private bytes there, committed but not all resident.
		r.Anonymous = int64(min(m.RSS, m.VMS))
		r.File = int64(m.RSS) - r.Anonymous
	}
	return r, nil
}

// parseRollup reads "Rss:  123 kB" and "Anonymous:  45 kB".
func parseRollup(text string) (Resident, error) {
	var rss, anonymous int64 = -1, -1
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil || n < 0 || n > 1<<50 {
			continue
		}
		switch fields[0] {
		case "Rss:":
			rss = n << 10
		case "Anonymous:":
			anonymous = n << 10
		}
	}
	if rss < 0 || anonymous < 0 || anonymous > rss {
		return Resident{}, fmt.Errorf("memory of a process: unexpected text")
	}
	return Resident{Anonymous: anonymous, File: rss - anonymous}, nil
}
