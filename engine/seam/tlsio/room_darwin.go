package tlsio

import "golang.org/x/sys/unix"

// queued is SO_NWRITE of getsockopt(2): what the send buffer holds.
func queued(fd int) (int, error) { return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NWRITE) }
