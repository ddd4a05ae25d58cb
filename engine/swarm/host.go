package swarm

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// Spawn says how to start the child.
type Spawn struct {
	// Exe and Args run the program whose main calls worker.Run.
	Exe  string
	Args []string
	// Silence is how long the child may say nothing before it counts as frozen
	// and is replaced (it speaks at least every Heartbeat). Default 2 minutes:
	// it runs at the lowest priority.
	Silence time.Duration
	Logger  *slog.Logger
}

// Heartbeat is the longest pause between two statuses of a child.
const Heartbeat = 15 * time.Second

const defaultSilence = 2 * time.Minute

// HostOptions say what a Host does around its child.
type HostOptions struct {
	Spawn Spawn
	// Changed is called after each new status, from the host's goroutines; it
	// must not block and must not call Set.
	Changed func()
}

// Host keeps the BitTorrent child running while there is a model to look
// after, and none otherwise.
type Host struct {
	o    HostOptions
	poke chan struct{} // Wanted has changed

	mu     sync.Mutex
	wanted Wanted // guarded by mu
	status Status // guarded by mu
	child  *child // guarded by mu; nil when none runs
}

// Pauses between restarts; the first keeps a crash short, the last keeps a
// child that dies of what it is told from burning the processor.
const (
	firstPause = 200 * time.Millisecond
	longPause  = 30 * time.Second
	// calmLife is how long a child must live for the pause to start over.
	calmLife = 30 * time.Second
)

// NewHost returns a host that does nothing until Run.
func NewHost(o HostOptions) *Host {
	if o.Spawn.Silence == 0 {
		o.Spawn.Silence = defaultSilence
	}
	if o.Spawn.Logger == nil {
		o.Spawn.Logger = slog.New(slog.DiscardHandler)
	}
	return &Host{o: o, poke: make(chan struct{}, 1)}
}

// Set says what is wanted from now on. It returns at once; an error says that
// w is malformed and nothing has changed.
func (h *Host) Set(w Wanted) error {
	if err := w.Check(); err != nil {
		return err
	}
	w.Models = slices.Clone(w.Models)
	h.mu.Lock()
	h.wanted = w
	h.mu.Unlock()
	select {
	case h.poke <- struct{}{}:
	default: // one is due already
	}
	return nil
}

// Status is what the child said last; with Error when none runs although it
// should. It is the zero value while nothing is wanted.
func (h *Host) Status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.status
	s.Models = slices.Clone(s.Models)
	return s
}

// Pid is the child's process id, 0 when none runs; for status and for tests
// that kill it.
func (h *Host) Pid() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.child == nil {
		return 0
	}
	return h.child.cmd.Process.Pid
}

// Run owns the child until ctx ends, and returns when the child is gone.
func (h *Host) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		if !h.needed() {
			h.setStatus(Status{})
			select {
			case <-ctx.Done():
			case <-h.poke:
			}
			pause = firstPause
			continue
		}
		began := time.Now()
		if h.life(ctx) {
			continue // ended in order
		}
		if time.Since(began) > calmLife {
			pause = firstPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, longPause)
	}
}

// life is one child from start to end; false when it died of itself.
func (h *Host) life(ctx context.Context) (inOrder bool) {
	c, err := startChild(h.o.Spawn, h.heard)
	if err != nil {
		h.lost(err)
		return false
	}
	h.setChild(c)
	defer h.setChild(nil)
	h.send(c)
	for {
		select {
		case <-c.done:
			if e := c.cause(); ctx.Err() == nil {
				h.lost(e)
			}
			return false
		case <-ctx.Done():
			c.stop()
			return true
		case <-h.poke:
			if !h.needed() {
				c.stop()
				return true
			}
			h.send(c)
		}
	}
}

func (h *Host) needed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.wanted.Models) > 0
}

// send hands the newest Wanted to the child's writer.
func (h *Host) send(c *child) {
	h.mu.Lock()
	w := h.wanted
	h.mu.Unlock()
	c.want(w)
}

func (h *Host) setChild(c *child) {
	h.mu.Lock()
	h.child = c
	h.mu.Unlock()
}

// heard takes a status of the running child.
func (h *Host) heard(s Status) { h.setStatus(s) }

// lost keeps the figures of the last status and says that nothing moves.
func (h *Host) lost(e *protocol.Error) {
	h.o.Spawn.Logger.Error("BitTorrent process is gone, starting another", "code", string(e.Code), "error", e.Message)
	s := h.Status()
	s.Time, s.Error, s.Addr = time.Now(), e, ""
	for i := range s.Models {
		m := &s.Models[i]
		m.State, m.Error = StateStarting, nil
		m.DownRate, m.UpRate, m.Peers, m.Seeds, m.ETASeconds = 0, 0, 0, 0, -1
	}
	h.setStatus(s)
}

func (h *Host) setStatus(s Status) {
	h.mu.Lock()
	h.status = s
	h.mu.Unlock()
	if h.o.Changed != nil {
		h.o.Changed()
	}
}
