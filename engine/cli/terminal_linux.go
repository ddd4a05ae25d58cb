package cli

import "golang.org/x/sys/unix"

// Requests of ioctl(2) for the state of a terminal.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)
