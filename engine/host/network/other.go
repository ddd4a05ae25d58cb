//go:build !linux && !windows

package network

import "neuron/engine/host/source"

// Metered does not tell. On macOS "low data mode" is told to no program but by
// Apple's network framework, which needs the Swift or Objective-C runtime.
func Metered() source.Source[bool] {
	return source.None[bool]("this system does not tell what a connection costs")
}
