package seamclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/pen"
	"neuron/engine/seam/flow"
	"neuron/engine/seam/wire"
)

// stream is the client's end of a frame stream. Goroutines, both started by
// start and waited for by Close and by Client.Close:
//
//	reader  reads frames, releases the window, feeds frames or calls take; the
//	        only one that reads the carrier and the one that closes frames
//	writer  writes pings, the last frame, and frames that their sender could
//	        not write at once (type pen.Pen). Token streams have none.
//
// A watchdog timer ends the stream when the reader got no byte for the allowed
// silence.
type stream struct {
	// Fixed at start.
	who       string // how errors name the other side
	index     int    // its place on the route, -1 when not known
	accept    func(protocol.Kind) bool
	take      func(*protocol.Frame) // gets what frames would, or nil
	silence   time.Duration
	pingEvery time.Duration
	car       carrier
	win       *flow.Window
	life      context.Context // the owner's; its end cancels the stream
	ctx       context.Context // ends with the stream
	cancel    context.CancelFunc
	frames    chan *protocol.Frame
	out       chan *protocol.Frame
	pen       pen.Pen
	broken    chan error           // of a sender's write, for the writer; room for one
	final     chan *protocol.Frame // the last frame to write; room for one
	closing   sync.Once
	leaving   chan struct{} // closed when Close began: nobody reads frames
	readDone  chan struct{}
	writeDone chan struct{}
	watch     *time.Timer

	mu    sync.Mutex // guards below
	ended bool
	told  bool // the reason came from the other side
	err   *protocol.Error
}

type streamOptions struct {
	who                string
	index              int
	accept             func(protocol.Kind) bool
	take               func(*protocol.Frame)
	silence, pingEvery time.Duration
	window             int64
}

// startStream takes over car. The stream ends when life ends; over is called
// by the reader when it ends.
func startStream(life context.Context, car carrier, o streamOptions, over func(*stream)) *stream {
	ctx, cancel := context.WithCancel(life)
	s := &stream{
		who: o.who, index: o.index, accept: o.accept, take: o.take, silence: o.silence, pingEvery: o.pingEvery,
		car: car, win: flow.NewWindow(o.window), life: life, ctx: ctx, cancel: cancel,
		frames: make(chan *protocol.Frame, 16), out: make(chan *protocol.Frame), broken: make(chan error, 1),
		final:    make(chan *protocol.Frame, 1),
		leaving:  make(chan struct{}),
		readDone: make(chan struct{}), writeDone: make(chan struct{}),
	}
	s.watch = time.AfterFunc(s.silence, func() {
		s.end(protocol.Errorf(protocol.CodeStageFrozen, "%s gave no sign of life for %s", s.who, s.silence))
	})
	stop := context.AfterFunc(life, func() { s.end(s.cancelled()) })
	go func() {
		defer close(s.readDone)
		s.read()
		stop()
		over(s)
	}()
	if car.w == nil {
		close(s.writeDone)
	} else {
		s.pen.Use(protocol.NewFrameWriter(car.w, protocol.SeamLimits()), car.room)
		go func() {
			defer close(s.writeDone)
			s.write()
		}()
	}
	return s
}

func (s *stream) cancelled() *protocol.Error {
	return protocol.Errorf(protocol.CodeCancelled, "the stream's context ended: %w", context.Cause(s.life))
}

// broke says why the carrier failed. The transport closes it by itself when
// life ends, and its error may be seen before that end.
func (s *stream) broke(err error) *protocol.Error {
	if s.life.Err() != nil {
		return s.cancelled()
	}
	return protocol.Errorf(protocol.CodeHopLost, "the connection to %s broke: %w", s.who, err)
}

// end ends the stream; the first reason stays. nil is an end in order.
func (s *stream) end(err *protocol.Error) {
	s.mu.Lock()
	if !s.ended {
		s.ended = true
		if err != nil {
			if s.index >= 0 && err.Code != protocol.CodeCancelled {
				err = err.AtHop(s.index)
			}
			s.err = err
		}
	}
	s.mu.Unlock()
	s.watch.Stop()
	s.cancel()
	s.car.close()
}

// alive is called for every piece of data that came.
func (s *stream) alive() { s.watch.Reset(s.silence) }

type aliveReader struct {
	r     io.Reader
	alive func()
}

func (a aliveReader) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if n > 0 {
		a.alive()
	}
	return n, err
}

func (s *stream) read() {
	defer close(s.frames)
	fr := protocol.NewFrameReader(aliveReader{s.car.r, s.alive}, answerLimits())
	for {
		f, err := fr.Read()
		if err != nil {
			var e *protocol.Error
			if !errors.As(err, &e) && !s.isLeaving() {
				e = s.broke(err)
			}
			s.end(e)
			return
		}
		switch {
		case f.Kind == protocol.KindPing:
			continue
		case f.Kind == protocol.KindClose:
			s.end(nil)
			return
		case f.Kind == protocol.KindError:
			s.deliver(f)
			s.mu.Lock()
			s.told = !s.ended
			s.mu.Unlock()
			s.end(wire.TrimError(f.Err()))
			return
		case !s.accept(f.Kind):
			s.end(protocol.Errorf(protocol.CodeFrameInvalid, "%s sent a %s frame", s.who, f.Kind))
			return
		case f.Kind == protocol.KindAck:
			if _, err := f.Ack(); err != nil {
				s.end(protocol.AsError(err))
				return
			}
			if s.car.w != nil && !s.win.Release(f) {
				s.end(protocol.Errorf(protocol.CodeFrameOrder, "%s acknowledged position %d, which was not the next", s.who, f.Pos))
				return
			}
		}
		if !s.deliver(f) {
			return
		}
	}
}

