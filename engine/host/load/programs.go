package load

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shirou/gopsutil/v3/process"
)

// Programs looks for programs by name. Names of processes are remembered for a
// minute, so that a look costs little more than the list of their numbers. One
// goroutine at a time uses it.
type Programs struct {
	key  func(string) string
	list func(ctx context.Context) ([]int32, error)
	name func(ctx context.Context, pid int32) (string, error)
	now  func() time.Time

	names map[int32]string
	since time.Time
}

// forget is how long a name is remembered: a process can become another program.
const forget = time.Minute

// NewPrograms compares names in the form that key makes of what the system calls
// a process.
func NewPrograms(key func(string) string) *Programs {
	return &Programs{key: key, list: process.PidsWithContext, name: nameOf, now: time.Now}
}

// Running are those of the wanted programs, named in key's form, that run.
func (p *Programs) Running(ctx context.Context, wanted []string) ([]string, error) {
	pids, err := p.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list of processes: %w", err)
	}
	old := p.names
	if now := p.now(); now.Sub(p.since) > forget || now.Before(p.since) {
		old, p.since = nil, now
	}
	p.names = make(map[int32]string, len(pids))
	running := []string{}
	for _, pid := range pids {
		name, known := old[pid]
		if !known {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("list of processes: %w", err)
			}
			raw, err := p.name(ctx, pid)
			if err != nil {
				continue // it has ended, or belongs to another user
			}
			name = p.key(raw)
		}
		p.names[pid] = name
		if slices.Contains(wanted, name) && !slices.Contains(running, name) {
			running = append(running, name)
		}
	}
	return running, nil
}

func nameOf(ctx context.Context, pid int32) (string, error) {
	// Not process.NewProcess, which leaves a descriptor of the process open.
	return (&process.Process{Pid: pid}).NameWithContext(ctx)
}
