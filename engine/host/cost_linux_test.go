package host

import (
	"log/slog"
	"testing"

	"github.com/godbus/dbus/v5"

	"neuron/engine/host/bus"
	"neuron/engine/host/bus/bustest"
	"neuron/engine/host/power"
	"neuron/engine/host/x11/xtest"
)

type mutter struct{}

func (mutter) GetIdletime() (uint64, *dbus.Error) { return 60_000, nil }

// BenchmarkRead is a Read that asks all sources, with a real bus and a real X
// server; this happens every two seconds at most.
func BenchmarkRead(b *testing.B) {
	d := bustest.Start(b)
	display, _ := xtest.Start(b)
	const idle = "org.gnome.Mutter.IdleMonitor"
	defer d.Service(b, idle, "/org/gnome/Mutter/IdleMonitor/Core", idle, mutter{})()
	const nm = "org.freedesktop.NetworkManager"
	d.Properties(b, nm, "/org/freedesktop/NetworkManager", nm, map[string]any{"Metered": uint32(2)})
	h := newHost(findAt(places{
		session: bus.At(d.Address), system: bus.At(d.Address), display: display, supplies: power.Supplies, root: "/",
	}, func() []int { return nil }), slog.New(slog.DiscardHandler))
	defer h.Close()
	if x := h.Read(b.Context(), everything); !x.Idle.Known || !x.Metered.Known || !x.FullScreen.Known {
		b.Fatalf("%+v", x)
	}
	for b.Loop() {
		h.forget()
		h.Read(b.Context(), everything)
	}
}
