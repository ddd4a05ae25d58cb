package bus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/godbus/dbus/v5"

	"neuron/engine/host/source"
)

// Bus is one bus. Its zero value is not of use.
type Bus struct {
	name    string
	address func() string

	// turn holds the connection, nil without one; whoever has taken it out may
	// change it.
	turn chan *dbus.Conn
}

// Session is the bus of the user's session. None is started where there is
// none.
func Session() *Bus {
	return newBus("the session bus", func() string {
		if a := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); a != "" {
			return a
		}
		if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
			return socket(filepath.Join(dir, "bus"))
		}
		return ""
	})
}

// System is the bus of the system.
func System() *Bus {
	return newBus("the system bus", func() string {
		if a := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"); a != "" {
			return a
		}
		return socket("/run/dbus/system_bus_socket")
	})
}

// At is the bus of an address, "" for none.
func At(address string) *Bus { return newBus("the bus", func() string { return address }) }

func newBus(name string, address func() string) *Bus {
	b := &Bus{name: name, address: address, turn: make(chan *dbus.Conn, 1)}
	b.turn <- nil
	return b
}

func socket(path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return "unix:path=" + path
}

// Call calls a method, interface included in its name, of a service that runs
// already, and stores what it returns in results. Errors: source.ErrNotTold when
// there is no bus, no such service, or no such method.
func (b *Bus) Call(ctx context.Context, service, path, method string, args []any, results ...any) error {
	conn, err := b.connection(ctx)
	if err != nil {
		return err
	}
	call := conn.Object(service, dbus.ObjectPath(path)).CallWithContext(ctx, method, dbus.FlagNoAutoStart, args...)
	if call.Err != nil {
		return b.explain(service, call.Err)
	}
	if err := call.Store(results...); err != nil {
		return fmt.Errorf("the answer of %s to %s: %w", service, method, err)
	}
	return nil
}

// Property reads a property of an interface, as Call.
func (b *Bus) Property(ctx context.Context, service, path, iface, name string, value any) error {
	var v dbus.Variant
	if err := b.Call(ctx, service, path, "org.freedesktop.DBus.Properties.Get", []any{iface, name}, &v); err != nil {
		return err
	}
	if err := v.Store(value); err != nil {
		return fmt.Errorf("property %s of %s: %w", name, service, err)
	}
	return nil
}

// connection is the living connection, or a new one.
func (b *Bus) connection(ctx context.Context) (*dbus.Conn, error) {
	var conn *dbus.Conn
	select {
	case conn = <-b.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", b.name, ctx.Err())
	}
	defer func() { b.turn <- conn }()
	if conn != nil && conn.Connected() {
		return conn, nil
	}
	conn = nil
	address := b.address()
	if address == "" {
		return nil, source.NotTold(b.name + " is not there")
	}
	// The library's connecting knows no time limit, but ends with this context,
	// which is the connection's for its whole life.
	life, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, end)
	c, err := dbus.Connect(address, dbus.WithContext(life))
	if !stop() && err == nil {
		c.Close()
		err = ctx.Err()
	}
	if err != nil {
		end()
		if errors.Is(err, os.ErrNotExist) {
			return nil, source.NotTold(b.name + " is not there")
		}
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	conn = c
	return conn, nil
}

func (b *Bus) explain(service string, err error) error {
	var e dbus.Error
	if errors.As(err, &e) {
		switch e.Name {
		case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner", "org.freedesktop.DBus.Error.UnknownObject",
			"org.freedesktop.DBus.Error.UnknownMethod", "org.freedesktop.DBus.Error.UnknownInterface", "org.freedesktop.DBus.Error.UnknownProperty",
			"org.freedesktop.DBus.Error.NotSupported":
			return source.NotTold(service + " is not there")
		}
	}
	return fmt.Errorf("%s: %w", service, err)
}

// Close ends the connection. A later call makes a new one.
func (b *Bus) Close() error {
	conn := <-b.turn
	defer func() { b.turn <- nil }()
	if conn == nil {
		return nil
	}
	return conn.Close()
}