// answerLimits bounds frames that flow back to the driver or the previous hop:
// acknowledgements, tokens, errors.
func answerLimits() protocol.Limits {
	l := protocol.SeamLimits()
	l.MaxRows, l.MaxWidth, l.MaxPayload = 1, 1, l.MaxControl
	return l
}

// deliver waits for the consumer; meanwhile nothing is read, so the watchdog
// has to rest.
func (s *stream) deliver(f *protocol.Frame) bool {
	if s.take != nil {
		s.take(f)
		return true
	}
	select {
	case s.frames <- f:
		return true
	default:
	}
	s.watch.Stop()
	defer s.watch.Reset(s.silence)
	select {
	case s.frames <- f:
		return true
	case <-s.leaving:
		return true
	case <-s.ctx.Done():
		return false
	}
}

func (s *stream) write() {
	ping := time.NewTimer(s.pingEvery)
	defer ping.Stop()
	for {
		var err error
		select {
		case f := <-s.out:
			err = s.pen.Write(f)
			s.pen.Unqueue()
		case f := <-s.final:
			if err = s.pen.Last(f); err == nil {
				s.car.done()
				return
			}
		case <-ping.C:
			err = s.pen.Write(protocol.ControlFrame(protocol.KindPing, 0, 0, 0))
		case err = <-s.broken:
		case <-s.ctx.Done():
			return
		}
		if err != nil {
			s.writeFailed(err)
			return
		}
		ping.Reset(s.pingEvery)
	}
}

// writeFailed leaves the reader a moment: the other side's own reason, sent
// just before it closed, says more than our broken write.
func (s *stream) writeFailed(err error) {
	var e *protocol.Error
	if errors.As(err, &e) { // we built a frame that must not be sent
		s.end(e)
		return
	}
	wait := time.NewTimer(wire.LastWords)
	defer wait.Stop()
	select {
	case <-s.readDone:
	case <-s.ctx.Done():
	case <-wait.C:
		s.end(s.broke(err))
	}
}

func (s *stream) Send(ctx context.Context, f *protocol.Frame) error {
	_, err := s.Pass(ctx, f)
	return err
}

func (s *stream) Pass(ctx context.Context, f *protocol.Frame) (bool, error) {
	switch {
	case f.Kind.Rows():
		if ok, err := s.win.Acquire(ctx, s.ctx.Done(), f); err != nil || !ok {
			return false, s.reason(err)
		}
	case f.Kind == protocol.KindCancel:
		s.win.Kill(f.Epoch)
	case f.Kind != protocol.KindTruncate:
		return false, protocol.Errorf(protocol.CodeUnsupported, "a %s frame is not for a stream", f.Kind)
	}
	if s.ctx.Err() == nil && ctx.Err() == nil {
		if ok, err := s.pen.Try(f); ok {
			if err != nil {
				s.broken <- err // room: the pen writes nothing after it
			}
			return true, nil
		}
	}
	s.pen.Queue()
	select {
	case s.out <- f: // the writer counts it off
		return true, nil
	case <-s.ctx.Done():
		s.pen.Unqueue()
		return false, s.reason(flow.ErrEnded)
	case <-ctx.Done():
		s.pen.Unqueue()
		return false, context.Cause(ctx)
	}
}

// reason prefers why the stream ended over the fact that it did.
func (s *stream) reason(err error) error {
	if !errors.Is(err, flow.ErrEnded) {
		return err
	}
	if e := s.Err(); e != nil {
		return e
	}
	return protocol.Errorf(protocol.CodeCancelled, "the stream is closed")
}

func (s *stream) Failure(err error) *protocol.Error {
	if s.ctx.Err() != nil {
		return nil
	}
	return protocol.AsError(err)
}

// Done is closed when the reader has ended.
func (s *stream) Done() <-chan struct{} { return s.readDone }

func (s *stream) Ready(f *protocol.Frame) bool {
	return s.win.Free(f) && s.pen.Ready(protocol.HeaderSize+len(f.Payload))
}

func (s *stream) Pending() int { return s.win.Pending() }
func (s *stream) Peak() int64  { return s.win.Peak() }

func (s *stream) Frames() <-chan *protocol.Frame { return s.frames }

func (s *stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		return nil // not a nil *Error in an interface
	}
	return s.err
}

func (s *stream) Close() error {
	s.CloseWith(protocol.ControlFrame(protocol.KindClose, 0, 0, 0))
	return nil
}

func (s *stream) Told() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// CloseWith writes f as the last frame if the other side still takes it within
// wire.LastWords, leaves it as long to end its side, and waits for the goroutines.
func (s *stream) CloseWith(f *protocol.Frame) {
	s.closing.Do(func() {
		close(s.leaving)
		if s.car.w != nil {
			s.final <- f
			limit := time.AfterFunc(2*wire.LastWords, func() { s.end(nil) })
			defer limit.Stop()
			<-s.writeDone
			<-s.readDone
		}
		s.end(nil)
	})
	<-s.readDone
	<-s.writeDone
}

func (s *stream) isLeaving() bool {
	select {
	case <-s.leaving:
		return true
	default:
		return false
	}
}
