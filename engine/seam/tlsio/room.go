//go:build linux || darwin

package tlsio

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Room returns what says how many bytes, encrypted, can be written to c, a
// connection of Dial or Listen, without waiting for the other side: the system has
// room for them beside what it has not got rid of yet. One goroutine at a time
// asks. Nil when c is no such connection, or where the system does not tell.
func Room(c net.Conn) func() int {
	var below net.Conn
	switch c := c.(type) {
	case *clientConn:
		below = c.below
	case *tls.Conn:
		below = c.NetConn()
	}
	plain, ok := below.(*plainConn)
	if !ok {
		return nil
	}
	sys, ok := plain.Conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return nil
	}
	r := &room{raw: raw}
	r.ask = func(fd uintptr) {
		if r.queued, r.err = queued(int(fd)); r.err == nil {
			r.size, r.err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		}
	}
	return r.free
}

// room is the state of one connection's Room.
type room struct {
	raw syscall.RawConn
	ask func(fd uintptr) // fills what follows

	queued int // bytes that the other side's system has not taken
	size   int // of the send buffer
	err    error
}

func (r *room) free() int {
	if err := r.raw.Control(r.ask); err != nil || r.err != nil {
		return 0 // whoever writes gets the reason
	}
	// Half of it: the system counts its own overhead.
	return r.size/2 - r.queued
}
