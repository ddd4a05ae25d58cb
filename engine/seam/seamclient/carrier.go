package seamclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/wire"
)

// carrier is an established connection that moves frames in both directions.
// One goroutine reads, one writes; done and close may be called from any.
type carrier struct {
	r io.Reader
	w io.Writer // nil for token streams
	// done says that nothing more will be written.
	done func()
	// close ends both directions at once and unblocks reader and writer.
	close func()
}

var (
	errHeaderWait = errors.New("no response headers in time")
	errNoSign     = errors.New("no sign of life")
)

// streamBody is the request body of a full-duplex POST: what the writer puts
// in one Write comes out of Read. Its Read ends with the context, whatever the
// writer does; without that the transport's round trip would outlive its
// deadline.
type streamBody struct {
	*io.PipeReader
	w    *io.PipeWriter
	stop func() bool
}

func newStreamBody(ctx context.Context) *streamBody {
	r, w := io.Pipe()
	b := &streamBody{PipeReader: r, w: w}
	b.stop = context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
	return b
}

// Close is called by the transport when it reads no more, and by us on every
// exit; a blocked Write then fails.
func (b *streamBody) Close() error {
	b.stop()
	return b.PipeReader.Close()
}

// dial makes the request of a stream and waits for its headers, at most wait
// and as long as ctx. The connection lives as long as life.
func (c *Client) dial(life, ctx context.Context, hop protocol.Hop, method, path string, upgrade bool, wait time.Duration) (carrier, *http.Response, *protocol.Error) {
	t, err := c.transport(hop.Node)
	if err != nil {
		return carrier{}, nil, protocol.AsError(err)
	}
	rctx, cancel := context.WithCancelCause(life)
	traced, stopWatch := c.expectSigns(rctx, cancel)
	defer stopWatch()
	req, err := http.NewRequestWithContext(traced, method, "https://"+hop.Addr+path, nil)
	if err != nil {
		cancel(err)
		return carrier{}, nil, protocol.Errorf(protocol.CodeInvalidRequest, "address %.100q: %w", hop.Addr, err)
	}
	var body *streamBody
	switch {
	case upgrade:
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", wire.UpgradeName)
	case method == http.MethodPost:
		body = newStreamBody(rctx)
		req.Body, req.ContentLength = body, -1
		req.Header.Set("Content-Type", wire.ContentFrames)
		req.Close = true // a stream's connection is never used again
	default:
		req.Close = true
	}
	fail := func(e *protocol.Error) (carrier, *http.Response, *protocol.Error) {
		cancel(e)
		if body != nil {
			body.Close()
		}
		return carrier{}, nil, e
	}
	timer := time.AfterFunc(wait, func() { cancel(errHeaderWait) })
	stopOpening := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	stopClient := context.AfterFunc(c.ctx, func() { cancel(context.Canceled) })
	resp, err := t.RoundTrip(req)
	timer.Stop()
	stopWatch()
	stopOpening()
	stopClient()
	if err == nil && context.Cause(rctx) != nil {
		resp.Body.Close()
		err = context.Cause(rctx)
	}
	if err != nil {
		return fail(c.lost(rctx, hop, protocol.CodeHopLost, err))
	}
	want := http.StatusOK
	if upgrade {
		want = http.StatusSwitchingProtocols
	}
	if resp.StatusCode != want {
		// The answer's own timer: the body is short, but the peer hostile.
		limit := time.AfterFunc(wire.BodyWait, func() { cancel(errHeaderWait) })
		e := wire.ReadError(resp)
		limit.Stop()
		resp.Body.Close()
		return fail(e)
	}
	if upgrade {
		rwc, ok := resp.Body.(io.ReadWriteCloser)
		if !ok || resp.Header.Get("Upgrade") != wire.UpgradeName {
			resp.Body.Close()
			return fail(protocol.Errorf(protocol.CodeProtocolVersion, "node %s switched to another protocol", hop.Node.Short()))
		}
		return upgradeCarrier(rwc, cancel), resp, nil
	}
	var once sync.Once
	car := carrier{r: resp.Body, done: func() {}, close: func() {
		once.Do(func() {
			cancel(context.Canceled)
			if body != nil {
				body.Close()
			}
			resp.Body.Close()
		})
	}}
	if body != nil {
		car.w = body.w
		car.done = func() { body.w.Close() }
	}
	return car, resp, nil
}

// upgradeCarrier moves frames on the bare connection that the transport hands
// over after a 101. The transport no longer watches it: only close ends it.
func upgradeCarrier(rwc io.ReadWriteCloser, cancel context.CancelCauseFunc) carrier {
	var once sync.Once
	return carrier{r: rwc, w: rwc, done: func() {}, close: func() {
		once.Do(func() {
			rwc.Close()
			cancel(context.Canceled)
		})
	}}
}
