// Package power tells whether this computer runs on battery, and keeps it awake
// while that is asked. engine/host and engine/probe/hardware import it; it knows
// no rules. What each system answers with stands in the files battery_*.go and
// awake_*.go.
package power

import (
	"context"

	"neuron/engine/host/source"
)

// State is the state of the power supply.
type State struct {
	// Battery says that the computer itself has one; a mouse's does not count.
	Battery bool
	// OnBattery says that nothing else supplies it.
	OnBattery bool
	Charging  bool
	Percent   int // 0 to 100; -1: not told
}

// OnBattery asks a source of states for that alone.
func OnBattery(s source.Source[State]) source.Source[bool] { return onBattery{s} }

type onBattery struct{ source.Source[State] }

func (b onBattery) Read(ctx context.Context) (bool, error) {
	s, err := b.Source.Read(ctx)
	return s.OnBattery, err
}

// percent of a foreign number.
func percent(n int) int {
	if n < 0 || n > 100 {
		return -1
	}
	return n
}
