//go:build !linux && !windows && !darwin

package network

import "neuron/engine/host/source"

// Kind does not tell.
func Kind() source.Source[string] {
	return source.None[string]("connections are not known on this system")
}
