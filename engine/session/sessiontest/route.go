package sessiontest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/session"
)

// route is one open session: a goroutine per hop that takes frames from the
// one before.
type route struct {
	n      *Network
	id     protocol.SessionID
	ctx    context.Context
	cancel context.CancelFunc
	inbox  []chan *protocol.Frame // per hop
	head   *end                   // to the driver from hop 0
	tail   *end                   // to the driver from the tail

	mu sync.Mutex
	// Protected by mu.
	counters []protocol.Counters
	asked    int // tokens sampled
	epoch    uint32
	next     uint32 // position of the next row
}

// end is one of the driver's streams.
type end struct {
	frames chan *protocol.Frame
	mu     sync.Mutex
	err    error
	closed bool
}

func newEnd() *end { return &end{frames: make(chan *protocol.Frame, 1024)} }

func (e *end) put(f *protocol.Frame) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.frames <- f // tests send far fewer than fit
	}
}

func (e *end) close(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed, e.err = true, err
		close(e.frames)
	}
}

// Frames implements the streams.
func (e *end) Frames() <-chan *protocol.Frame { return e.frames }

// Err implements the streams.
func (e *end) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func (n *Network) hopOf(h protocol.Hop) int { return slices.Index(n.Nodes, h.Node) }

func (n *Network) isDead(hop int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead[hop] {
		return protocol.Errorf(protocol.CodeUnavailable, "hop %d cannot be reached", hop)
	}
	return nil
}

// Open implements session.Hops.
func (n *Network) Open(ctx context.Context, h protocol.Hop, r *protocol.OpenRequest) (*protocol.OpenReply, error) {
	i, s := n.hopOf(h), &n.Script
	l, err := r.Lease.Verify(n.TrackerKey(), time.Now())
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, s.OpenDelay[i]); err != nil {
		return nil, err
	}
	if e := s.OpenError[i]; e != nil {
		return nil, e
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Opened = append(n.Opened, *r)
	n.open[i]++
	rt := n.live[l.Session]
	if rt == nil {
		rt = &route{n: n, id: l.Session, counters: make([]protocol.Counters, s.Hops), head: newEnd(), tail: newEnd()}
		rt.ctx, rt.cancel = context.WithCancel(context.Background())
		for range s.Hops {
			rt.inbox = append(rt.inbox, make(chan *protocol.Frame, 1024))
		}
		n.live[l.Session] = rt
	}
	reply := &protocol.OpenReply{Session: l.Session, Hop: i, Cells: l.Context, Report: protocol.Capability{
		Model: n.Model, Name: ModelName, Layers: s.Layers, Loaded: n.use(i), Head: i == 0, Tail: i == s.Hops-1,
		Width: 8, DTypes: []string{"f32"}, ChunkRows: s.ChunkRows, Build: build(), Rewinds: s.Rewinds,
	}}
	if s.EditReply != nil {
		s.EditReply(i, reply)
	}
	return reply, nil
}

func (n *Network) route(id protocol.SessionID) *route {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live[id]
}

// State implements session.Hops.
func (n *Network) State(_ context.Context, h protocol.Hop, id protocol.SessionID) (*protocol.SessionState, error) {
	i := n.hopOf(h)
	if err := n.isDead(i); err != nil {
		return nil, err
	}
	r := n.route(id)
	if r == nil {
		return nil, protocol.Errorf(protocol.CodeSessionUnknown, "no such session")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return &protocol.SessionState{Session: id, Hop: i, Node: h.Node, Use: h.Use, Counters: r.counters[i]}, nil
}

// Release implements session.Hops.
func (n *Network) Release(ctx context.Context, h protocol.Hop, id protocol.SessionID) error {
	i := n.hopOf(h)
	if err := n.isDead(i); err != nil {
		return err
	}
	if err := pause(ctx, n.Script.ReleaseDelay); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Released[i]++
	if n.open[i] > 0 {
		n.open[i]--
	}
	if r := n.live[id]; r != nil {
		r.cancel()
	}
	return nil
}

// Tokens implements session.Hops.
func (n *Network) Tokens(ctx context.Context, _ protocol.Hop, id protocol.SessionID) (session.TokenStream, error) {
	if e := n.Script.TokensError; e != nil {
		return nil, e
	}
	r := n.route(id)
	context.AfterFunc(ctx, r.stop)
	return tokens{r}, nil
}

// Stream implements session.Hops; the route runs from here on.
func (n *Network) Stream(ctx context.Context, _ protocol.Hop, id protocol.SessionID) (session.Stream, error) {
	if e := n.Script.StreamError; e != nil {
		return nil, e
	}
	r := n.route(id)
	context.AfterFunc(ctx, r.stop)
	for i := range n.Script.Hops {
		n.wg.Go(func() { r.hop(i) })
	}
	return stream{r}, nil
}

type stream struct{ *route }

func (s stream) Frames() <-chan *protocol.Frame { return s.head.Frames() }
func (s stream) Err() error                     { return s.head.Err() }
func (s stream) Close() error                   { s.stop(); return nil }

func (s stream) Send(ctx context.Context, f *protocol.Frame) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.n.Look(func() {
		s.n.Frames = append(s.n.Frames, f.Header)
		switch f.Kind {
		case protocol.KindPrefill:
			s.n.Prompt = append(s.n.Prompt, f.IDs()...)
		case protocol.KindDecode:
			s.n.Fed = append(s.n.Fed, f.IDs()...)
		case protocol.KindVerify:
			s.n.Fed = append(s.n.Fed, f.IDs()[0])
			s.n.Guessed = append(s.n.Guessed, f.IDs()[1:])
		}
	})
	if err := s.order(f); err != nil {
		return err
	}
	if !f.Kind.Rows() {
		if f.Kind == protocol.KindCancel {
			s.stop()
		}
		return nil
	}
	select {
	case s.inbox[0] <- f:
		return nil
	case <-s.ctx.Done():
		return errors.New("stream closed")
	}
}

