package stage

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
)

// HostOptions say what a Host keeps running.
type HostOptions struct {
	Spawn Spawn
	// Load is sent to each child; Paths are filled in by Prepare.
	Load wire.Load
	// Report is the static part of the capability report.
	Report protocol.Capability
	// Prepare makes the files ready just before each start and returns them
	// with a function that is called as soon as the child has loaded them. An
	// error without a code counts as model_invalid.
	Prepare func(ctx context.Context) (paths []string, release func(), err error)
	// Changed is called after each change of state, from the host's goroutine.
	Changed func()
	Logger  *slog.Logger
}

// Host keeps one stage running: it starts a child, and when it ends starts
// another one, after a pause that doubles up to ten seconds. A model whose
// children keep dying before they have lived for a while is given up: Report then
// says stage_crashes until the host ends.
type Host struct {
	o HostOptions

	mu    sync.Mutex
	state protocol.ShardState // guarded by mu
	err   *protocol.Error     // guarded by mu; why it is not ready
	proc  *Process            // guarded by mu; nil unless ready
	drain bool                // guarded by mu
}

// Pauses between restarts; the first one keeps "back within three seconds".
const (
	firstPause = 200 * time.Millisecond
	longPause  = 10 * time.Second
	// calmLife is how long a child must live for the pause to start over.
	calmLife = 5 * time.Second
	// mostDeaths is how many children may die in a row without a calm life.
	mostDeaths = 5
)

// NewHost returns a host that does nothing until Run.
func NewHost(o HostOptions) *Host { return &Host{o: o, state: protocol.ShardLoading} }

// Run keeps the stage running until ctx ends, and returns when the child is
// gone.
func (h *Host) Run(ctx context.Context) {
	pause, deaths := firstPause, 0
	for ctx.Err() == nil {
		began := time.Now()
		why := h.life(ctx)
		switch {
		case time.Since(began) > calmLife && !why.loading:
			pause, deaths = firstPause, 0
		case why.died():
			deaths++
		}
		if deaths >= mostDeaths {
			h.giveUp(ctx, why.err, deaths)
			return
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

// giveUp waits for the end: nobody wants to see the same child die for ever.
func (h *Host) giveUp(ctx context.Context, last *protocol.Error, deaths int) {
	e := protocol.Errorf(protocol.CodeStageCrashes, "%d stage processes in a row died with this model, the last one so: %s", deaths, last.Message)
	h.o.Logger.Error("Stage is not started any more", "code", string(e.Code), "error", e)
	h.set(protocol.ShardFailed, nil, e)
	<-ctx.Done()
}

// end is how a child's life ended.
type end struct {
	err     *protocol.Error // nil: in order
	loading bool            // before it had loaded
}

// died reports whether the process itself failed, and not what it was asked for:
// those that report a reason may do better next time.
func (e end) died() bool {
	return e.err != nil && (e.err.Code == protocol.CodeStageLost || e.err.Code == protocol.CodeStageFrozen)
}

// life is one child from start to end.
func (h *Host) life(ctx context.Context) end {
	h.set(protocol.ShardLoading, nil, nil)
	p, err := h.start(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return end{}
		}
		e := protocol.AsError(err)
		h.o.Logger.Error("Stage does not start", "code", string(e.Code), "error", err)
		h.set(protocol.ShardFailed, nil, e)
		return end{e, true}
	}
	h.o.Logger.Info("Stage ready", "layers", p.capability.Loaded.String(), "pid", p.Pid(),
		"step_us", p.Loaded().StepMicros, "chunk_us", p.Loaded().ChunkMicros)
	h.set(protocol.ShardReady, p, nil)
	select {
	case <-p.Done():
		h.set(protocol.ShardFailed, nil, p.Err())
		return end{p.Err(), false}
	case <-ctx.Done():
		h.set(protocol.ShardDraining, nil, nil)
		p.Stop()
	}
	return end{}
}

func (h *Host) start(ctx context.Context) (*Process, error) {
	load := h.o.Load
	release := func() {}
	if h.o.Prepare != nil {
		paths, rel, err := h.o.Prepare(ctx)
		var coded *protocol.Error
		switch {
		case errors.As(err, &coded):
			return nil, err
		case err != nil:
			return nil, protocol.Errorf(protocol.CodeModelInvalid, "prepare the stage's files: %w", err)
		}
		load.Paths, release = paths, rel
	}
	defer release()
	return Start(ctx, h.o.Spawn, load, h.o.Report)
}

func (h *Host) set(s protocol.ShardState, p *Process, e *protocol.Error) {
	h.mu.Lock()
	h.state, h.proc, h.err = s, p, e
	h.mu.Unlock()
	if h.o.Changed != nil {
		h.o.Changed()
	}
}

// Process is the running stage, nil when there is none.
func (h *Host) Process() *Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proc
}

// Pids are the process ids of the running stage, none when there is none.
func (h *Host) Pids() []int {
	if p := h.Process(); p != nil {
		return []int{p.Pid()}
	}
	return nil
}

// Report is the shard's state for the tracker and the window.
func (h *Host) Report() protocol.ShardReport {
	h.mu.Lock()
	r := protocol.ShardReport{State: h.state, Capability: h.o.Report, Error: h.err}
	p, draining := h.proc, h.drain
	h.mu.Unlock()
	r.MaxSessions = h.o.Load.MaxSessions
	if p == nil {
		return r
	}
	s := p.Stats()
	r.Capability = p.Capability()
	r.FreeKVBytes, r.Sessions, r.Queue = s.FreeKVBytes, p.Sessions(), s.Queue
	r.StepMicros, r.ChunkMicros = s.StepMicros, s.ChunkMicros
	r.Prefixes = s.Prefixes
	if draining || s.HostBusy {
		r.State = protocol.ShardDraining
	}
	if s.HostBusy {
		r.Error = protocol.Errorf(protocol.CodeHostBusy, "other programs need the processor")
	}
	return r
}

// Drain says whether new sessions are wanted; running ones go on.
func (h *Host) Drain(on bool) {
	h.mu.Lock()
	h.drain = on
	h.mu.Unlock()
	if h.o.Changed != nil {
		h.o.Changed()
	}
}
