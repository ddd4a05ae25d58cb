//go:build !windows

package syserr

import "syscall"

var (
	addrInUse = []error{syscall.EADDRINUSE}
	diskFull  = []error{syscall.ENOSPC, syscall.EDQUOT}
)
