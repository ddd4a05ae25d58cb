//go:build !linux && !windows && !darwin

package power

import "neuron/engine/host/source"

// Battery does not tell.
func Battery() source.Source[State] {
	return source.None[State]("batteries are not known on this system")
}
