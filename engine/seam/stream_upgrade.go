package seam

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

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

// wantsUpgrade reports whether r asks for the upgrade carrier.
func wantsUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Connection"), "Upgrade") && r.Header.Get("Upgrade") == upgradeName
}

// upgradeLink takes the connection over from net/http and answers 101.
func upgradeLink(w http.ResponseWriter, rc *http.ResponseController, silence, writeWait time.Duration) (link, error) {
	window := w.Header().Get(headerWindow)
	conn, buf, err := rc.Hijack()
	if err != nil {
		return link{}, err
	}
	conn.SetDeadline(time.Time{})
	conn.SetWriteDeadline(time.Now().Add(writeWait))
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n\r\n",
		upgradeName, headerWindow, window)
	if err != nil {
		conn.Close()
		return link{}, err
	}
	in := &deadlineReader{r: buf.Reader, set: conn.SetReadDeadline, wait: silence}
	return link{
		r: in, stop: in.stop,
		w:     &deadlineWriter{w: conn, set: conn.SetWriteDeadline, flush: func() error { return nil }, wait: writeWait},
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
	if conn.SetReadDeadline(time.Now().Add(lastWords)) == nil {
		_, _ = io.Copy(io.Discard, conn) // only its end matters
	}
}
