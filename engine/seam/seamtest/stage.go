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
	"slices"
	"sync"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
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
	cancels  int
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

// Cancels counts the cancel frames that came.
func (s *Stage) Cancels() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancels
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
	if o.Deliver == nil {
		o.Deliver = func(*protocol.Frame) {}
	}
	s.cells -= o.Context
	s.opened++
	sess := &session{
		stage: s, id: o.Session, head: s.capab.Head, tail: tail, cells: o.Context,
		prefix: o.Prefix, kept: s.keptLocked(o.Prefix), dtype: max(o.DType, protocol.DTypeF32), arrives: o.In, leaves: o.Out,
		in: make(chan *protocol.Frame, 4), put: o.Deliver,
		wake: make(chan struct{}), done: make(chan struct{}),
	}
	sess.ctx, sess.cancel = context.WithCancel(context.Background())
	s.sessions[o.Session] = sess
	go sess.run()
	return sess, nil
}
