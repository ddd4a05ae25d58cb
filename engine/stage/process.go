package stage

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/stage/wire"
)

// Process is a running stage: one child that has loaded its shard. It
// implements seam.Stage.
type Process struct {
	// Constant after Start.
	child      *child
	capability protocol.Capability
	first      int

	mu       sync.Mutex
	sessions map[uint32]*session // by slot; guarded by mu
	nextSlot uint32              // guarded by mu
}

// chunksInFlight is how many prefill chunks may be unacknowledged towards a
// stage: one that runs, one that is ready, and two on the way.
const chunksInFlight = 4

// closeTimeout bounds the wait for the child's word that KV memory is free.
const closeTimeout = 5 * time.Second

// Start starts a child and loads; report is the static part of the capability
// report, completed with what the child says.
func Start(ctx context.Context, s Spawn, load wire.Load, report protocol.Capability) (*Process, error) {
	load.Model, load.KVType = report.Model, report.KVType
	p := &Process{sessions: map[uint32]*session{}, nextSlot: 1, first: load.First}
	c, err := startChild(ctx, s, load, p.handle, p.endAll)
	if err != nil {
		return nil, err
	}
	p.child = c
	l := c.loaded
	report.Width, report.WeightBytes = l.Width, l.WeightBytes
	report.Build = protocol.Build{Protocol: protocol.Version, Llama: l.Llama}
	report.CPUVariant, report.Threads = l.CPUVariant, load.Threads
	report.Devices = nil
	for _, d := range l.Devices {
		report.Devices = append(report.Devices, d.String())
	}
	report.ChunkRows, report.MaxContext, report.KVBudget = load.ChunkRows, load.MaxContext, l.KVBudget
	report.KVBytesPerCell, report.ComputeBytes, report.ComputeBytesPerCell = l.KVBytesPerCell, l.ComputeBytes, l.ComputeBytesPerCell
	report.Rewinds, report.Memory = l.Rewinds, l.Memory
	if len(report.DTypes) == 0 {
		report.DTypes = []string{protocol.DTypeF32.String()}
	}
	report.InFlightBytes = inFlight(&report)
	p.capability = report
	return p, nil
}

// inFlight is how much one session may have unacknowledged towards a stage:
// chunksInFlight chunks of its rows, each bounded as a frame is.
func inFlight(c *protocol.Capability) int64 {
	if c.Head {
		return int64(chunksInFlight * c.ChunkRows * 4) // token ids
	}
	side := c.Needs(c.Loaded.First)
	// A later hop may need ids that this one only passes on.
	side.IDs = side.IDs || c.Widest().IDs
	rows := protocol.SeamRows(c.ChunkRows, c.Width, protocol.DTypeF32, side)
	return int64(chunksInFlight*rows) * int64(c.Width*protocol.DTypeF32.Size()+side.RowBytes())
}

// Capability implements seam.Stage.
func (p *Process) Capability() protocol.Capability { return p.capability }

// Done is closed when the child is gone and all sessions have their reason.
func (p *Process) Done() <-chan struct{} { return p.child.done }

// Err says why it ended; valid after Done.
func (p *Process) Err() *protocol.Error { return p.child.cause() }

// Stop ends the child in order and returns when it is gone.
func (p *Process) Stop() { p.child.stop() }

// Pid is the child's process id, for tests that kill it and for status.
func (p *Process) Pid() int { return p.child.cmd.Process.Pid }

// KVBudget is the memory for session state, in bytes.
func (p *Process) KVBudget() int64 { return p.capability.KVBudget }

// Loaded is what the child measured and said when it had loaded.
func (p *Process) Loaded() wire.Loaded { return p.child.loaded }

// Sessions is the number of sessions that hold memory in the child, or are about
// to. The child's own figure is as old as its last ping.
func (p *Process) Sessions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sessions)
}

// Stats are the child's newest figures.
func (p *Process) Stats() wire.Stats {
	if s := p.child.stats.Load(); s != nil {
		return *s
	}
	return wire.Stats{}
}

// Open implements seam.Stage.
func (p *Process) Open(ctx context.Context, o seam.StageOpen) (seam.StageSession, error) {
	if o.Use.First != p.first {
		return nil, protocol.Errorf(protocol.CodeRangeInvalid, "layers %s do not start at %d", o.Use, p.first)
	}
	if o.Deliver == nil {
		o.Deliver = func(*protocol.Frame) {}
	}
	s := &session{p: p, take: o.Deliver, opened: make(chan wire.Opened, 1), ended: make(chan struct{}), freed: make(chan struct{})}
	p.mu.Lock()
	s.slot = p.nextSlot
	p.nextSlot++
	p.sessions[s.slot] = s
	p.mu.Unlock()

	err := p.child.sendJSON(protocol.KindOpen, s.slot, wire.Open{
		Session: o.Session, Exit: o.Use.Last, Context: o.Context, Sampler: o.Sampler, Prompt: o.Prompt,
		DType: o.DType, In: o.In, Out: o.Out, Scope: o.Prefix.Scope[:], Keys: o.Prefix.Keys, Private: o.Prefix.Private,
	})
	if err != nil {
		p.forget(s)
		return nil, err
	}
	select {
	case r := <-s.opened:
		if r.Error != nil {
			p.forget(s)
			return nil, r.Error
		}
		s.cells, s.kept = r.Cells, r.Kept
		return s, nil
	case <-p.child.done:
		p.forget(s)
		return nil, p.child.cause()
	case <-ctx.Done():
		// The child may still open it: the close frame frees it again.
		if err := s.Close(); err != nil {
			return nil, err
		}
		return nil, protocol.Errorf(protocol.CodeTimeout, "opening the session: %w", context.Cause(ctx))
	}
}

func (p *Process) forget(s *session) {
	p.mu.Lock()
	delete(p.sessions, s.slot)
	p.mu.Unlock()
}

// handle is called by the child's reader; it never blocks.
func (p *Process) handle(f *protocol.Frame) {
	p.mu.Lock()
	s := p.sessions[f.Slot]
	p.mu.Unlock()
	if s == nil {
		return // closed here, answered late
	}
	switch f.Kind {
	case protocol.KindOpened:
		var r wire.Opened
		if err := json.Unmarshal(f.Payload, &r); err != nil {
			r.Error = protocol.Errorf(protocol.CodeStageLost, "the stage's answer is malformed: %w", err)
		}
		select {
		case s.opened <- r:
		default: // a second answer changes nothing
		}
	case protocol.KindClose:
		p.forget(s)
		s.end(nil)
		s.markFreed()
	case protocol.KindError:
		s.end(f.Err())
	default:
		f.Slot = 0
		s.deliver(f)
	}
}

// endAll runs when the child is gone: every session learns why.
func (p *Process) endAll(why *protocol.Error) {
	p.mu.Lock()
	all := p.sessions
	p.sessions = map[uint32]*session{}
	p.mu.Unlock()
	for _, s := range all {
		s.end(why)
		s.markFreed()
	}
}
