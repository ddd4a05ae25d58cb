package syserr

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// The numbers of syscall stand for what this module itself says in them.
var (
	addrInUse = []error{windows.WSAEADDRINUSE, syscall.EADDRINUSE}
	diskFull  = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED, syscall.ENOSPC, syscall.EDQUOT}
)
