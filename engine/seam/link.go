package seam

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"neuron/engine/seam/tlsio"
	"neuron/engine/seam/wire"
)

// link is the server's end of a frame stream, over either carrier. read is
// used by one goroutine, write by another.
type link struct {
	r io.Reader // sets its deadline before each read
	w io.Writer // sets its deadline before each write, and flushes
	// room says how many bytes w takes without waiting for the other side; nil:
	// not known.
	room func() int
	// stop makes reads fail from now on; close ends the connection in order
	// and is called when nobody reads or writes any more.
	stop  func()
	close func()
}

// connKey is where a request's context has its connection.
type connKey struct{}

// withConn is the server's ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// roomOf is the room of a request's connection.
func roomOf(r *http.Request) func() int {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	return tlsio.Room(c)
}

// duplexLink answers the opener and returns the link over request and response
// body. The headers are flushed before the first read of the body.
func duplexLink(w http.ResponseWriter, r *http.Request, rc *http.ResponseController, silence, writeWait time.Duration) (link, error) {
	w.Header().Set("Content-Type", wire.ContentFrames)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Connection", "close") // its deadlines would hit the next request
	rc.SetWriteDeadline(time.Now().Add(writeWait))
	w.WriteHeader(http.StatusOK)
	if err := rc.Flush(); err != nil {
		return link{}, err
	}
	in := &deadlineReader{r: r.Body, set: rc.SetReadDeadline, wait: silence}
	return link{
		r: in, stop: in.stop,
		w:     &deadlineWriter{w: w, set: rc.SetWriteDeadline, flush: rc.Flush, wait: writeWait},
		room:  roomOf(r),
		close: func() { rc.SetWriteDeadline(time.Now().Add(wire.LastWords)) }, // for the end of the body
	}, nil
}

// deadlineReader gives each read its own deadline until stop.
type deadlineReader struct {
	r    io.Reader
	set  func(time.Time) error
	wait time.Duration

	mu      sync.Mutex // guards below and the order of set
	stopped bool
}

func (d *deadlineReader) Read(p []byte) (int, error) {
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return 0, os.ErrDeadlineExceeded
	}
	err := d.set(time.Now().Add(d.wait))
	d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return d.r.Read(p)
}

// stop makes a running read and all later ones fail.
func (d *deadlineReader) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	_ = d.set(time.Unix(1, 0)) // a connection that is gone reads no more either
}

// deadlineWriter gives each frame its own deadline and sends it off.
type deadlineWriter struct {
	w     io.Writer
	set   func(time.Time) error
	flush func() error
	wait  time.Duration
}

func (d *deadlineWriter) Write(p []byte) (int, error) {
	if err := d.set(time.Now().Add(d.wait)); err != nil {
		return 0, err
	}
	n, err := d.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, d.flush()
}

// wantsUpgrade reports whether r asks for the upgrade carrier.
func wantsUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Connection"), "Upgrade") && r.Header.Get("Upgrade") == wire.UpgradeName
}

// upgradeLink takes the connection over from net/http and answers 101.
func upgradeLink(w http.ResponseWriter, rc *http.ResponseController, silence, writeWait time.Duration) (link, error) {
	window := w.Header().Get(wire.HeaderWindow)
	conn, buf, err := rc.Hijack()
	if err != nil {
		return link{}, err
	}
	conn.SetDeadline(time.Time{})
	conn.SetWriteDeadline(time.Now().Add(writeWait))
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n\r\n",
		wire.UpgradeName, wire.HeaderWindow, window)
	if err != nil {
		conn.Close()
		return link{}, err
	}
	in := &deadlineReader{r: buf.Reader, set: conn.SetReadDeadline, wait: silence}
	return link{
		r: in, stop: in.stop,
		w:     &deadlineWriter{w: conn, set: conn.SetWriteDeadline, flush: func() error { return nil }, wait: writeWait},
		room:  tlsio.Room(conn),
		close: func() { closeGently(conn) },
	}, nil
}

// closeGently ends our side and takes what the other one still sends for a
// moment: closing with unread data would reset the connection, and the other
// side would lose our last frame.
func closeGently(conn net.Conn) {
	defer conn.Close()
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		if c.CloseWrite() != nil {
			return
		}
	}
	if conn.SetReadDeadline(time.Now().Add(wire.LastWords)) == nil {
		_, _ = io.Copy(io.Discard, conn) // only its end matters
	}
}
