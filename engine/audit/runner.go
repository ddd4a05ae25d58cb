package audit

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
	"neuron/engine/seam"
)

// job is one audit on its auditor.
type job struct {
	t        *auditmsg.AuditTicket
	receipts [][]byte
	stage    seam.Stage
	capab    protocol.Capability
	ctx      context.Context // ends when the audit is over, or has to give way
	cancel   context.CancelCauseFunc
	arrived  chan struct{} // one per side; room for both
	done     chan struct{} // closed when nothing of it is left in the stage

	// Guarded by Service.mu.
	in, out   []*protocol.Frame
	receiving map[auditmsg.AuditSide]bool
}

var errYield = protocol.Errorf(protocol.CodeHostBusy, "a session came, the audit gave way")

// takeRun answers an order to re-execute: ready, or why not.
func (s *Service) takeRun(o *auditmsg.AuditRun) error {
	t, err := s.verify(o.Ticket)
	if err != nil {
		return err
	}
	if t.Auditor.Node != s.o.Node {
		return protocol.Errorf(protocol.CodeForbidden, "the ticket names another auditor")
	}
	if len(o.Receipts) > auditmsg.MaxAuditReceipts {
		return protocol.Errorf(protocol.CodeRequestTooLarge, "%d receipts, at most %d are taken", len(o.Receipts), auditmsg.MaxAuditReceipts)
	}
	j, err := s.open(t, o.Receipts)
	if err != nil {
		s.failed(t.Audit, err)
		return nil
	}
	s.runs <- j // room: there is one audit at a time
	s.o.Tell(auditmsg.MsgAuditReady, auditmsg.AuditReady{Audit: t.Audit})
	return nil
}

// open makes t the one open audit.
func (s *Service) open(t *auditmsg.AuditTicket, receipts [][]byte) (*job, error) {
	if s.o.Stage == nil {
		return nil, protocol.Errorf(protocol.CodeUnsupported, "this node re-executes nothing")
	}
	stage := s.o.Stage()
	if stage == nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "no shard is ready on this node")
	}
	c := stage.Capability()
	switch {
	case c.Model != t.Model || c.Layers != t.Layers:
		return nil, protocol.Errorf(protocol.CodeModelUnknown, "model %s is not loaded here", t.Model.Short())
	case c.Build != t.Build:
		return nil, protocol.Errorf(protocol.CodeBuildMismatch, "the route ran llama.cpp %.40q, this node runs %q", t.Build.Llama, c.Build.Llama)
	case c.WholeOnly != "":
		return nil, protocol.Errorf(protocol.CodeModelUncut, "this model is served whole only: %s", c.WholeOnly)
	case t.Use.First != c.Loaded.First || t.Use.Last != c.Loaded.Last && !slices.Contains(c.Exits, t.Use.Last) || t.Use.First == 0 && !c.Head:
		return nil, protocol.Errorf(protocol.CodeRangeInvalid, "layers %s cannot run here, %s are loaded", t.Use, c.Loaded)
	case c.MaxContext > 0 && t.Rows > c.MaxContext:
		return nil, protocol.Errorf(protocol.CodeContextExceeded, "%d rows, this shard serves %d", t.Rows, c.MaxContext)
	case len(c.Sidebands) > 0:
		return nil, protocol.Errorf(protocol.CodeUnsupported, "rows with a sideband are not re-executed")
	}
	j := &job{
		t: t, receipts: receipts, stage: stage, capab: c,
		arrived: make(chan struct{}, 2), done: make(chan struct{}), receiving: map[auditmsg.AuditSide]bool{},
	}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.job != nil:
		return nil, protocol.Errorf(protocol.CodeRateLimited, "another audit runs here")
	case s.paying > 0 || s.o.Busy != nil && s.o.Busy():
		return nil, protocol.Errorf(protocol.CodeHostBusy, "this node has other work")
	}
	s.job = j
	return j, nil
}

