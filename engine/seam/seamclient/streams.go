package seamclient

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/wire"
)

// Stream is the sending side of a session on one hop.
type Stream interface {
	// Send hands over a row, truncate or cancel frame and returns when it is
	// next to be written or has been. Row frames wait while the hop's window is full: at
	// most Capability.InFlightBytes payload bytes and four chunks are
	// unacknowledged. Send fails with the stream's error when it has ended and
	// with ctx's cause when ctx ends. The stream owns f afterwards. Row frames
	// come from one goroutine; a cancel may come from another and overtakes
	// rows that wait.
	Send(ctx context.Context, f *protocol.Frame) error
	// Frames delivers acknowledgements and at most one error frame, which is
	// the last; it is closed when the stream has ended. It must be read:
	// acknowledgements that wait there stop the stream.
	Frames() <-chan *protocol.Frame
	// Err says why the stream ended, valid after Frames is closed: nil after
	// Close or when the other side closed in order, else a *protocol.Error.
	Err() error
	// Close ends the session on this hop and on all behind it, in order, and
	// waits for the stream's goroutines; idempotent, safe for concurrent use.
	Close() error
}

// TokenStream delivers what the tail produces.
type TokenStream interface {
	// Frames delivers token frames and acknowledgements of the tail in the
	// order of execution, and an error frame last when the session failed.
	Frames() <-chan *protocol.Frame
	// Err is as in Stream.
	Err() error
	// Close ends the stream; the tail then ends the session as cancelled, so
	// close the Stream first. Idempotent, safe for concurrent use.
	Close() error
}

// Downstream is a hop's stream to the next one, with what its session has to
// know to account for rows and to name who failed. What the next hop answers goes
// to the function that Client.Downstream was given.
type Downstream interface {
	// Send and Err are as in Stream, Err after Done.
	Send(ctx context.Context, f *protocol.Frame) error
	Err() error
	// Done is closed when the stream has ended.
	Done() <-chan struct{}
	// Pass is Send, and reports whether f went out: frames of cancelled epochs
	// do not.
	Pass(ctx context.Context, f *protocol.Frame) (bool, error)
	// Ready reports whether Pass would write f, a row frame, now and without
	// waiting for the other side. One goroutine at a time asks.
	Ready(f *protocol.Frame) bool
	// Failure is err of a Pass, or nil when the stream ended: whoever waits for
	// Done tells that with the full reason.
	Failure(err error) *protocol.Error
	// CloseWith is Stream's Close with a last frame that tells the other side why.
	CloseWith(last *protocol.Frame)
	// Told reports whether the stream's error was told by the other side.
	Told() bool
	// Pending is the number of row frames in flight, Peak the largest number
	// of payload bytes that ever were.
	Pending() int
	Peak() int64
}

// Stream opens the session's frame stream to hop, the route's first one, and
// through it the whole chain: a stream means that every hop stands. The
// session lives as long as ctx and the stream.
func (c *Client) Stream(ctx context.Context, hop protocol.Hop, s protocol.SessionID) (Stream, error) {
	st, err := c.openStream(ctx, ctx, hop, 0, s, c.headerWait, nil)
	if err != nil {
		return nil, err.InPhase(protocol.PhaseOpening)
	}
	return st, nil
}

// Tokens opens the stream of tokens from the route's last hop to the driver.
func (c *Client) Tokens(ctx context.Context, hop protocol.Hop, s protocol.SessionID) (TokenStream, error) {
	car, resp, err := c.dial(ctx, ctx, hop, http.MethodGet, wire.TokensPath(s), false, c.headerWait)
	if err != nil {
		return nil, err.InPhase(protocol.PhaseOpening)
	}
	st, aerr := c.adopt(ctx, car, resp, hop, -1, func(k protocol.Kind) bool {
		return k == protocol.KindToken || k == protocol.KindAck
	}, nil)
	if aerr != nil {
		return nil, aerr
	}
	return st, nil
}

// Downstream opens the session's stream to hop, the route's hop index, for the
// hop before it. The stream lives as long as life; ctx bounds only its opening,
// wait how long that takes. take gets the frames that Stream.Frames would deliver,
// on the goroutine that reads them: it must not wait, but may send what an
// acknowledgement has made room for.
func (c *Client) Downstream(life, ctx context.Context, hop protocol.Hop, index int, s protocol.SessionID, wait time.Duration, take func(*protocol.Frame)) (Downstream, *protocol.Error) {
	st, err := c.openStream(life, ctx, hop, index, s, wait, take)
	if err != nil {
		return nil, err // not a typed nil in st
	}
	return st, nil
}

// openStream opens a frame stream to the route's hop index. The stream lives
// as long as life; ctx bounds only its opening.
func (c *Client) openStream(life, ctx context.Context, hop protocol.Hop, index int, s protocol.SessionID, wait time.Duration, take func(*protocol.Frame)) (*stream, *protocol.Error) {
	car, resp, err := c.dial(life, ctx, hop, http.MethodPost, wire.StreamPath(s), c.upgrade, wait)
	if err != nil {
		if err.Code != protocol.CodeCancelled {
			err = err.AtHop(index)
		}
		return nil, err
	}
	return c.adopt(life, car, resp, hop, index, func(k protocol.Kind) bool { return k == protocol.KindAck }, take)
}

// adopt makes the stream of an opened connection and keeps it until it ends.
func (c *Client) adopt(life context.Context, car carrier, resp *http.Response, hop protocol.Hop, index int, accept func(protocol.Kind) bool, take func(*protocol.Frame)) (*stream, *protocol.Error) {
	window, _ := strconv.ParseInt(resp.Header.Get(wire.HeaderWindow), 10, 64)
	if i, err := strconv.Atoi(resp.Header.Get(wire.HeaderHop)); index < 0 && err == nil && i >= 0 && i < protocol.MaxHops {
		index = i
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		car.close()
		return nil, protocol.Errorf(protocol.CodeShutdown, "the seam client is closed")
	}
	lifeCtx, cancel := context.WithCancel(life)
	stop := context.AfterFunc(c.ctx, cancel)
	s := startStream(lifeCtx, car, streamOptions{
		who: "node " + hop.Node.Short(), index: index, accept: accept, take: take, window: window, pingEvery: c.pingEvery,
		silence: wire.Silence(c.silence, hop),
	}, func(s *stream) {
		stop()
		cancel()
		c.mu.Lock()
		delete(c.streams, s)
		c.mu.Unlock()
	})
	c.streams[s] = struct{}{}
	return s, nil
}
