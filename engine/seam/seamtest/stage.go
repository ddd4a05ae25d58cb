// Package seamtest holds a stage that lives in memory and the suite that every
// seam.Stage has to pass. Tests import it, programs never.
//
// The fake computes so that a test can follow each row: the head turns a token
// id into a row whose elements all equal the id, every stage adds 1 to every
// element, and the tail's token at a position is TokenAt of it, with a piece
// that shows the last row's first element.
package seamtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
	"neuron/engine/protocol/rowbytes"
	"neuron/engine/seam"
)

// Model and build of the fake, and what they have in common.
const (
	Model        = protocol.ModelID("5ea50000000000000000000000000000000000000000000000000000000005ea")
	LlamaVersion = "fake-1"
	Layers       = 12
	Width        = 32
	ChunkRows    = 64
	MaxContext   = 4096
)

// TokenAt is the token that the fake's tail samples for position pos.
func TokenAt(pos uint32) int32 { return int32(pos*7%1000) + 3 }

// Stage is the fake; it implements seam.Stage.
type Stage struct {
	capab protocol.Capability

	mu       sync.Mutex // guards below
	cells    int        // free
	sessions map[protocol.SessionID]*session
	hold     chan struct{} // closed: stages run; open: they wait
	poison   bool
	opened   int
	period   uint32 // of what the tail says; 0: none
	keeps    bool
	kept     []seam.Prefix // of sessions that have ended
	spoil    func(f *protocol.Frame)
}

// NewStage returns a stage that has loaded use of a model of Layers layers,
// may stop at any layer of it, and has room for cells KV cells.
func NewStage(use protocol.Range, cells int) *Stage {
	c := protocol.Capability{
		Model: Model, Name: "fake", Architecture: "fake", Layers: Layers, Loaded: use,
		Head: use.First == 0, Tail: use.Last == Layers, Width: Width, DTypes: []string{"f32"},
		KVBytesPerCell: 16, MaxContext: MaxContext, ChunkRows: ChunkRows,
		InFlightBytes: 3 * ChunkRows * Width * 4, Threads: 1,
		Build: protocol.Build{Protocol: protocol.Version, Llama: LlamaVersion}, Rewinds: true,
	}
	for e := use.First + 1; e <= use.Last; e++ {
		c.Exits = append(c.Exits, e)
	}
	run := make(chan struct{})
	close(run)
	return &Stage{capab: c, cells: cells, sessions: map[protocol.SessionID]*session{}, hold: run}
}

// Seams makes the fake's model need sidebands, before the first session. Hops
// check that what they get is what they would have given: ids as they came into
// the head, and by ChosenAt.
func (s *Stage) Seams(needs []protocol.SeamNeed, vocab int) {
	s.capab.Seams, s.capab.Sidebands, s.capab.Vocab = needs, protocol.SidebandNames(needs), vocab
	s.capab.DTypes = []string{protocol.DTypeF32.String(), protocol.DTypeF16.String()}
	s.capab.InFlightBytes += int64(3 * ChunkRows * s.capab.Widest().RowBytes())
}

// ChosenAt is what the fake's indexer chooses for position pos: the newest cells,
// top at most.
func ChosenAt(pos uint32, top int) []int32 {
	out := make([]int32, top)
	for i := range out {
		out[i] = max(int32(pos)-int32(i), -1)
	}
	return out
}

// Spoil changes the rows that the stage gives from now on, before they leave it.
func (s *Stage) Spoil(f func(*protocol.Frame)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoil = f
}

// Capability implements seam.Stage.
func (s *Stage) Capability() protocol.Capability { return s.capab }

// FreeCells is the number of KV cells that no session holds.
func (s *Stage) FreeCells() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cells
}

// Sessions is the number of open sessions.
func (s *Stage) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Opened counts the sessions that were ever opened.
func (s *Stage) Opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Hold stops all work before the next frame until the returned function is
// called (more than once is fine).
func (s *Stage) Hold() (release func()) {
	c := make(chan struct{})
	s.mu.Lock()
	s.hold = c
	s.mu.Unlock()
	return sync.OnceFunc(func() { close(c) })
}

