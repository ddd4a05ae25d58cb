package seamclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/tlsio"
	"neuron/engine/seam/wire"
)

// carrier is an established connection that moves frames in both directions.
// One goroutine reads, one writes; done and close may be called from any.
type carrier struct {
	r io.Reader
	w io.Writer // nil for token streams
	// room says how many bytes w takes without waiting for the other side; nil:
	// not known.
	room func() int
	// done says that nothing more will be written.
	done func()
	// close ends both directions at once and unblocks reader and writer.
	close func()
}

var (
	errHeaderWait = errors.New("no response headers in time")
	errNoSign     = errors.New("no sign of life")
)

// streamBody is the request body of a full-duplex POST. The transport hands it
// what it writes the connection with (WriteTo), and each Write goes there on the
// caller's own goroutine: through a pipe it would wake the transport's writer and
// be woken by it. A transport that reads instead gets the same from Read. Both end
// with the context, whatever the writer does; without that the transport's round
// trip would outlive its deadline.
type streamBody struct {
	read  *io.PipeReader
	write *io.PipeWriter
	began chan struct{} // closed when the transport has chosen
	once  sync.Once
	ended context.Context // nothing is written after its end
	end   context.CancelCauseFunc

	mu  sync.Mutex // held while writing; guards dst
	dst io.Writer  // set by WriteTo while it runs
}

func newStreamBody(ctx context.Context) *streamBody {
	b := &streamBody{began: make(chan struct{})}
	b.read, b.write = io.Pipe()
	b.ended, b.end = context.WithCancelCause(ctx)
	context.AfterFunc(b.ended, func() { b.write.CloseWithError(context.Cause(b.ended)) })
	return b
}

func (b *streamBody) begin() { b.once.Do(func() { close(b.began) }) }

// WriteTo implements io.WriterTo; it returns when the body is over.
func (b *streamBody) WriteTo(w io.Writer) (int64, error) {
	b.mu.Lock()
	b.dst = w
	b.mu.Unlock()
	b.begin()
	<-b.ended.Done()
	b.mu.Lock() // the transport goes on where the last write ended
	defer b.mu.Unlock()
	b.dst = nil
	if err := context.Cause(b.ended); !errors.Is(err, io.EOF) {
		return 0, err
	}
	return 0, nil
}

// Read implements io.Reader.
func (b *streamBody) Read(p []byte) (int, error) {
	b.begin()
	return b.read.Read(p)
}

// Write sends p; one goroutine at a time writes.
func (b *streamBody) Write(p []byte) (int, error) {
	select {
	case <-b.began:
	case <-b.ended.Done():
	}
	b.mu.Lock()
	if b.ended.Err() != nil {
		b.mu.Unlock()
		return 0, io.ErrClosedPipe
	}
	if b.dst != nil {
		defer b.mu.Unlock()
		return b.dst.Write(p)
	}
	b.mu.Unlock()
	return b.write.Write(p)
}

// finish ends the body in order.
func (b *streamBody) finish() { b.end(io.EOF) }

// Close is called by the transport when it reads no more, and by us on every
// exit; a Write then fails.
func (b *streamBody) Close() error {
	b.end(io.ErrClosedPipe)
	return nil
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
	var conn net.Conn // written before RoundTrip has returned
	traced = httptrace.WithClientTrace(traced, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { conn = i.Conn }})
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
		return upgradeCarrier(rwc, tlsio.Room(conn), cancel), resp, nil
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
		car.w, car.room = body, tlsio.Room(conn)
		car.done = body.finish
	}
	return car, resp, nil
}

// upgradeCarrier moves frames on the bare connection that the transport hands
// over after a 101. The transport no longer watches it: only close ends it.
func upgradeCarrier(rwc io.ReadWriteCloser, room func() int, cancel context.CancelCauseFunc) carrier {
	var once sync.Once
	return carrier{r: rwc, w: rwc, room: room, done: func() {}, close: func() {
		once.Do(func() {
			rwc.Close()
			cancel(context.Canceled)
		})
	}}
}