// order refuses frames that do not continue the session.
func (r *route) order(f *protocol.Frame) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case f.Kind == protocol.KindTruncate:
		if f.Epoch != r.epoch+1 || f.Pos >= r.next {
			return protocol.Errorf(protocol.CodeFrameOrder, "truncate to %d with epoch %d, rows end at %d in %d", f.Pos, f.Epoch, r.next, r.epoch)
		}
		r.epoch, r.next = f.Epoch, f.Pos
	case f.Kind.Rows():
		if r.next == 0 && r.epoch == 0 {
			r.next = f.Pos // a session may begin behind what is kept
		}
		if f.Epoch != r.epoch || f.Pos != r.next {
			return protocol.Errorf(protocol.CodeFrameOrder, "rows at %d of epoch %d, expected %d of %d", f.Pos, f.Epoch, r.next, r.epoch)
		}
		r.next += f.Rows
	}
	return nil
}

type tokens struct{ *route }

func (t tokens) Frames() <-chan *protocol.Frame { return t.tail.Frames() }
func (t tokens) Err() error                     { return t.tail.Err() }
func (t tokens) Close() error                   { t.stop(); return nil }

// stop ends the route in order.
func (r *route) stop() {
	r.cancel()
	r.head.close(nil)
	r.tail.close(nil)
}

// hop executes frames until the route ends.
func (r *route) hop(i int) {
	s := &r.n.Script
	last := i == s.Hops-1
	for {
		var f *protocol.Frame
		select {
		case f = <-r.inbox[i]:
		case <-r.ctx.Done():
			return
		}
		if s.OnFrame != nil {
			switch s.OnFrame(i, f) {
			case FaultFreeze:
				<-r.ctx.Done()
				return
			case FaultError:
				e := protocol.Errorf(protocol.CodeDecodeFailed, "the step failed").AtHop(i)
				r.tail.put(protocol.ErrorFrame(0, 0, e))
				r.head.put(protocol.ErrorFrame(0, 0, e))
				r.stop()
				return
			case FaultCut:
				broken := errors.New("connection reset")
				left := protocol.ErrorFrame(0, 0, protocol.Errorf(protocol.CodeCancelled, "the driver left"))
				if last {
					r.head.put(left)
					r.tail.close(broken)
				} else {
					r.tail.put(left)
					r.head.close(broken)
				}
				r.cancel()
				return
			case FaultLost:
				r.n.Look(func() { r.n.dead[i] = true })
				broken := errors.New("connection reset")
				if i > 0 { // the hop before it knows
					r.head.put(protocol.ErrorFrame(0, 0, protocol.Errorf(protocol.CodeHopLost, "the next hop is gone").AtHop(i)))
				}
				if last {
					r.tail.close(broken)
				}
				if i == 0 {
					r.head.close(broken)
				}
				r.cancel()
				return
			}
		}
		cost := s.StepTime
		if f.Kind == protocol.KindPrefill {
			cost = time.Duration(f.Rows) * s.RowTime
		}
		if pause(r.ctx, cost) != nil {
			return
		}
		r.count(i, f, cost)
		ack := protocol.AckFrame(f.Header, protocol.Ack{Rows: f.Rows, Compute: uint32(cost.Microseconds())})
		if s.EditAck != nil {
			s.EditAck(i, ack)
		}
		if i == 0 {
			r.head.put(ack)
		}
		if !last {
			r.inbox[i+1] <- f
			continue
		}
		r.tail.put(ack)
		if f.Flags&protocol.FlagSample != 0 {
			for _, t := range r.sample(f) {
				r.tail.put(t)
			}
		}
	}
}

func (r *route) count(i int, f *protocol.Frame, cost time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.counters[i]
	c.NextPos = int64(f.Pos + f.Rows)
	if f.Kind == protocol.KindPrefill {
		c.PrefillRows += int64(f.Rows)
		c.PrefillChunks++
		c.PrefillMicros += cost.Microseconds()
		return
	}
	c.DecodeRows += int64(f.Rows)
	c.DecodeSteps++
	c.DecodeMicros += cost.Microseconds()
}

// sample makes the token frames that answer f: for a verify frame one more than
// guesses were right.
func (r *route) sample(f *protocol.Frame) (out []*protocol.Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.n.Script
	var guess []int32
	if f.Kind == protocol.KindVerify {
		guess = f.IDs()[1:]
	}
	for pos, more := f.Pos+f.Rows-uint32(len(guess)), true; more; pos++ {
		k := r.asked
		r.asked++
		t := protocol.Token{ID: 2, EOG: true}
		if k < len(s.Answer) {
			id := s.Answer[k]
			t = protocol.Token{ID: id, Piece: []byte{byte(id)}}
		}
		tf, _ := protocol.TokenFrame(0, f.Epoch, pos, t) // one byte always fits
		if more = !t.EOG && len(guess) > 0 && guess[0] == t.ID; more {
			guess = guess[1:]
			tf.Flags |= protocol.FlagMore
		}
		if s.EditToken != nil {
			s.EditToken(k, tf)
		}
		out = append(out, tf)
	}
	if s.EditTokens != nil {
		out = s.EditTokens(f, out)
	}
	return out
}
