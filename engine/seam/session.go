package seam

import (
	"context"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/pen"
	"neuron/engine/seam/flow"
	"neuron/engine/seam/seamclient"
)

// session is one route session on this hop.
//
// Goroutines, and who waits for them:
//
//	supervisor  from open to the end. Watches the times, frees the KV when the
//	            session ended, reports a broken neighbour, waits for all the
//	            others, buries the session. Server.Close waits for it.
//	drainer     from open until the stage says that nothing follows. Handles
//	            what the stage produces, in turn with the stage's own goroutine
//	            (type outbox): whoever has the turn is the only sender of rows to
//	            the next hop and the only writer of the queues up and tok, and
//	            writes himself what he can (type pen.Pen).
//	reader      the handler of the stream (stream_server.go). Does nothing but
//	            read the previous hop and fill the inbox, past which decode
//	            frames go straight to the stage.
//	writer      beside it: pings, the last frame and queued acknowledgements
//	            upstream.
//	feeder      beside it: takes the inbox, checks, hands to the stage.
//	downstream  beside it: closes the next hop's stream with the session's
//	            reason. That stream's own reader notes what the hop answers.
//	tokens      the handler of the tail's token stream (tokens_server.go).
//
// The reader waits for the three beside it; readers and tokens are counted in
// work. Everything ends with ctx, which end cancels; the first reason stays.
type session struct {
	// Fixed at open.
	srv    *Server
	id     protocol.SessionID
	lease  *protocol.Lease
	hop    int
	tail   bool
	prev   protocol.NodeID // who may open the stream
	capab  protocol.Capability
	in     rowRules // rows from the previous hop
	rows   rowRules // rows to the next hop
	st     StageSession
	rec    HopReceipts
	cells  int
	opened time.Time
	inbox  *inbox
	out    *outbox
	up     chan *protocol.Frame // acknowledgements for the writer
	tok    chan *protocol.Frame // tail: tokens and acknowledgements
	ctx    context.Context      // ends when the session ends
	cancel context.CancelFunc
	freed  chan struct{}     // closed when the KV is free
	over   chan struct{}     // closed when no goroutine moves frames any more
	held   *protocol.Frame   // an acknowledgement that waits for its rows or token; whoever has the outbox's turn
	quiet  []*protocol.Frame // tail: acknowledgements that the driver has not been told; as held
	tokPen pen.Pen           // tail: what the token stream is written with
	upPen  pen.Pen           // what the stream from the previous hop is answered with
	work   sync.WaitGroup

	mu        sync.Mutex // guards below
	ended     bool
	err       *protocol.Error
	blame     protocol.NodeID // broken neighbour, told to the tracker
	phase     protocol.Phase
	counters  protocol.Counters
	pos       flow.Position
	queue     []sent // handed to the stage, not yet answered, oldest first
	streaming bool
	watching  bool                  // the token stream is open
	down      seamclient.Downstream // towards the next hop
}

// sent is a row frame at the stage, or a truncate that has to follow the rows
// before it to the next hop.
type sent struct {
	h       protocol.Header
	acked   bool
	control *protocol.Frame
}

// maxQueue bounds sent frames; only a peer that cancels without end reaches it.
const maxQueue = 1024

// inboxFrames is how many frames may wait for the stage: the previous hop's
// window and some controls.
const inboxFrames = 16

func newSession(s *Server, l *protocol.Lease, hop int, c protocol.Capability, st StageSession, out *outbox, rec HopReceipts) *session {
	sess := &session{
		srv: s, id: l.Session, lease: l, hop: hop, tail: hop == len(l.Hops)-1, prev: l.Driver, capab: c,
		in: rowRules{
			ids: hop == 0, width: c.Width, dtype: l.DType, rows: c.ChunkRows,
			side: c.Crosses(l.Hops, hop), vocab: c.Vocab,
		},
		st: st, rec: rec, cells: st.Cells(), opened: s.o.Now(),
		inbox: newInbox(inboxFrames, max(c.InFlightBytes, int64(rowLimits(c).MaxPayload))), out: out,
		up: make(chan *protocol.Frame, 64), tok: make(chan *protocol.Frame, 256),
		freed: make(chan struct{}), over: make(chan struct{}), phase: protocol.PhaseOpening,
	}
	sess.rows = sess.in
	sess.rows.ids, sess.rows.side = false, c.Crosses(l.Hops, hop+1)
	if hop > 0 {
		sess.prev = l.Hops[hop-1].Node
	}
	sess.pos.Limit, sess.pos.Kept = uint32(l.Context), uint32(st.Kept())
	sess.ctx, sess.cancel = context.WithCancel(context.Background())
	return sess
}

