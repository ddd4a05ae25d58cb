//go:build !linux && !windows && !darwin

package power

import (
	"context"

	"neuron/engine/host/source"
)

// NewAwake does nothing on this system.
func NewAwake() *Awake {
	return &Awake{hold: func(context.Context) (func() error, error) {
		return nil, source.NotTold("staying awake is not known on this system")
	}}
}
