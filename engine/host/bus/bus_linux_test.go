package bus_test

import (
	"context"
	"errors"
	"net"
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

// slow answers when it is told to.
type slow struct{ now chan struct{} }

func (s slow) Ask() (uint32, *dbus.Error) {
	<-s.now
	return 7, nil
}

func (s slow) Refuse() *dbus.Error { return dbus.MakeFailedError(errors.New("no")) }

const (
	name     = "org.example.Slow"
	path     = "/org/example/Slow"
	patience = 20 * time.Second
)

func call(t *testing.T, b *bus.Bus, method string) (uint32, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var n uint32
	return n, b.Call(ctx, name, path, name+"."+method, nil, &n)
}

func TestCallAndItsFailures(t *testing.T) {
	leaktest.Check(t)
	d := bustest.Start(t)
	b := bus.At(d.Address)
	defer b.Close()
	if _, err := call(t, b, "Ask"); !errors.Is(err, source.ErrNotTold) {
		t.Errorf("no such service: %v", err)
	}
	s := slow{make(chan struct{}, 1)}
	leave := d.Service(t, name, path, name, s)
	s.now <- struct{}{}
	var n uint32
	if err := b.Call(t.Context(), name, path, name+".Ask", nil, &n); err != nil || n != 7 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := call(t, b, "Missing"); !errors.Is(err, source.ErrNotTold) {
		t.Errorf("no such method: %v", err)
	}
	if _, err := call(t, b, "Refuse"); err == nil || errors.Is(err, source.ErrNotTold) {
		t.Errorf("a refusal: %v", err)
	}
	s.now <- struct{}{}
	var list []string
	if err := b.Call(t.Context(), name, path, name+".Ask", nil, &list); err == nil || errors.Is(err, source.ErrNotTold) {
		t.Errorf("an answer of another type: %v", err)
	}
	// One that does not answer costs no more than the time.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.Call(ctx, name, path, name+".Ask", nil, &n); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}
	close(s.now)
	leave()
}

// TestALostBusIsFoundAgain: the connection of a session that ended is not kept.
func TestALostBusIsFoundAgain(t *testing.T) {
	leaktest.Check(t)
	d := bustest.Start(t)
	address := d.Address
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
	b := bus.Session()
	defer b.Close()
	if _, err := call(t, b, "Ask"); !errors.Is(err, source.ErrNotTold) {
		t.Fatal(err)
	}
	d.Stop()
	if _, err := call(t, b, "Ask"); err == nil {
		t.Error("an answer without a bus")
	}
	d = bustest.Start(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", d.Address)
	s := slow{make(chan struct{})}
	close(s.now)
	leave := d.Service(t, name, path, name, s)
	defer leave()
	var err error
	var n uint32
	for range 100 { // the old connection's end may not have been read yet
		if n, err = call(t, b, "Ask"); err == nil {
			break
		}
	}
	if err != nil || n != 7 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestNoBus(t *testing.T) {
	leaktest.Check(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	for what, b := range map[string]*bus.Bus{"no address": bus.At(""), "no session": bus.Session(), "no socket": bus.System()} {
		if _, err := call(t, b, "Ask"); !errors.Is(err, source.ErrNotTold) {
			t.Errorf("%s: %v", what, err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestABusThatSaysNothing: connecting ends with the context.
func TestABusThatSaysNothing(t *testing.T) {
	leaktest.Check(t)
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "mute"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := bus.At("unix:path=" + filepath.Join(dir, "mute"))
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := b.Call(ctx, name, path, name+".Ask", nil); err == nil {
		t.Error("an answer of nobody")
	}
	if d := time.Since(began); d > patience/2 {
		t.Errorf("waited for %s", d)
	}
}
