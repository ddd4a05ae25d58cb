//go:build linux

package sessionbus

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"
)

func TestAddress(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	for _, none := range []string{"", "autolaunch:", "disabled:"} {
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", none)
		if a, err := Address(); !errors.Is(err, ErrNone) {
			t.Errorf("%q: %q, %v", none, a, err)
		}
	}
	ln, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	if a, err := Address(); err != nil || a != "unix:path="+dir+"/bus" {
		t.Errorf("%q, %v", a, err)
	}
	// A bus that takes connections and says nothing keeps nobody waiting.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx); !errors.Is(err, ErrNone) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/elsewhere")
	if a, err := Address(); err != nil || a != "unix:path=/elsewhere" {
		t.Errorf("%q, %v", a, err)
	}
	if _, err := Connect(t.Context()); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}
