//go:build !linux && !darwin

package tlsio

import "net"

// Room is nil: these systems do not say what a connection has room for.
func Room(net.Conn) func() int { return nil }
