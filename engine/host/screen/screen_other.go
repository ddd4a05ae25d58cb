//go:build !linux && !windows

package screen

import "neuron/engine/host/source"

// New does not tell. On macOS a program in full screen is on a desktop of its
// own, and which one is shown is told to no other program.
func New() source.Source[bool] {
	return source.None[bool]("this system does not tell of full screens")
}