// Repeat makes the tail say the same again and again: its token at a position is
// TokenAt of the position modulo period. At multiples of 31 it is TokenAt of the
// position, which nobody can guess.
func (s *Stage) Repeat(period uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.period = period
}

// Keep makes the stage keep the state of sessions that end, as many as come.
func (s *Stage) Keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeps = true
}

// keptLocked is how far p's beginning is kept.
func (s *Stage) keptLocked(p seam.Prefix) int {
	n := 0
	for _, k := range s.kept {
		if k.Scope == p.Scope {
			n = max(n, k.Keys.Common(p.Keys))
		}
	}
	return n * prefix.Block
}

// tokenAt is the tail's token for pos.
func (s *Stage) tokenAt(pos uint32) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.period > 0 && pos%31 != 0 {
		pos %= s.period
	}
	return TokenAt(pos)
}

// Poison makes the stage produce NaN from now on.
func (s *Stage) Poison() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.poison = true
}

// Fail ends a session as a stage does by itself: one error frame last.
func (s *Stage) Fail(id protocol.SessionID, err *protocol.Error) bool {
	s.mu.Lock()
	sess := s.sessions[id]
	s.mu.Unlock()
	if sess == nil {
		return false
	}
	sess.fail(err)
	return true
}

// Open implements seam.Stage.
func (s *Stage) Open(ctx context.Context, o seam.StageOpen) (seam.StageSession, error) {
	if err := ctx.Err(); err != nil {
		return nil, protocol.Errorf(protocol.CodeCancelled, "open: %w", err)
	}
	if o.Use.First != s.capab.Loaded.First || !slices.Contains(s.capab.Exits, o.Use.Last) {
		return nil, protocol.Errorf(protocol.CodeRangeInvalid, "layers %s, loaded %s", o.Use, s.capab.Loaded)
	}
	if o.Context < 1 || o.Context > s.capab.MaxContext {
		return nil, protocol.Errorf(protocol.CodeContextExceeded, "context of %d, at most %d", o.Context, s.capab.MaxContext)
	}
	tail := o.Use.Last == s.capab.Layers
	if tail && o.Sampler == nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the tail needs sampler settings")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.sessions[o.Session]; ok {
		return nil, protocol.Errorf(protocol.CodeSessionExists, "session %s", o.Session)
	}
	if o.Context > s.cells {
		return nil, protocol.Errorf(protocol.CodeKVBudget, "%d cells asked, %d free", o.Context, s.cells)
	}
	s.cells -= o.Context
	s.opened++
	sess := &session{
		stage: s, id: o.Session, head: s.capab.Head, tail: tail, cells: o.Context,
		prefix: o.Prefix, kept: s.keptLocked(o.Prefix), dtype: max(o.DType, protocol.DTypeF32), arrives: o.In, leaves: o.Out,
		in: make(chan *protocol.Frame, 4), frames: make(chan *protocol.Frame, 4),
		wake: make(chan struct{}), done: make(chan struct{}), closed: make(chan struct{}),
	}
	sess.ctx, sess.cancel = context.WithCancel(context.Background())
	s.sessions[o.Session] = sess
	go sess.run()
	return sess, nil
}

// session is one session of the fake. run, its only goroutine, ends with ctx
// and closes frames; Close waits for it.
type session struct {
	stage      *Stage
	id         protocol.SessionID
	head, tail bool
	cells      int
	prefix     seam.Prefix
	kept       int
	dtype      protocol.DType
	arrives    protocol.Sideband
	leaves     protocol.Sideband
	in         chan *protocol.Frame
	frames     chan *protocol.Frame
	ctx        context.Context
	cancel     context.CancelFunc
	closed     chan struct{} // closed by Close
	done       chan struct{} // closed by run
	closing    sync.Once

	mu   sync.Mutex    // guards below
	live uint32        // epochs below were cancelled
	wake chan struct{} // closed and replaced by a cancel
	err  *protocol.Error

	epoch, next uint32 // run only
	begun       bool   // run only
}

