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
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	t, err := p.Times()
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
