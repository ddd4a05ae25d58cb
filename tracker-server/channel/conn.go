package channel

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
)

// Conn is one connection. Send and Stop may be called from any goroutine.
type Conn struct {
	hub *Hub
	ip  netip.Addr // that limits count by
	// remote is the peer's address.
	remote netip.Addr
	ws     *websocket.Conn // set once, under mu, before any goroutine of the connection starts
	wake   chan struct{}   // tells the writer of the queue; capacity 1

	// Set by the handshake, before Joined.
	hello *protocol.Hello
	id    protocol.NodeID
	epoch uint64

	mu        sync.Mutex
	queue     [][]byte // that waits for the writer; guarded by mu
	stopped   bool
	stop      chan struct{} // closed when stopped is set
	last      []byte        // sent after the queue, or nil
	closeCode int
	closeText string

	// Owned by the reader.
	tokens  float64
	filled  time.Time
	strikes int
}

// Node is the id of the proven key.
func (c *Conn) Node() protocol.NodeID { return c.id }

// Hello is what the peer said about itself.
func (c *Conn) Hello() *protocol.Hello { return c.hello }

// Epoch is the fencing epoch of the welcome.
func (c *Conn) Epoch() uint64 { return c.epoch }

// Remote is the IP address that the connection comes from.
func (c *Conn) Remote() netip.Addr { return c.remote }

// Send queues a message; it never blocks. A peer that does not read fast
// enough is disconnected, and false comes back then and after the end.
func (c *Conn) Send(e *protocol.Envelope) bool {
	raw, err := encode(e)
	if err != nil {
		c.hub.o.Logger.Error("encode a control message", "kind", e.Kind, "err", err)
		return false
	}
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return false
	}
	full := len(c.queue) >= queueLength
	if !full {
		c.queue = append(c.queue, raw)
	}
	c.mu.Unlock()
	if full {
		c.Stop(nil, websocket.ClosePolicyViolation, "queue full")
		return false
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return true
}

// take empties the queue.
func (c *Conn) take() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queue
	c.queue = nil
	return q
}

// Stop ends the connection after what is queued and one last message (or nil)
// are sent. Only the first call counts.
func (c *Conn) Stop(last *protocol.Envelope, code int, text string) {
	var raw []byte
	if last != nil {
		raw, _ = encode(last) // a kind is always text
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	c.stopped, c.last, c.closeCode, c.closeText = true, raw, code, text
	close(c.stop)
}

// Refuse ends the connection with a reason that the peer can show.
func (c *Conn) Refuse(err *protocol.Error, retry int) {
	last, perr := protocol.Pack(protocol.MsgRefused, 0, protocol.Refused{Error: err, RetryAfter: retry})
	if perr != nil {
		last = nil
	}
	c.Stop(last, websocket.ClosePolicyViolation, string(err.Code))
}

// cut ends the connection without ceremony.
func (c *Conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ws != nil {
		c.ws.Close()
	}
}

// run is the connection's whole life: it starts the writer, reads until the
// end, and waits for the writer.
func (c *Conn) run() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write()
	}()
	joined, bye := c.read()
	c.Stop(nil, websocket.CloseNormalClosure, "")
	<-written
	if joined {
		c.hub.o.Handler.Left(c, bye)
	}
}

// write is the only writer of data frames. It closes the socket at its end,
// which also ends the reader.
func (c *Conn) write() {
	defer c.ws.Close()
	ping := time.NewTicker(c.hub.o.PingEvery)
	defer ping.Stop()
	send := func(raw []byte) bool {
		_ = c.ws.SetWriteDeadline(time.Now().Add(writeTimeout)) // never fails in gorilla
		return c.ws.WriteMessage(websocket.TextMessage, raw) == nil
	}
	// What is sent next may have come while the last was on its way.
	flush := func() bool {
		for q := c.take(); len(q) > 0; q = c.take() {
			for _, raw := range q {
				if !send(raw) {
					return false
				}
			}
		}
		return true
	}
	for {
		select {
		case <-c.wake:
			if !flush() {
				return
			}
		case <-ping.C:
			if c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout)) != nil {
				return
			}
		case <-c.stop:
			if !flush() { // Send adds nothing after stop
				return
			}
			if c.last != nil && !send(c.last) {
				return
			}
			// The close frame is a courtesy; the socket closes anyway.
			_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(c.closeCode, c.closeText), time.Now().Add(time.Second))
			return
		}
	}
}

// read does the handshake and then hands messages to the handler.
func (c *Conn) read() (joined, bye bool) {
	h := c.hub
	c.ws.SetReadLimit(protocol.MaxMessage)
	if err := c.handshake(); err != nil {
		retry := retryAfter
		if e := protocol.AsError(err); e.Code == protocol.CodeProtocolVersion || e.Code == protocol.CodeUnauthorized || e.Code == protocol.CodeInvalidRequest || e.Code == protocol.CodeForbidden {
			retry = 0
		}
		var closed *websocket.CloseError
		if !errors.As(err, &closed) {
			h.o.Logger.Info("refused a connection", "addr", c.ip, "node", c.id.Short(), "err", err)
			c.Refuse(protocol.AsError(err), retry)
		}
		return false, false
	}
	h.o.Handler.Joined(c)
	alive := func() { _ = c.ws.SetReadDeadline(time.Now().Add(2*h.o.PingEvery + h.o.PingEvery/4)) }
	alive()
	c.ws.SetPongHandler(func(string) error { alive(); return nil })
	c.tokens, c.filled = float64(h.o.Burst), time.Now()
	for {
		raw, give, err := receive(c.ws)
		if err != nil {
			return true, false
		}
		alive()
		if bye, end := c.message(raw); end {
			return true, bye
		}
		give()
	}
}

// message handles one message. It reports whether it is the last one, and
// whether the peer said so.
func (c *Conn) message(raw []byte) (bye, end bool) {
	h := c.hub
	if !c.allowed() {
		c.strikes++
		if c.strikes == 1 {
			c.SendError(0, protocol.Errorf(protocol.CodeRateLimited, "more than %d messages a second", h.o.MessagesPerSecond))
		} else if c.strikes > maxStrikes {
			c.Refuse(protocol.Errorf(protocol.CodeRateLimited, "more than %d messages a second", h.o.MessagesPerSecond), retryAfter)
			return false, true
		}
		return false, false
	}
	e, err := parse(raw)
	if err != nil {
		c.SendError(0, protocol.AsError(err))
		return false, false
	}
	if e.Kind == protocol.MsgBye {
		return true, true
	}
	h.o.Handler.Message(h.ctx, c, e)
	return false, false
}

// SendError answers message id with an error.
func (c *Conn) SendError(id uint64, err *protocol.Error) {
	if e, perr := protocol.Pack(protocol.MsgError, id, err); perr == nil {
		c.Send(e)
	}
}

// allowed takes a token of the connection's bucket.
func (c *Conn) allowed() bool {
	now := time.Now()
	o := &c.hub.o
	c.tokens = min(float64(o.Burst), c.tokens+now.Sub(c.filled).Seconds()*float64(o.MessagesPerSecond))
	c.filled = now
	if c.tokens < 1 {
		return false
	}
	c.tokens--
	if c.tokens >= float64(o.Burst)/2 {
		c.strikes = 0
	}
	return true
}
