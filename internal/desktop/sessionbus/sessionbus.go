//go:build linux

// Package sessionbus connects to the D-Bus of the user's session, and never
// starts one: without a bus there is nobody to talk to. Tray and notifications
// import it; it knows no service.
package sessionbus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/godbus/dbus/v5"
)

// ErrNone says that there is no session bus.
var ErrNone = errors.New("there is no session bus")

// Address is where the session bus is, or ErrNone. That somebody answers there
// is not sure.
func Address() (string, error) {
	if a := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); a != "" && a != "autolaunch:" && a != "disabled:" {
		return a, nil
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		dir = fmt.Sprintf("/run/user/%d", os.Getuid())
	}
	path := filepath.Join(dir, "bus")
	if info, err := os.Stat(path); err != nil || info.Mode()&fs.ModeSocket == 0 {
		return "", ErrNone
	}
	return "unix:path=" + path, nil
}

// Connect makes a connection of its own, which the caller closes. It fails soon
// when ctx ends; the connection does not end with ctx. Errors wrap ErrNone.
func Connect(ctx context.Context) (*dbus.Conn, error) {
	a, err := Address()
	if err != nil {
		return nil, err
	}
	type result struct {
		conn *dbus.Conn
		err  error
	}
	// The library's handshake knows no deadline, and a bus that is frozen answers
	// nothing.
	done := make(chan result, 1)
	go func() {
		conn, err := dbus.Connect(a)
		done <- result{conn, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNone, r.err)
		}
		return r.conn, nil
	case <-ctx.Done():
		go func() {
			if r := <-done; r.err == nil {
				r.conn.Close()
			}
		}()
		return nil, fmt.Errorf("%w: %w", ErrNone, ctx.Err())
	}
}
