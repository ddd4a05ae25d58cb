package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// clocks are the counters of processor time that LoadSampler reads. An idle
// stage does little else, so the file stays open and a reading is two system
// calls without any memory; by gopsutil it is over thirty.
type clocks struct {
	stat *os.File // /proc/stat
	buf  [512]byte
}

func newClocks() (*clocks, error) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return nil, fmt.Errorf("processor times: %w", err)
	}
	return &clocks{stat: f}, nil
}

func (c *clocks) close() { c.stat.Close() } // it was only read

// read returns the busy seconds of all cores since boot and those of this
// process since its start.
func (c *clocks) read() (busy, own float64, err error) {
	n, err := c.stat.ReadAt(c.buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, fmt.Errorf("processor times: %w", err)
	}
	ticks, ok := busyTicks(c.buf[:n])
	if !ok {
		return 0, 0, fmt.Errorf("processor times: unexpected text %q", c.buf[:min(n, 80)])
	}
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, 0, fmt.Errorf("this process's times: %w", err)
	}
	return float64(ticks) / userHz, float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, nil
}

// userHz is the unit of /proc/stat, the same on all of Go's Linux platforms.
const userHz = 100

// busyTicks adds up the busy times of the first line of /proc/stat, that of all
// cores (proc_stat(5)): "cpu  user nice system idle iowait irq softirq steal
// guest guest_nice". Steal is time that a hypervisor gave to others: a core is
// not ours then. Guests are part of user and nice.
func busyTicks(text []byte) (busy uint64, ok bool) {
	const idle, iowait, fields = 3, 4, 8
	line, _, whole := bytes.Cut(text, []byte("\n"))
	line, found := bytes.CutPrefix(line, []byte("cpu "))
	if !found || !whole {
		return 0, false
	}
	for i := range fields {
		line = bytes.TrimLeft(line, " ")
		n, digits := uint64(0), 0
		for ; digits < len(line) && line[digits] >= '0' && line[digits] <= '9'; digits++ {
			n = n*10 + uint64(line[digits]-'0')
		}
		if line = line[digits:]; digits == 0 || digits > 18 || len(line) > 0 && line[0] != ' ' {
			return 0, false
		}
		if i != idle && i != iowait {
			busy += n
		}
	}
	return busy, true
}
