package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Proxy passes TCP connections on to a target until it is told to break them.
// It is safe for concurrent use. One goroutine accepts and two copy per
// connection; Close ends and waits for all.
type Proxy struct {
	l      net.Listener
	target string
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	swallow atomic.Bool

	mu    sync.Mutex
	conns map[*net.TCPConn]struct{} // both sides of each connection; guarded by mu
}

// NewProxy listens on a free port of loopback.
func NewProxy(target string) (*Proxy, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{l: l, target: target, conns: map[*net.TCPConn]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.work.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Swallow says whether bytes vanish: connections stay open, and nothing more
// arrives at either end. Connections that lost bytes are cut when it ends.
func (p *Proxy) Swallow(on bool) {
	p.swallow.Store(on)
	if !on {
		p.Reset()
	}
}

// Reset cuts all connections with a reset; new ones pass.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.SetLinger(0) // the close then sends a reset
		c.Close()
	}
}

// Close cuts everything and waits.
func (p *Proxy) Close() {
	p.cancel()
	p.l.Close()
	p.Reset()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(c.(*net.TCPConn)) })
	}
}

// keep registers a connection, unless the proxy is closed.
func (p *Proxy) keep(c *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c *net.TCPConn) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	c.Close()
}

func (p *Proxy) serve(in *net.TCPConn) {
	defer p.drop(in)
	if !p.keep(in) {
		return
	}
	c, err := new(net.Dialer).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		_ = in.SetLinger(0)
		return
	}
	out := c.(*net.TCPConn)
	defer p.drop(out)
	if !p.keep(out) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { p.copy(in, out) })
	p.copy(out, in)
	back.Wait()
}

// copy moves bytes until src ends; the end is passed on, a failure cuts both.
func (p *Proxy) copy(dst, src *net.TCPConn) {
	b := make([]byte, 64<<10)
	for {
		n, err := src.Read(b)
		if n > 0 && !p.swallow.Load() {
			if _, werr := dst.Write(b[:n]); werr != nil {
				err = werr
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && !p.swallow.Load():
			_ = dst.CloseWrite()
			return
		case errors.Is(err, io.EOF): // the end is swallowed as well
			return
		default:
			dst.Close()
			src.Close()
			return
		}
	}
}
