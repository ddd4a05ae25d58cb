package control

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
)

// link is one connection: the goroutine of Run reads, one other writes.
type link struct {
	ws *websocket.Conn
	// send carries messages to the writer; done is closed when the connection
	// is over.
	send chan *protocol.Envelope
	done chan struct{}

	mu sync.Mutex
	// Protected by mu.
	answers map[uint64]chan *protocol.Envelope
}

func newLink(ws *websocket.Conn) *link {
	return &link{ws: ws, send: make(chan *protocol.Envelope, 16), done: make(chan struct{}), answers: map[uint64]chan *protocol.Envelope{}}
}

func (l *link) expect(id uint64) <-chan *protocol.Envelope {
	ch := make(chan *protocol.Envelope, 1)
	l.mu.Lock()
	l.answers[id] = ch
	l.mu.Unlock()
	return ch
}

func (l *link) forget(id uint64) {
	l.mu.Lock()
	delete(l.answers, id)
	l.mu.Unlock()
}

// answer delivers e to the question with its id; late and unasked answers are
// dropped.
func (l *link) answer(e *protocol.Envelope) {
	l.mu.Lock()
	ch := l.answers[e.ID]
	delete(l.answers, e.ID)
	l.mu.Unlock()
	if ch != nil {
		ch <- e // has room for the one answer
	}
}

// ending says how a connection ended.
type ending struct {
	err        *protocol.Error
	retryAfter time.Duration // what the tracker asked for, 0: nothing
	refused    bool          // for a reason that a quick retry cannot cure
	welcomed   bool
	stood      time.Duration
}

// maxRetryAfter bounds what a tracker can ask for.
const maxRetryAfter = time.Hour

func clampRetry(seconds int) time.Duration {
	// Clamped before the multiplication, which could overflow.
	return time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
}

// farewell is a Refused, bye or error from the tracker, as an error.
type farewell struct {
	err     *protocol.Error
	retry   time.Duration
	refused bool
}

func (f *farewell) Error() string { return f.err.Error() }

// serve dials, says hello and serves until the connection is over; the result
// always has an error.
func (c *Client) serve(ctx context.Context) (end ending) {
	fail := func(err error) ending {
		var f *farewell
		if errors.As(err, &f) {
			end.err, end.retryAfter, end.refused = f.err, f.retry, f.refused
			return end
		}
		var ce *websocket.CloseError
		var pe *protocol.Error
		switch {
		case errors.As(err, &ce) && ce.Text == string(protocol.CodeSuperseded):
			end.err = protocol.Errorf(protocol.CodeSuperseded, "a newer connection of this node took over")
		case errors.As(err, &pe):
			end.err = pe
		default:
			end.err = protocol.Errorf(protocol.CodeUnavailable, "the connection to the tracker ended: %w", err)
		}
		return end
	}

	ws, err := c.dial(ctx)
	if err != nil {
		return fail(err)
	}
	defer ws.Close()
	ws.SetReadLimit(protocol.MaxMessage)
	stop := context.AfterFunc(ctx, func() { ws.Close() })
	welcome, err := c.hello(ws)
	if !stop() || err != nil {
		if err == nil {
			err = ctx.Err()
		}
		return fail(err)
	}
	end.welcomed = true
	c.keepToken(welcome.AnnounceToken)
	since := c.o.Clock.Now()

	l := newLink(ws)
	var writer sync.WaitGroup
	writer.Go(func() {
		c.write(ctx, l, reportEvery(welcome.ReportSeconds))
		ws.Close()
	})
	c.mu.Lock()
	c.link = l
	close(c.linked)
	c.mu.Unlock()
	c.setState(State{Status: StatusConnected, Epoch: welcome.Epoch, Network: cleanName(welcome.Network)})
	c.o.Logger.Info("control channel connected", "epoch", welcome.Epoch)
	if c.o.OnWelcome != nil {
		c.o.OnWelcome(*welcome)
	}

	err = c.read(l)
	c.mu.Lock()
	c.link = nil
	c.linked = make(chan struct{})
	c.mu.Unlock()
	close(l.done)
	writer.Wait()
	end.stood = c.o.Clock.Now().Sub(since)
	return fail(err)
}

func reportEvery(seconds int) time.Duration {
	return time.Duration(min(max(seconds, 1), 300)) * time.Second
}

func readEnvelope(ws *websocket.Conn) (*protocol.Envelope, error) {
	kind, raw, err := ws.ReadMessage()
	if err != nil {
		return nil, err
	}
	if kind != websocket.TextMessage {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the tracker sent a binary message")
	}
	return protocol.ParseEnvelope(raw)
}

// read serves inbound messages until the connection ends, and says why.
func (c *Client) read(l *link) error {
	alive := func() { l.ws.SetReadDeadline(time.Now().Add(c.o.Silence)) }
	l.ws.SetPingHandler(func(data string) error {
		alive()
		err := l.ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(c.o.WriteTimeout))
		if ne := net.Error(nil); errors.Is(err, websocket.ErrCloseSent) || errors.As(err, &ne) && ne.Timeout() {
			return nil
		}
		return err
	})
	for {
		alive()
		e, err := readEnvelope(l.ws)
		if err != nil {
			return err
		}
		if err := c.inbound(l, e); err != nil {
			return err
		}
	}
}