func (s *session) Cells() int                     { return s.cells }
func (s *session) Kept() int                      { return s.kept }
func (s *session) Frames() <-chan *protocol.Frame { return s.frames }

func (s *session) Send(ctx context.Context, f *protocol.Frame) error {
	if f.Kind == protocol.KindCancel {
		s.mu.Lock()
		s.live = max(s.live, f.Epoch+1)
		close(s.wake)
		s.wake = make(chan struct{})
		s.mu.Unlock()
		return nil
	}
	if s.ctx.Err() != nil {
		return s.reason()
	}
	select {
	case s.in <- f:
		return nil
	case <-s.ctx.Done():
		return s.reason()
	case <-ctx.Done():
		return protocol.Errorf(protocol.CodeCancelled, "send: %w", context.Cause(ctx))
	}
}

func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return protocol.Errorf(protocol.CodeSessionUnknown, "the session has ended")
}

func (s *session) fail(err *protocol.Error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.cancel()
}

func (s *session) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.cancel()
		<-s.done
		s.stage.mu.Lock()
		defer s.stage.mu.Unlock()
		delete(s.stage.sessions, s.id)
		s.stage.cells += s.cells
		if n := min(int(s.next)/prefix.Block, s.prefix.Keys.Blocks()); s.stage.keeps && n > 0 {
			s.prefix.Keys = s.prefix.Keys.First(n)
			s.stage.kept = append(s.stage.kept, s.prefix)
		}
	})
	<-s.done
	return nil
}

func (s *session) run() {
	defer close(s.done)
	defer close(s.frames)
	for {
		select {
		case <-s.ctx.Done():
			s.mu.Lock()
			err := s.err
			s.mu.Unlock()
			if err != nil {
				select {
				case s.frames <- protocol.ErrorFrame(0, s.epoch, err):
				case <-s.closed: // nobody listens any more
				}
			}
			return
		case f := <-s.in:
			if err := s.frame(f); err != nil {
				s.fail(err)
			}
		}
	}
}

func (s *session) frame(f *protocol.Frame) *protocol.Error {
	switch {
	case f.Kind == protocol.KindTruncate:
		if f.Epoch != s.epoch+1 || f.Pos > s.next {
			return protocol.Errorf(protocol.CodeFrameOrder, "truncate to %d in epoch %d, rows end at %d of epoch %d", f.Pos, f.Epoch, s.next, s.epoch)
		}
		s.epoch, s.next = f.Epoch, f.Pos
		return nil
	case !f.Kind.Rows():
		return protocol.Errorf(protocol.CodeUnsupported, "a %s frame", f.Kind)
	}
	for s.alive(f) {
		s.mu.Lock()
		wake := s.wake
		s.mu.Unlock()
		s.stage.mu.Lock()
		hold, poison := s.stage.hold, s.stage.poison
		s.stage.mu.Unlock()
		select {
		case <-hold:
			return s.compute(f, poison)
		case <-wake:
		case <-s.ctx.Done():
			return nil
		}
	}
	return nil
}

func (s *session) alive(f *protocol.Frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.Epoch >= s.live
}