func (s *session) use() protocol.Range { return s.lease.Hops[s.hop].Use }

// start runs supervisor and drainer; the server's work count has been raised.
func (s *session) start() {
	s.out.use(s.handleNow)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.drain()
	}()
	go func() {
		defer s.srv.work.Done()
		s.supervise()
		<-drained
		s.work.Wait()
		s.rec.Close()
		close(s.over)
		s.srv.bury(s)
	}()
}

// end ends the session; the first reason stays, nil is an end in order. blame
// names a neighbour that broke, or is "". It does not wait.
func (s *session) end(err *protocol.Error, blame protocol.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	if err == nil {
		s.phase = protocol.PhaseDone
	} else {
		if err.Code != protocol.CodeCancelled { // that is nobody's fault
			err = err.AtHop(s.hop)
		}
		s.err, s.blame = err.InPhase(s.phase), blame
		s.phase = protocol.PhaseFailed
	}
	s.cancel()
}

// reason is why the session ended, nil in order.
func (s *session) reason() *protocol.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// lastFrame is what both neighbours get when the session has ended.
func (s *session) lastFrame() *protocol.Frame {
	if err := s.reason(); err != nil {
		return protocol.ErrorFrame(0, 0, err)
	}
	return protocol.ControlFrame(protocol.KindClose, 0, 0, 0)
}

func (s *session) supervise() {
	s.watchTimes()
	if err := s.st.Close(); err != nil {
		s.srv.log.Error("stage session did not close", "session", s.id, "hop", s.hop, "error", err)
	}
	close(s.freed)
	s.mu.Lock()
	err, blame, counters := s.err, s.blame, s.counters
	s.mu.Unlock()
	log := s.srv.log.With("session", s.id, "hop", s.hop, "rows", counters.PrefillRows+counters.DecodeRows)
	if err == nil {
		log.Info("seam session ended")
		return
	}
	log.Warn("seam session failed", "code", err.Code, "phase", err.Phase, "error", err)
	if blame != "" && s.srv.o.HopFailed != nil {
		s.srv.o.HopFailed(s.id, blame, err)
	}
}

// watchTimes returns when the session has ended.
func (s *session) watchTimes() {
	streams := time.NewTimer(s.srv.o.StreamWait)
	defer streams.Stop()
	lease := time.NewTimer(s.lease.Expires.Sub(s.srv.o.Now()))
	defer lease.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-streams.C:
			s.mu.Lock()
			missing := !s.streaming || s.tail && !s.watching
			s.mu.Unlock()
			if missing {
				s.end(errorf(protocol.CodeTimeout, "the session's streams were not opened within %s", s.srv.o.StreamWait), "")
			}
		case <-lease.C:
			s.end(errorf(protocol.CodeLeaseExpired, "the lease ended during the session"), "")
		}
	}
}

// state is a snapshot for GET and for the tracker.
func (s *session) state() protocol.SessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters
	c.NextPos = int64(s.pos.Next())
	if s.down != nil {
		c.MaxInFlight = s.down.Peak()
	}
	return protocol.SessionState{
		Session: s.id, Hop: s.hop, Node: s.srv.o.Identity.ID(), Use: s.use(), Phase: s.phase,
		Cells: s.cells, Counters: c, Opened: s.opened, Error: s.err,
	}
}

// attach claims one of the session's two streams for a handler, which calls
// s.work.Done at its end.
func (s *session) attach(taken *bool) *protocol.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended && s.err != nil:
		return s.err
	case s.ended:
		return errorf(protocol.CodeSessionUnknown, "session %s has ended", s.id)
	case *taken:
		return errorf(protocol.CodeSessionExists, "session %s has this stream already", s.id)
	}
	*taken = true
	s.work.Add(1)
	return nil
}
