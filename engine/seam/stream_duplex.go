package seam

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"neuron/engine/protocol"
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
		return carrier{}, nil, errorf(protocol.CodeInvalidRequest, "address %.100q: %w", hop.Addr, err)
	}
	var body *streamBody
	switch {
	case upgrade:
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", upgradeName)
	case method == http.MethodPost:
		body = newStreamBody(rctx)
		req.Body, req.ContentLength = body, -1
		req.Header.Set("Content-Type", contentFrames)
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
		limit := time.AfterFunc(bodyWait, func() { cancel(errHeaderWait) })
		e := readError(resp)
		limit.Stop()
		resp.Body.Close()
		return fail(e)
	}
	if upgrade {
		rwc, ok := resp.Body.(io.ReadWriteCloser)
		if !ok || resp.Header.Get("Upgrade") != upgradeName {
			resp.Body.Close()
			return fail(errorf(protocol.CodeProtocolVersion, "node %s switched to another protocol", hop.Node.Short()))
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

// adopt makes the stream of an opened connection and keeps it until it ends.
func (c *Client) adopt(life context.Context, car carrier, resp *http.Response, hop protocol.Hop, index int, accept func(protocol.Kind) bool) (Stream, error) {
	window, _ := strconv.ParseInt(resp.Header.Get(headerWindow), 10, 64)
	if i, err := strconv.Atoi(resp.Header.Get(headerHop)); index < 0 && err == nil && i >= 0 && i < protocol.MaxHops {
		index = i
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		car.close()
		return nil, errorf(protocol.CodeShutdown, "the seam client is closed")
	}
	lifeCtx, cancel := context.WithCancel(life)
	stop := context.AfterFunc(c.ctx, cancel)
	s := startStream(lifeCtx, car, streamOptions{
		who: "node " + hop.Node.Short(), index: index, accept: accept, window: window, pingEvery: c.pingEvery,
		silence: c.silence + time.Duration(min(max(hop.StepMicros, 0), maxStepMicros))*time.Microsecond,
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

// maxStepMicros bounds what a stated step time adds to the allowed silence.
const maxStepMicros = 60_000_000
