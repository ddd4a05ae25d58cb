package control

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
)

// write is the only goroutine that sends messages; it returns when the
// connection is over, or after an orderly bye when ctx ends.
func (c *Client) write(ctx context.Context, l *link, every time.Duration) {
	put := func(e *protocol.Envelope) bool {
		b, err := json.Marshal(e)
		if err != nil || len(b) > protocol.MaxMessage {
			c.o.Logger.Error("control message not sent", "kind", string(e.Kind), "bytes", len(b), "error", err)
			return true
		}
		l.ws.SetWriteDeadline(time.Now().Add(c.o.WriteTimeout))
		return l.ws.WriteMessage(websocket.TextMessage, b) == nil
	}
	report := func() bool {
		if c.o.Report == nil {
			return true
		}
		e, err := protocol.Pack(protocol.MsgReport, 0, c.o.Report())
		if err != nil {
			c.o.Logger.Error("report not encoded", "error", err)
			return true
		}
		return put(e)
	}
	flush := func() bool {
		for {
			kind, body, ok := c.out.next()
			if !ok {
				return true
			}
			e, err := protocol.Pack(kind, 0, body)
			if err != nil {
				c.o.Logger.Error("message not encoded", "kind", string(kind), "error", err)
				continue
			}
			if !put(e) {
				c.out.unget(body)
				return false
			}
		}
	}
	if !report() || !flush() {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ok := true; ok; {
		select {
		case <-l.done:
			return
		case <-ctx.Done():
			flush()
			if bye, err := protocol.Pack(protocol.MsgBye, 0, struct{}{}); err == nil {
				put(bye)
			}
			_ = l.ws.WriteControl( // a courtesy on the way out
				websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
			return
		case e := <-l.send:
			ok = put(e)
		case <-c.out.wake:
			ok = flush()
		case <-c.report:
			ok = report()
		case <-tick.C:
			ok = report()
		}
	}
}