// Receive is a seam.AuditHandler: it takes the frames of one side from their
// keeper.
func (s *Service) Receive(w http.ResponseWriter, r *http.Request, peer protocol.NodeID, audit, side string) *protocol.Error {
	sd := auditmsg.AuditSide(side)
	if sd != auditmsg.AuditInput && sd != auditmsg.AuditOutput {
		return protocol.Errorf(protocol.CodeNotFound, "no such side")
	}
	s.mu.Lock()
	j := s.job
	var refused *protocol.Error
	switch {
	case j == nil || string(j.t.Audit) != audit:
		refused = protocol.Errorf(protocol.CodeNotFound, "no such audit is open here")
	case j.t.Keeper(sd) != peer:
		refused = protocol.Errorf(protocol.CodeForbidden, "only the keeper of the %s may send it", side)
	case j.receiving[sd]:
		refused = protocol.Errorf(protocol.CodeConflict, "the %s was sent already", side)
	default:
		j.receiving[sd] = true
	}
	s.mu.Unlock()
	if refused != nil {
		return refused
	}
	frames, err := read(w, r, j.t.Rows, j.capab.Width)
	if err != nil {
		e := protocol.AsError(err)
		j.cancel(e)
		return e
	}
	s.mu.Lock()
	if sd == auditmsg.AuditInput {
		j.in = frames
	} else {
		j.out = frames
	}
	s.mu.Unlock()
	j.arrived <- struct{}{}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// run carries an open audit to its end and tells the tracker.
func (s *Service) run(ctx context.Context, j *job) {
	stop := context.AfterFunc(ctx, func() { j.cancel(protocol.Errorf(protocol.CodeShutdown, "the node is stopping")) })
	defer stop()
	m, err := s.measure(j)
	j.cancel(nil)
	s.mu.Lock()
	s.job = nil
	s.mu.Unlock()
	close(j.done)
	if err != nil {
		s.failed(j.t.Audit, err)
		return
	}
	s.log.Info("Audit done", "audit", string(j.t.Audit), "rows", m.Rows, "median", m.Median, "max", m.Max)
	s.o.Tell(auditmsg.MsgAuditResult, auditmsg.AuditResult{Audit: j.t.Audit, Measures: m})
}

// measure waits for both sides and re-executes.
func (s *Service) measure(j *job) (*auditmsg.AuditMeasures, error) {
	timer := time.NewTimer(s.o.Patience)
	defer timer.Stop()
	for range 2 {
		select {
		case <-j.arrived:
		case <-timer.C:
			return nil, protocol.Errorf(protocol.CodeTimeout, "the keepers sent nothing within %s", s.o.Patience)
		case <-j.ctx.Done():
			return nil, context.Cause(j.ctx)
		}
	}
	s.mu.Lock()
	inFrames, outFrames := j.in, j.out
	s.mu.Unlock()
	head, width := j.t.Use.First == 0, j.capab.Width
	in, err := join(inFrames, head, width)
	if err != nil {
		return nil, err
	}
	out, err := join(outFrames, false, width)
	if err != nil {
		return nil, err
	}
	n := min(in.n(), out.n(), j.t.Rows)
	if n == 0 {
		return nil, protocol.Errorf(protocol.CodeNotFound, "the keepers have no position in common")
	}
	signed, err := proven(j.t, j.receipts, inFrames, outFrames)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(j.ctx, s.o.Patience,
		protocol.Errorf(protocol.CodeTimeout, "the re-execution took longer than %s", s.o.Patience))
	defer cancel()
	m, err := reexecute(ctx, j, chunks(inFrames, n, j.capab.ChunkRows), in, out, n)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	m.Proven = min(signed, n)
	c := j.capab
	m.Class = auditmsg.AuditClass{Threads: c.Threads, CPU: c.CPUVariant, Llama: c.Build.Llama, Engine: s.o.Engine}
	return m, nil
}

// stepRows is the most rows of decode steps that are put into one chunk. Chunks
// of 64 rows and more run other kernels than steps do: honest nodes of one class
// then came out 0.4 to 0.9 % apart (TestAudits, 120 steps in one chunk), and
// with 32 rows equal bit for bit.
const stepRows = 32

// chunks cuts the positions [0, n) into prefill chunks. A chunk of the prompt
// keeps its bounds, which change the last digits; steps of one row or a few are
// put together.
func chunks(in []*protocol.Frame, n, most int) []int {
	most = max(1, min(most, protocol.MaxChunkRows))
	var out []int
	at, open := 0, false // open: the last chunk is of steps
	for _, f := range in {
		rows := min(int(f.Rows), n-at)
		at += rows
		if f.Kind != protocol.KindPrefill && open && out[len(out)-1]+rows <= min(most, stepRows) {
			out[len(out)-1] += rows
			continue
		}
		open = f.Kind != protocol.KindPrefill
		for ; rows > 0; rows -= most {
			out = append(out, min(rows, most))
		}
		if at == n {
			break
		}
	}
	return out
}

// reexecute runs the chunks in a session of its own and compares each row.
func reexecute(ctx context.Context, j *job, sizes []int, in, out *rows, n int) (*auditmsg.AuditMeasures, error) {
	frames := make(chan *protocol.Frame, answers)
	ctx, overrun := context.WithCancelCause(ctx)
	defer overrun(nil)
	st, err := j.stage.Open(ctx, seam.StageOpen{Session: protocol.NewSessionID(), Use: j.t.Use, Context: n, Deliver: func(f *protocol.Frame) {
		select {
		case frames <- f:
		default:
			overrun(protocol.Errorf(protocol.CodeStageOverloaded, "the stage produced more than was asked for"))
		}
	}})
	if err != nil {
		return nil, err
	}
	defer st.Close() // it says when the memory is free; a stage that does not free it is found by its owner
	basis := auditmsg.AuditContribution
	if in.hidden == nil {
		basis = auditmsg.AuditWhole
	}
	m := newMeter(basis)
	at := 0
	for _, size := range sizes {
		f := chunk(in, at, size)
		if err := st.Send(ctx, f); err != nil {
			return nil, err
		}
		got, micros, err := answer(ctx, frames, f.Header)
		if err != nil {
			if ctx.Err() != nil {
				// What runs is stopped before the session is closed.
				_ = st.Send(context.WithoutCancel(ctx), protocol.ControlFrame(protocol.KindCancel, 0, 0, uint32(at)))
			}
			return nil, err
		}
		m.m.Micros += micros
		here := &rows{width: int(got.Width), hidden: appendFloats(nil, got)}
		if here.width != out.width || here.n() != size {
			return nil, protocol.Errorf(protocol.CodeBatchLayout, "the stage produced %d rows of %d elements", here.n(), here.width)
		}
		for i := range size {
			var b []float32
			if in.hidden != nil {
				b = in.row(at + i)
			}
			m.add(out.row(at+i), here.row(i), b)
		}
		at += size
	}
	return m.done(), nil
}

// chunk makes the prefill frame of the positions [at, at+size).
func chunk(in *rows, at, size int) *protocol.Frame {
	if in.hidden == nil {
		return protocol.IDFrame(protocol.KindPrefill, uint32(at), in.ids[at:at+size])
	}
	p := protocol.F32Bytes(in.hidden[at*in.width : (at+size)*in.width])
	return &protocol.Frame{
		Header: protocol.Header{
			Kind: protocol.KindPrefill, DType: protocol.DTypeF32, Parts: protocol.PartHidden, Pos: uint32(at), Rows: uint32(size),
			Width: uint32(in.width), Length: uint32(len(p)),
		},
		Payload: p,
	}
}

// answers is the most that a stage delivers for one chunk: the acknowledgement,
// the rows, an error, and that nothing follows.
const answers = 4

// answer waits for the acknowledgement and the rows of one chunk.
func answer(ctx context.Context, frames <-chan *protocol.Frame, h protocol.Header) (*protocol.Frame, int64, error) {
	var micros int64
	for {
		select {
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		case f := <-frames:
			switch {
			case f == nil:
				return nil, 0, protocol.Errorf(protocol.CodeStageLost, "the stage ended the session")
			case f.Kind == protocol.KindError:
				return nil, 0, f.Err()
			case f.Kind == protocol.KindAck:
				a, err := f.Ack()
				if err != nil {
					return nil, 0, err
				}
				micros += int64(a.Compute)
			case f.Kind == h.Kind && f.Pos == h.Pos && f.Rows == h.Rows:
				return f, micros, f.CheckFinite()
			default:
				return nil, 0, protocol.Errorf(protocol.CodeBatchLayout, "the stage produced a %s frame at position %d", f.Kind, f.Pos)
			}
		}
	}
}

// yieldWait bounds how long a session's opening waits for an audit to be gone.
const yieldWait = 2 * time.Second

// Guard wraps the stage for those who open sessions that pay: an open audit
// gives way first, and none begins while such a session is there.
func (s *Service) Guard(st seam.Stage) seam.Stage { return &guarded{Stage: st, s: s} }

type guarded struct {
	seam.Stage
	s *Service
}

type guardedSession struct {
	seam.StageSession
	leave func()
}

// Open implements seam.Stage.
func (g *guarded) Open(ctx context.Context, o seam.StageOpen) (seam.StageSession, error) {
	g.s.enter(ctx)
	st, err := g.Stage.Open(ctx, o)
	if err != nil {
		g.s.leave()
		return nil, err
	}
	return &guardedSession{StageSession: st, leave: sync.OnceFunc(g.s.leave)}, nil
}

// Close implements seam.StageSession.
func (g *guardedSession) Close() error {
	defer g.leave()
	return g.StageSession.Close()
}

// enter counts a session and makes an open audit give way.
func (s *Service) enter(ctx context.Context) {
	s.mu.Lock()
	s.paying++
	j := s.job
	s.mu.Unlock()
	if j == nil {
		return
	}
	j.cancel(errYield)
	timer := time.NewTimer(yieldWait)
	defer timer.Stop()
	select {
	case <-j.done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *Service) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paying--
}
