//go:build !windows

package program

import "syscall"

// addrInUse is what listening on a taken port fails with.
const addrInUse = syscall.EADDRINUSE
