// Package syserr tells what an error of the operating system means where the
// systems number it differently: on Windows the errors that calls give never
// match syscall.EADDRINUSE and syscall.ENOSPC, which Go made up there.
//
// Everything may import it; it imports only the standard library and x/sys.
package syserr

import (
	"errors"
	"slices"
)

// AddrInUse reports whether err says that a port is taken.
func AddrInUse(err error) bool { return is(err, addrInUse) }

// DiskFull reports whether err says that the file system, or the user's quota
// on it, has no room.
func DiskFull(err error) bool { return is(err, diskFull) }

func is(err error, any []error) bool {
	return slices.ContainsFunc(any, func(e error) bool { return errors.Is(err, e) })
}
