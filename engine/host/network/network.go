// Package network tells how this computer is connected, and whether the
// connection is paid by volume. engine/host and engine/probe/hardware import it;
// it makes no connection to the internet. What each system answers with stands
// in the files metered_*.go and kind_*.go.
package network

// Kinds of connection, the strings of localapi.Hardware.Network.
const (
	Wired    = "wired"
	Wireless = "wireless"
	None     = "none"
	Unknown  = "unknown"
)