func (s *session) compute(f *protocol.Frame, poison bool) *protocol.Error {
	if !s.begun && int(f.Pos) <= s.kept {
		s.next = f.Pos
	}
	s.begun = true
	if f.Epoch != s.epoch || f.Pos != s.next || int(f.Pos+f.Rows) > s.cells {
		return protocol.Errorf(protocol.CodeFrameOrder, "rows at %d of epoch %d, expected %d of %d", f.Pos, f.Epoch, s.next, s.epoch)
	}
	s.next += f.Rows
	if err := s.arrived(f); err != nil {
		return err
	}
	rows := s.rows(f)
	if poison {
		rows[0] = float32(math.NaN())
	}
	s.put(protocol.AckFrame(f.Header, protocol.Ack{Rows: f.Rows, Queue: 1, Compute: 2}))
	if !s.tail {
		p := rowbytes.Parts{Hidden: protocol.F32Bytes(rows), DType: s.dtype, Width: Width}
		if s.dtype == protocol.DTypeF16 {
			p.Hidden = rowbytes.F16Bytes(rows)
		}
		if s.leaves.IDs || f.Kind == protocol.KindVerify {
			p.IDs = f.IDs()
		}
		for i := range f.Rows {
			p.TopK = append(p.TopK, ChosenAt(f.Pos+i, s.leaves.TopK)...)
		}
		out := rowbytes.Frame(f.Header, int(f.Rows), p)
		s.stage.mu.Lock()
		if s.stage.spoil != nil {
			s.stage.spoil(out)
		}
		s.stage.mu.Unlock()
		s.put(out)
		return nil
	}
	if f.Flags&protocol.FlagSample != 0 {
		return s.sample(f, rows)
	}
	return nil
}

// sample says the token behind f's last row, or those of a verify frame.
func (s *session) sample(f *protocol.Frame, rows []float32) *protocol.Error {
	first, ids := f.Rows-1, []int32(nil)
	if f.Kind == protocol.KindVerify {
		first, ids = 0, f.IDs()
	}
	for i := first; i < f.Rows; i++ {
		pos := f.Pos + i + 1
		id := s.stage.tokenAt(pos)
		t, err := protocol.TokenFrame(f.Slot, f.Epoch, pos, protocol.Token{
			ID: id, Piece: fmt.Append(nil, rows[i*Width]), Logprob: float32(math.NaN()),
		})
		if err != nil {
			return protocol.AsError(err)
		}
		more := i+1 < f.Rows && ids[i+1] == id
		if more {
			t.Flags |= protocol.FlagMore
		}
		if s.put(t); !more {
			return nil
		}
	}
	return nil
}

// arrived checks what came beside hidden states. The seam has checked its form,
// so that what is wrong here was lost or mixed up on the way.
func (s *session) arrived(f *protocol.Frame) *protocol.Error {
	if s.head {
		return nil
	}
	if f.DType != s.dtype {
		return protocol.Errorf(protocol.CodeInternal, "rows of %s, the session has %s", f.DType, s.dtype)
	}
	if s.arrives.IDs {
		b := values(f)
		for i, id := range f.IDs() {
			// What the head made of the id, and each hop since.
			if hops := b[i*Width] - float32(id); hops < 1 || hops > MaxHops {
				return protocol.Errorf(protocol.CodeInternal, "id %d came with a row of %g", id, b[i*Width])
			}
		}
	}
	if top := s.arrives.TopK; top > 0 {
		v := f.TopK()
		for i := range int(f.Rows) {
			if !slices.Equal(v[i*top:(i+1)*top], ChosenAt(f.Pos+uint32(i), top)) {
				return protocol.Errorf(protocol.CodeInternal, "another choice of cells for position %d", int(f.Pos)+i)
			}
		}
	}
	return nil
}

// MaxHops is the longest route of the fake.
const MaxHops = Layers

// values are the hidden states of a frame.
func values(f *protocol.Frame) []float32 {
	b := f.Hidden()
	if f.DType == protocol.DTypeF16 {
		return rowbytes.F16Floats(b)
	}
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// rows is the fake's model.
func (s *session) rows(f *protocol.Frame) []float32 {
	out := make([]float32, int(f.Rows)*Width)
	if s.head {
		for i, id := range f.IDs() {
			for j := range Width {
				out[i*Width+j] = float32(id) + 1
			}
		}
		return out
	}
	for i, v := range values(f) {
		out[i] = v + 1
	}
	return out
}

func (s *session) put(f *protocol.Frame) {
	select {
	case s.frames <- f:
	case <-s.ctx.Done():
	}
}
