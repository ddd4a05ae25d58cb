//go:build !linux

package host

import (
	"neuron/engine/host/idle"
	"neuron/engine/host/network"
	"neuron/engine/host/power"
	"neuron/engine/host/screen"
)

func find(own func() []int) *sources {
	s := common(own)
	s.idle, s.battery, s.metered, s.fullScreen, s.network, s.awake =
		idle.New(), power.Battery(), network.Metered(), screen.New(), network.Kind(), power.NewAwake()
	return &s
}
