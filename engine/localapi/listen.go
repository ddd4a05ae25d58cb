package localapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
)

// Events calls f for each state change, the present state first, until ctx
// ends (nil) or f returns an error (that error). f is called by the caller's
// goroutine. Errors: unavailable when the engine stops, was restarted, or says
// nothing any more; unauthorized when its token is another one now.
func (c *Client) Events(ctx context.Context, f func(Event) error) error {
	d := websocket.Dialer{NetDialContext: c.dial, HandshakeTimeout: dialTimeout, ReadBufferSize: 4 << 10, WriteBufferSize: 1 << 10}
	ws, resp, err := d.DialContext(ctx, "ws"+strings.TrimPrefix(c.addr.URL, "http")+pathEvents,
		http.Header{"Authorization": {"Bearer " + c.addr.Token}})
	if resp != nil {
		defer resp.Body.Close()
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, websocket.ErrBadHandshake):
		return c.refused(resp)
	default:
		return c.lost(err)
	}
	// The end of ctx ends a Read that waits.
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
		case <-over:
		}
		ws.Close()
	})
	defer watch.Wait()
	defer close(over)
	ws.SetReadLimit(maxAnswer)
	heard := func() { ws.SetReadDeadline(time.Now().Add(silence)) }
	ws.SetPingHandler(func(data string) error {
		heard()
		// What cannot be answered shows at the next read.
		_ = ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(time.Second))
		return nil
	})
	for {
		heard()
		_, raw, err := ws.ReadMessage()
		switch {
		case ctx.Err() != nil:
			return nil
		case websocket.IsCloseError(err, wireTokenChanged):
			return tokenGone()
		case err != nil:
			return c.lost(err)
		}
		var e Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return protocol.Errorf(protocol.CodeInvalidRequest, "the engine's event is malformed: %w", err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
}
