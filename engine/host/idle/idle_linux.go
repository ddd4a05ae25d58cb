package idle

import (
	"context"
	"time"

	"neuron/engine/host/bus"
	"neuron/engine/host/source"
	"neuron/engine/host/wayland"
	"neuron/engine/host/x11"
)

// Options are where to ask.
type Options struct {
	Session *bus.Bus     // of the user's session
	X       *x11.Display // shared; not closed here
	Wayland string       // socket of the compositor, "" on an X11 desktop
}

// New asks, in this order: GNOME and Cinnamon on D-Bus; the X server, unless it
// serves a Wayland desktop, where it sees only a part of the input; the Wayland
// compositor; and the screen saver service of D-Bus, as KDE has it. logind's
// IdleHint is not asked: many desktops never set it.
func New(o Options) source.Source[time.Duration] {
	all := []source.Source[time.Duration]{
		monitor("GNOME", o.Session, "org.gnome.Mutter.IdleMonitor", "/org/gnome/Mutter/IdleMonitor/Core"),
		monitor("Cinnamon", o.Session, "org.cinnamon.Muffin.IdleMonitor", "/org/cinnamon/Muffin/IdleMonitor/Core"),
	}
	if o.Wayland == "" {
		all = append(all, source.Func[time.Duration]{From: "X11", Ask: o.X.Idle})
	} else {
		all = append(all, wayland.NewIdle(o.Wayland))
	}
	return source.First(append(all, &screenSaver{bus: o.Session})...)
}

// monitor is the idle monitor of Mutter and of what was made from it.
func monitor(name string, b *bus.Bus, service, path string) source.Source[time.Duration] {
	return source.Func[time.Duration]{From: name, Ask: func(ctx context.Context) (time.Duration, error) {
		var ms uint64
		if err := b.Call(ctx, service, path, service+".GetIdletime", nil, &ms); err != nil {
			return 0, err
		}
		return milliseconds(ms), nil
	}}
}

// screenSaver is org.freedesktop.ScreenSaver. KDE counts milliseconds there, and
// always says 0 on Wayland, where it cannot count: a run of zeros is no answer.
type screenSaver struct {
	bus   *bus.Bus
	zeros int // in a row
}

// enoughZeros in a row, two seconds apart or more, are not the user's doing.
const enoughZeros = 5

// Name implements source.Source.
func (s *screenSaver) Name() string { return "screen saver service" }

// Close implements source.Source.
func (s *screenSaver) Close() error { return nil }

// Read implements source.Source.
func (s *screenSaver) Read(ctx context.Context) (time.Duration, error) {
	var ms uint32
	const name = "org.freedesktop.ScreenSaver"
	if err := s.bus.Call(ctx, name, "/org/freedesktop/ScreenSaver", name+".GetSessionIdleTime", nil, &ms); err != nil {
		return 0, err
	}
	if ms != 0 {
		s.zeros = 0
		return milliseconds(uint64(ms)), nil
	}
	if s.zeros++; s.zeros >= enoughZeros {
		s.zeros = enoughZeros
		return 0, source.NotTold("the screen saver service does not count")
	}
	return 0, nil
}

// milliseconds of a foreign count; what no duration holds is a very long one.
func milliseconds(n uint64) time.Duration {
	return time.Duration(min(n, 1<<42)) * time.Millisecond
}
