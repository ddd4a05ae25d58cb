package worker

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostIncoming bounds the connections that others have open to us, with
	// those that have not said yet what they want.
	mostIncoming = 512
	// acceptPause is between two failed accepts: without it a lack of file
	// descriptors keeps a core busy.
	acceptPause = 100 * time.Millisecond
	dialTimeout = 10 * time.Second
)

// gate decides who may connect, in both directions. The library keeps bans by
// address too, but compares them in forms that do not always match (an IPv4
// address of four bytes and of sixteen), so ours is asked first.
type gate struct {
	mu  sync.RWMutex
	bad func() []string // the library's list; set once the client exists
}

func (g *gate) banned(a netip.Addr) bool {
	g.mu.RLock()
	list := g.bad
	g.mu.RUnlock()
	if list == nil {
		return false
	}
	for _, s := range list() {
		if b, err := netip.ParseAddr(s); err == nil && b.Unmap() == a {
			return true
		}
	}
	return false
}

func (g *gate) setList(list func() []string) {
	g.mu.Lock()
	g.bad = list
	g.mu.Unlock()
}

// admits reports whether a connection with this address may stand. Addresses
// with a zone (IPv6 link-local) are refused: the library panics when it wants
// to ban one.
func (g *gate) admits(addr net.Addr) bool {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return false
	}
	a := ap.Addr().Unmap()
	return a.Zone() == "" && !g.banned(a)
}

// peerListener is where peers connect.
type peerListener struct {
	net.Listener
	gate *gate
	open atomic.Int64
}

// Accept implements net.Listener; errors but the end are waited out.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil:
			time.Sleep(acceptPause)
			continue
		case l.open.Load() >= mostIncoming || !l.gate.admits(c.RemoteAddr()):
			_ = c.Close() // nobody is left to tell
			continue
		}
		l.open.Add(1)
		return &countedConn{Conn: c, open: &l.open}, nil
	}
}

// countedConn gives its place back when it is closed.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// peerDialer makes connections to peers, from the address that is listened on
// when it is one of the computer's own.
type peerDialer struct {
	gate  *gate
	local *net.TCPAddr // without a port; nil: any
}

var errBanned = errors.New("the peer is banned")

// Dial implements the library's dialer.
func (d *peerDialer) Dial(ctx context.Context, addr string) (net.Conn, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	if !d.gate.admits(net.TCPAddrFromAddrPort(ap)) {
		return nil, errBanned
	}
	nd := net.Dialer{Timeout: dialTimeout, KeepAlive: -1}
	to := ap.Addr().Unmap()
	if d.local != nil && (d.local.IP.To4() != nil) == to.Is4() && d.local.IP.IsLoopback() == to.IsLoopback() {
		nd.LocalAddr = d.local
	}
	return nd.DialContext(ctx, "tcp", addr)
}

// DialerNetwork implements the library's dialer.
func (d *peerDialer) DialerNetwork() string { return "tcp" }

// localFor is the source of outgoing connections: the address that is listened
// on, unless that is "all".
func localFor(addr net.Addr) *net.TCPAddr {
	t, ok := addr.(*net.TCPAddr)
	if !ok || t.IP.IsUnspecified() {
		return nil
	}
	return &net.TCPAddr{IP: t.IP}
}
