package tlsio

import "golang.org/x/sys/unix"

// queued is SIOCOUTQ of tcp(7): what is sent and not acknowledged, or not sent.
func queued(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCOUTQ) }
