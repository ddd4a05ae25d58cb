package idle_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"neuron/engine/host/bus"
	"neuron/engine/host/bus/bustest"
	"neuron/engine/host/idle"
	"neuron/engine/host/source"
	"neuron/engine/host/x11"
	"neuron/engine/host/x11/xtest"
	"neuron/internal/leaktest"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// mutter answers like GNOME's window manager, saver like KDE's screen locker.
type (
	mutter struct{ ms *atomic.Uint64 }
	saver  struct{ ms *atomic.Uint32 }
)

func (m mutter) GetIdletime() (uint64, *dbus.Error) { return m.ms.Load(), nil }

func (s saver) GetSessionIdleTime() (uint32, *dbus.Error) { return s.ms.Load(), nil }

// unable is the service of a desktop that has it without this method.
type unable struct{}

func (unable) GetSessionIdleTime() (uint32, *dbus.Error) {
	return 0, dbus.NewError("org.freedesktop.DBus.Error.NotSupported", nil)
}

const (
	gnome     = "org.gnome.Mutter.IdleMonitor"
	gnomePath = "/org/gnome/Mutter/IdleMonitor/Core"
	saverName = "org.freedesktop.ScreenSaver"
	saverPath = "/org/freedesktop/ScreenSaver"
	noWindows = ""
	noSocket  = "/nowhere/wayland-0"
)

func sourceOf(t *testing.T, d *bustest.Daemon, display, wayland string) source.Source[time.Duration] {
	t.Helper()
	address := ""
	if d != nil {
		address = d.Address
	}
	b, x := bus.At(address), x11.Open(display)
	s := idle.New(idle.Options{Session: b, X: x, Wayland: wayland})
	t.Cleanup(func() {
		s.Close()
		b.Close()
		x.Close()
	})
	return s
}

func expect(t *testing.T, s source.Source[time.Duration], want time.Duration, from string) {
	t.Helper()
	got, err := s.Read(within(t))
	if err != nil || got != want || s.Name() != from {
		t.Errorf("%s from %q, %v; want %s from %s", got, s.Name(), err, want, from)
	}
}

func TestGNOME(t *testing.T) {
	leaktest.Check(t)
	d := bustest.Start(t)
	var ms atomic.Uint64
	leave := d.Service(t, gnome, gnomePath, gnome, mutter{&ms})
	s := sourceOf(t, d, noWindows, noSocket)
	for _, n := range []uint64{0, 1, 180_000} {
		ms.Store(n)
		expect(t, s, time.Duration(n)*time.Millisecond, "GNOME")
	}
	ms.Store(1 << 63)
	if got, err := s.Read(within(t)); err != nil || got < 24*time.Hour {
		t.Errorf("a count that no duration holds: %s, %v", got, err)
	}
	leave()
	if _, err := s.Read(within(t)); err == nil || s.Name() != "" {
		t.Errorf("after the shell has gone: %v from %q", err, s.Name())
	}
	ms.Store(5)
	leave = d.Service(t, gnome, gnomePath, gnome, mutter{&ms})
	defer leave()
	expect(t, s, 5*time.Millisecond, "GNOME")
}

// TestKDEOnX11 has the X server asked first: both see the same input there.
func TestKDEOnX11(t *testing.T) {
	d := bustest.Start(t)
	display, stop := xtest.Start(t)
	var ms atomic.Uint32
	ms.Store(42)
	defer d.Service(t, saverName, saverPath, saverName, saver{&ms})()
	s := sourceOf(t, d, display, "")
	if _, err := s.Read(within(t)); err != nil || s.Name() != "X11" {
		t.Errorf("from %q, %v", s.Name(), err)
	}
	stop()
	expect(t, s, 42*time.Millisecond, "screen saver service")
}

// TestKDEOnWaylandAlwaysSaysZero: Plasma's service cannot count there, and a user
// who is never away would never share.
func TestKDEOnWaylandAlwaysSaysZero(t *testing.T) {
	leaktest.Check(t)
	d := bustest.Start(t)
	var ms atomic.Uint32
	defer d.Service(t, saverName, saverPath, saverName, saver{&ms})()
	s := sourceOf(t, d, noWindows, noSocket)
	for range 4 {
		expect(t, s, 0, "screen saver service")
	}
	for range 3 {
		if got, err := s.Read(within(t)); err == nil {
			t.Errorf("told %s", got)
		}
	}
	ms.Store(9000)
	expect(t, s, 9*time.Second, "screen saver service")
}

// TestOnWaylandTheXServerIsNotAsked: it sees the input of X programs alone, and
// would call a user away who writes in another one.
func TestOnWaylandTheXServerIsNotAsked(t *testing.T) {
	display, _ := xtest.Start(t)
	s := sourceOf(t, nil, display, noSocket)
	if got, err := s.Read(within(t)); err == nil {
		t.Errorf("told %s from %q", got, s.Name())
	}
}

func TestNothingTells(t *testing.T) {
	leaktest.Check(t)
	d := bustest.Start(t)
	defer d.Service(t, saverName, saverPath, saverName, unable{})()
	s := sourceOf(t, d, noWindows, "")
	if _, err := s.Read(within(t)); !errors.Is(err, source.ErrNotTold) || s.Name() != "" {
		t.Errorf("%v from %q", err, s.Name())
	}
}
