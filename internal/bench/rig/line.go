package rig

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Line passes TCP connections on to a target, each piece of data some time
// later in both directions: a long line that carries as much as a short one.
// One goroutine accepts, two per direction of a connection read and write;
// Close ends and waits for all.
type Line struct {
	l      net.Listener
	target string
	delay  atomic.Int64    // in nanoseconds
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// NewLine listens on a free port of loopback.
func NewLine(target string, delay time.Duration) (*Line, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("line: %w", err)
	}
	r := &Line{l: l, target: target}
	r.SetDelay(delay)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.work.Go(r.accept)
	return r, nil
}

// SetDelay changes how long data is under way, one way, from now on.
func (r *Line) SetDelay(d time.Duration) { r.delay.Store(int64(d)) }

// Addr is where to dial instead of the target.
func (r *Line) Addr() string { return r.l.Addr().String() }

// Close breaks all connections off.
func (r *Line) Close() {
	r.cancel()
	r.l.Close()
	r.work.Wait()
}

func (r *Line) accept() {
	for {
		in, err := r.l.Accept()
		if err != nil {
			return // closed
		}
		r.work.Go(func() { r.pass(in) })
	}
}

// pass carries a connection in both directions; the end of one ends the other.
func (r *Line) pass(in net.Conn) {
	defer in.Close()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	out, err := new(net.Dialer).DialContext(ctx, "tcp", r.target)
	if err != nil {
		return // the client sees the close
	}
	defer out.Close()
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		ways.Go(func() {
			r.carry(ctx, cancel, way[0], way[1])
		})
	}
	<-ctx.Done()
	in.Close()
	out.Close()
	ways.Wait()
}

// piece is data and when it may go on.
type piece struct {
	data []byte
	at   time.Time
}

// pieces is how much may be on the line; a reader that is further ahead waits.
const pieces = 4096

// carry moves data one way until either end is gone or ctx has ended.
func (r *Line) carry(ctx context.Context, cancel context.CancelFunc, from, to net.Conn) {
	line := make(chan piece, pieces)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(line)
		b := make([]byte, 64<<10)
		for {
			n, err := from.Read(b)
			if n > 0 {
				select {
				case line <- piece{append([]byte(nil), b[:n]...), time.Now().Add(time.Duration(r.delay.Load()))}:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	defer reading.Wait()
	defer cancel() // which closes from
	for p := range line {
		wait := time.NewTimer(time.Until(p.at))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
		}
		if _, err := to.Write(p.data); err != nil {
			return
		}
	}
}
