package chaos

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v3/process"
)

// CPUTime is the processor time that a process has used.
func CPUTime(pid int) (time.Duration, error) {
	t, err := (&process.Process{Pid: int32(pid)}).Times()
	if err != nil {
		return 0, fmt.Errorf("processor time of %d: %w", pid, err)
	}
	return time.Duration((t.User + t.System) * float64(time.Second)), nil
}

// Burn keeps n cores busy until ctx ends, and returns then.
func Burn(ctx context.Context, n int) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			x := uint64(1)
			for ctx.Err() == nil {
				for range 1 << 16 {
					x = x*6364136223846793005 + 1
				}
			}
			sink.Store(n, x) // so that the loop is not removed
		})
	}
	wg.Wait()
}

var sink sync.Map

// FreePort finds a port of loopback that nobody listens on now.
func FreePort() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Figures are a process's open files and sockets, and its memory in RAM in
// bytes.
func Figures(pid int) (files int, resident int64, err error) {
	p := &process.Process{Pid: int32(pid)}
	n, err := p.NumFDs()
	if err != nil {
		return 0, 0, fmt.Errorf("open files of %d: %w", pid, err)
	}
	m, err := p.MemoryInfo()
	if err != nil {
		return 0, 0, fmt.Errorf("memory of %d: %w", pid, err)
	}
	return int(n), int64(m.RSS), nil
}
