package power

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"neuron/engine/host/bus"
	"neuron/engine/host/bus/bustest"
	"neuron/engine/host/source"
	"neuron/internal/leaktest"
)

// tree writes supplies: name to file to content.
func tree(t *testing.T, supplies map[string]map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, files := range supplies {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(root, name, file), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

type files = map[string]string

func TestSupplies(t *testing.T) {
	t.Parallel()
	mouse := files{"type": "Battery", "scope": "Device", "status": "Discharging", "capacity": "12"}
	for name, c := range map[string]struct {
		supplies map[string]files
		want     State
	}{
		"a tower":                 {nil, State{Percent: -1}},
		"a tower with a mouse":    {map[string]files{"hid": mouse}, State{Percent: -1}},
		"a laptop, plugged in":    {map[string]files{"AC": {"type": "Mains", "online": "1"}, "BAT0": {"type": "Battery", "status": "Charging", "capacity": "83"}, "hid": mouse}, State{Battery: true, Charging: true, Percent: 83}},
		"full":                    {map[string]files{"AC": {"type": "Mains", "online": "1"}, "BAT0": {"type": "Battery", "status": "Full", "capacity": "100"}}, State{Battery: true, Percent: 100}},
		"a laptop, unplugged":     {map[string]files{"AC": {"type": "Mains", "online": "0"}, "BAT0": {"type": "Battery", "status": "Discharging", "capacity": "40"}}, State{Battery: true, OnBattery: true, Percent: 40}},
		"two batteries":           {map[string]files{"AC": {"type": "Mains", "online": "0"}, "BAT0": {"type": "Battery", "status": "Unknown", "capacity": "100"}, "BAT1": {"type": "Battery", "status": "Discharging", "capacity": "20"}}, State{Battery: true, OnBattery: true, Percent: 60}},
		"by USB-C":                {map[string]files{"AC": {"type": "Mains", "online": "0"}, "ucsi": {"type": "USB", "online": "1"}, "BAT0": {"type": "Battery", "status": "Charging", "capacity": "5"}}, State{Battery: true, Charging: true, Percent: 5}},
		"a charger that is weak":  {map[string]files{"AC": {"type": "Mains", "online": "1"}, "BAT0": {"type": "Battery", "status": "Discharging", "capacity": "50"}}, State{Battery: true, Percent: 50}},
		"no line is shown":        {map[string]files{"BAT0": {"type": "Battery", "status": "Discharging", "capacity": "70"}}, State{Battery: true, OnBattery: true, Percent: 70}},
		"no line, not draining":   {map[string]files{"BAT0": {"type": "Battery", "status": "Not charging", "capacity": "80"}}, State{Battery: true, Percent: 80}},
		"taken out":               {map[string]files{"AC": {"type": "Mains", "online": "1"}, "BAT0": {"type": "Battery", "present": "0", "status": "Unknown"}}, State{Percent: -1}},
		"nonsense for a capacity": {map[string]files{"AC": {"type": "Mains", "online": "0"}, "BAT0": {"type": "Battery", "capacity": "900"}}, State{Battery: true, OnBattery: true, Percent: -1}},
		"a UPS that supplies":     {map[string]files{"ups": {"type": "UPS", "status": "Discharging", "capacity": "90"}}, State{Battery: true, OnBattery: true, Percent: 90}},
	} {
		s := Battery(tree(t, c.supplies))
		got, err := s.Read(t.Context())
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
		if on, err := OnBattery(s).Read(t.Context()); err != nil || on != c.want.OnBattery {
			t.Errorf("%s: on battery %v, %v", name, on, err)
		}
	}
	if _, err := Battery(filepath.Join(t.TempDir(), "none")).Read(t.Context()); !errors.Is(err, source.ErrNotTold) {
		t.Errorf("no folder: %v", err)
	}
}

// login is logind: it gives one end of a pipe, and keeps both.
type login struct {
	asked chan []string
	pipes chan [2]*os.File
}

func (l login) Inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	fd := w.Fd()
	l.asked <- []string{what, who, why, mode}
	l.pipes <- [2]*os.File{r, w}
	return dbus.UnixFD(fd), nil
}

func TestAwakeHoldsALockOfLogind(t *testing.T) {
	d := bustest.Start(t)
	l := login{make(chan []string, 4), make(chan [2]*os.File, 4)}
	const name = "org.freedesktop.login1"
	defer d.Service(t, name, "/org/freedesktop/login1", name+".Manager", l)()
	b := bus.At(d.Address)
	defer b.Close()
	a := NewAwake(b)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 2 { // it can be had again
		for range 3 { // more than one would not be let go of
			if err := a.Set(ctx, true); err != nil {
				t.Fatal(err)
			}
		}
		if !a.On() || len(l.asked) != 1 {
			t.Fatalf("on %v, asked %d times", a.On(), len(l.asked))
		}
		if got := <-l.asked; got[0] != "idle:sleep" || got[1] != "Neuron" || got[3] != "block" {
			t.Errorf("%q", got)
		}
		pipe := <-l.pipes
		pipe[1].Close() // ours is a copy
		pipe[0].SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := pipe[0].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the lock is not held: %v", err)
		}
		if err := a.Close(); err != nil || a.On() {
			t.Errorf("%v, still on %v", err, a.On())
		}
		pipe[0].SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := pipe[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the lock is not let go of: %v", err)
		}
		pipe[0].Close()
	}
}

func TestAwakeWithoutLogind(t *testing.T) {
	leaktest.Check(t)
	a := NewAwake(bus.At(""))
	if err := a.Set(t.Context(), true); !errors.Is(err, source.ErrNotTold) || a.On() {
		t.Errorf("%v, on %v", err, a.On())
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
