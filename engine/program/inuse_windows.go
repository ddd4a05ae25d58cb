package program

import "golang.org/x/sys/windows"

// addrInUse is what listening on a taken port fails with: Windows has a number
// of its own for it, and syscall.EADDRINUSE is none that it gives.
const addrInUse = windows.WSAEADDRINUSE
