package host

import (
	"os"

	"neuron/engine/host/bus"
	"neuron/engine/host/idle"
	"neuron/engine/host/network"
	"neuron/engine/host/power"
	"neuron/engine/host/screen"
	"neuron/engine/host/wayland"
	"neuron/engine/host/x11"
)

func find(own func() []int) *sources {
	return findAt(places{
		session: bus.Session(), system: bus.System(), display: os.Getenv("DISPLAY"), wayland: wayland.Socket(), supplies: power.Supplies, root: "/",
	}, own)
}

// places are where Linux answers.
type places struct {
	session, system  *bus.Bus
	display, wayland string
	supplies, root   string
}

func findAt(p places, own func() []int) *sources {
	s := common(own)
	x := x11.Open(p.display)
	s.idle = idle.New(idle.Options{Session: p.session, X: x, Wayland: p.wayland})
	s.battery = power.Battery(p.supplies)
	s.metered = network.Metered(p.system)
	s.fullScreen = screen.New(x, p.wayland != "")
	s.network = network.Kind(p.root)
	s.awake = power.NewAwake(p.system)
	s.connections = []interface{ Close() error }{p.session, p.system, x}
	return &s
}
