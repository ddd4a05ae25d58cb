//go:build unix && !darwin

package main

import (
	"os"

	"neuron/engine/protocol"
)

// haveDisplay says in words what the windowing library says by ending the
// process. Error: unavailable.
func haveDisplay() error {
	if os.Getenv("DISPLAY") == "" {
		return protocol.Errorf(protocol.CodeUnavailable, "there is no display for a window; everything works by neuron-engine on the command line too")
	}
	return nil
}
