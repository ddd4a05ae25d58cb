// Package tlsio makes TLS connections that use few system calls for frames: it
// buffers what lies below crypto/tls. It knows nothing of frames or sessions;
// the seam and its benchmark import it.
package tlsio

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// plainConn is what lies below TLS. crypto/tls reads each record in two pieces
// and writes each in one: a row of 16 KiB is two records, and would cost five
// reads and two writes of the system. Here they are one each, mostly.
type plainConn struct {
	net.Conn
	r *bufio.Reader

	mu   sync.Mutex // guards below
	hold bool       // keep what is written until release
	kept []byte
}

// connBuffer holds a decode frame of the usual widths, encrypted.
const connBuffer = 32 << 10

func newPlainConn(c net.Conn) *plainConn {
	return &plainConn{Conn: c, r: bufio.NewReaderSize(c, connBuffer)}
}

func (c *plainConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func (c *plainConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hold {
		return c.Conn.Write(p)
	}
	c.kept = append(c.kept, p...)
	if len(c.kept) >= 4*connBuffer {
		return len(p), c.flushLocked()
	}
	return len(p), nil
}

func (c *plainConn) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = true
}

// release sends what was kept.
func (c *plainConn) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = false
	return c.flushLocked()
}

func (c *plainConn) flushLocked() error {
	if len(c.kept) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.kept)
	c.kept = c.kept[:0]
	return err
}

// clientConn is a TLS connection whose Write sends all its records in one
// piece. One goroutine writes.
type clientConn struct {
	*tls.Conn
	below *plainConn
}

func (c *clientConn) Write(p []byte) (int, error) {
	c.below.keep()
	n, err := c.Conn.Write(p)
	if rerr := c.below.release(); err == nil {
		err = rerr
	}
	return n, err
}

// Dial connects and shakes hands, within wait.
func Dial(ctx context.Context, network, addr string, conf *tls.Config, wait time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	below := newPlainConn(raw)
	c := tls.Client(below, conf)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return &clientConn{c, below}, nil
}

// Listen serves TLS over l.
func Listen(l net.Listener, conf *tls.Config) net.Listener {
	return tls.NewListener(plainListener{l}, conf)
}

// plainListener makes the server's connections plainConns.
type plainListener struct{ net.Listener }

func (l plainListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newPlainConn(c), nil
}
