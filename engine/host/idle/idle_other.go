//go:build !linux && !windows && !darwin

package idle

import (
	"time"

	"neuron/engine/host/source"
)

// New does not tell.
func New() source.Source[time.Duration] {
	return source.None[time.Duration]("idle times are not known on this system")
}
