// Package load tells how much of this computer other programs use, and which
// programs run. engine/host imports it; it knows no rules.
package load

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"neuron/engine/host/source"
)

// Processor measures the share of all processors that programs of others use:
// the system's busy time less that of our own processes, since the call before.
// own are the ids of our child processes now; this process counts by itself.
//
// The first answer is of a short time that it waits for. A child that ended
// between two calls counts as another's program once.
func Processor(own func() []int) source.Source[float64] {
	return &processor{own: own, system: busyTime, process: processTime, wall: time.Now, cores: runtime.NumCPU()}
}

// firstSpan is what the first answer waits for, and the shortest time that says
// something: clocks of processors count in hundredths of a second.
const firstSpan = 300 * time.Millisecond

type processor struct {
	own     func() []int
	system  func() (float64, error)        // busy seconds of all processors, since boot
	process func(pid int) (float64, error) // seconds of a process
	wall    func() time.Time
	cores   int

	busy float64
	used map[int]float64
	at   time.Time
	last float64
}

// Name implements source.Source.
func (p *processor) Name() string { return "processor times" }

// Close implements source.Source.
func (p *processor) Close() error { return nil }

// Read implements source.Source.
func (p *processor) Read(ctx context.Context) (float64, error) {
	if p.at.IsZero() {
		if err := p.look(); err != nil {
			return 0, err
		}
		timer := time.NewTimer(firstSpan)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("processor times: %w", ctx.Err())
		}
	} else if p.wall().Sub(p.at) < firstSpan {
		return p.last, nil
	}
	busy, used, at := p.busy, p.used, p.at
	if err := p.look(); err != nil {
		return 0, err
	}
	spent := p.busy - busy
	for pid, now := range p.used {
		if before, ok := used[pid]; ok {
			spent -= max(0, now-before)
		} else {
			spent -= now // a child that has begun since
		}
	}
	all := p.at.Sub(at).Seconds() * float64(p.cores)
	if all <= 0 {
		p.at = time.Time{}
		return 0, fmt.Errorf("processor times: the clock stands")
	}
	p.last = min(100, max(0, 100*spent/all))
	return p.last, nil
}

// look takes a reading.
func (p *processor) look() error {
	busy, err := p.system()
	if err != nil {
		p.at = time.Time{}
		return err
	}
	used := map[int]float64{}
	for _, pid := range append(p.own(), os.Getpid()) {
		// A child that has just ended cannot be asked.
		if t, err := p.process(pid); err == nil {
			used[pid] = t
		}
	}
	p.busy, p.used, p.at = busy, used, p.wall()
	return nil
}
