package rig

import (
	"context"
	"fmt"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamclient"
)

// Route is a session over nodes, driven straight over the seams. One goroutine
// uses it.
type Route struct {
	n      *Network
	ctx    context.Context
	cancel context.CancelFunc
	lease  *protocol.Lease
	stream seamclient.Stream
	tokens seamclient.TokenStream

	epoch, pos uint32
	next       int32
	// Frames sent that the tail has not acknowledged yet.
	unacked int
	// Compute is the time in the model that the tail stated for each frame.
	Compute []time.Duration
}

// stuck is how long a route may give no sign before the run fails.
const stuck = 2 * time.Minute

// Open opens a session with so many KV cells on every node of a route, in order.
// The caller closes the route.
func (n *Network) Open(ctx context.Context, cells int, nodes ...*Node) (_ *Route, err error) {
	r := &Route{n: n}
	signed, lease, err := n.lease(protocol.NewSessionID(), cells, nodes...)
	if err != nil {
		return nil, err
	}
	r.lease = lease
	r.ctx, r.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	tail := len(nodes) - 1
	for i, h := range lease.Hops {
		req := &protocol.OpenRequest{Lease: signed, Hop: i}
		if i == tail {
			req.Sampler = &protocol.Sampler{}
		}
		// A node learns the tracker's key a moment after its stage is ready.
		if err := Retry(ctx, func() error { _, err := n.client.Open(ctx, h, req); return err }); err != nil {
			return nil, err
		}
	}
	if r.tokens, err = n.client.Tokens(r.ctx, lease.Hops[tail], lease.Session); err != nil {
		return nil, err
	}
	r.stream, err = n.client.Stream(r.ctx, lease.Hops[0], lease.Session)
	return r, err
}

// Close ends the session and frees it on all hops.
func (r *Route) Close() {
	if r.stream != nil {
		r.stream.Close()
	}
	if r.tokens != nil {
		r.tokens.Close()
	}
	r.cancel()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), 10*time.Second)
	defer cancel()
	for _, h := range r.lease.Hops {
		// A hop that does not answer keeps the session until its lease ends;
		// its process is stopped before that.
		_ = r.n.client.Release(ctx, h, r.lease.Session)
	}
}

// rewind forgets everything, which keeps the session's KV memory.
func (r *Route) rewind() error {
	r.epoch++
	r.pos = 0
	return r.stream.Send(r.ctx, protocol.ControlFrame(protocol.KindTruncate, 0, r.epoch, 0))
}

func (r *Route) send(f *protocol.Frame) error {
	f.Epoch = r.epoch
	r.pos += f.Rows
	r.unacked++
	return r.stream.Send(r.ctx, f)
}

// await handles one sign of the route; true for the token of a sampled row.
func (r *Route) await() (bool, error) {
	timer := time.NewTimer(stuck)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return false, fmt.Errorf("no sign of the route for %s", stuck)
		case f, ok := <-r.stream.Frames():
			switch {
			case !ok:
				return false, fmt.Errorf("row stream ended: %w", r.stream.Err())
			case f.Kind == protocol.KindError:
				return false, f.Err()
			}
		case f, ok := <-r.tokens.Frames():
			switch {
			case !ok:
				return false, fmt.Errorf("token stream ended: %w", r.tokens.Err())
			case f.Kind == protocol.KindError:
				return false, f.Err()
			case f.Kind == protocol.KindAck:
				r.unacked--
				a, err := f.Ack()
				r.Compute = append(r.Compute, time.Duration(a.Compute)*time.Microsecond)
				return false, err
			case f.Kind == protocol.KindToken:
				t, err := f.Token()
				if err == nil && f.Pos != r.pos {
					err = fmt.Errorf("token at position %d, expected %d", f.Pos, r.pos)
				}
				r.next = t.ID
				return true, err
			}
		}
	}
}

// Prefill starts over with a prompt, at most inFlight chunks under way, and
// says how long it took to its first token.
func (r *Route) Prefill(ids []int32, chunk, inFlight int) (time.Duration, error) {
	if r.pos > 0 {
		if err := r.rewind(); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for pos := 0; pos < len(ids); pos += chunk {
		for r.unacked >= inFlight {
			if _, err := r.await(); err != nil {
				return 0, err
			}
		}
		end := min(pos+chunk, len(ids))
		f := protocol.IDFrame(protocol.KindPrefill, uint32(pos), ids[pos:end])
		if end == len(ids) {
			f.Flags = protocol.FlagSample
		}
		if err := r.send(f); err != nil {
			return 0, err
		}
	}
	err := r.token()
	return time.Since(began), err
}

// token waits for the token of the last row sent.
func (r *Route) token() error {
	for {
		if got, err := r.await(); got || err != nil {
			return err
		}
	}
}

// Decode makes steps and adds the time of each to times, which may be nil.
func (r *Route) Decode(steps int, times *[]time.Duration) (time.Duration, error) {
	began := time.Now()
	last := began
	for range steps {
		f := protocol.IDFrame(protocol.KindDecode, r.pos, []int32{r.next})
		f.Flags = protocol.FlagSample
		if err := r.send(f); err != nil {
			return 0, err
		}
		if err := r.token(); err != nil {
			return 0, err
		}
		now := time.Now()
		if times != nil {
			*times = append(*times, now.Sub(last))
		}
		last = now
	}
	return last.Sub(began), nil
}
