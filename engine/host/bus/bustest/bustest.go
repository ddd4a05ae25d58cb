//go:build linux

// Package bustest gives tests a D-Bus of their own, with services that the test
// plays. Only tests import it.
package bustest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

const config = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=%s</listen>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`

// Daemon is a running bus.
type Daemon struct {
	Address string
	cmd     *exec.Cmd
}

// Start runs dbus-daemon until the test ends; without the program the test is
// skipped.
func Start(t testing.TB) *Daemon {
	t.Helper()
	exe, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("SKIPPED: dbus-daemon is not installed (Debian: dbus-daemon)")
	}
	// Not t.TempDir: a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, filepath.Join(dir, "bus")), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Daemon{cmd: exec.Command(exe, "--config-file="+file, "--nofork", "--print-address=1")}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("dbus-daemon: %v", err)
	}
	d.Address = strings.TrimSpace(line)
	return d
}

// Stop ends the bus, as a session that ends.
func (d *Daemon) Stop() {
	if d.cmd.ProcessState == nil {
		d.cmd.Process.Kill()
		d.cmd.Wait()
	}
}

// Service owns a name on the bus until the returned function or the test's end.
// object's exported methods are those of iface at path.
func (d *Daemon) Service(t testing.TB, name, path, iface string, object any) (leave func()) {
	t.Helper()
	conn := d.own(t, name)
	if err := conn.Export(object, dbus.ObjectPath(path), iface); err != nil {
		t.Fatal(err)
	}
	return func() { conn.Close() }
}

// Properties owns a name whose object has properties; they can be changed.
func (d *Daemon) Properties(t testing.TB, name, path, iface string, values map[string]any) *prop.Properties {
	t.Helper()
	all := map[string]*prop.Prop{}
	for k, v := range values {
		all[k] = &prop.Prop{Value: v, Writable: true, Emit: prop.EmitFalse}
	}
	p, err := prop.Export(d.own(t, name), dbus.ObjectPath(path), prop.Map{iface: all})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (d *Daemon) own(t testing.TB, name string) *dbus.Conn {
	t.Helper()
	conn, err := dbus.Connect(d.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if r, err := conn.RequestName(name, dbus.NameFlagDoNotQueue); err != nil || r != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("own %s: %v, %v", name, r, err)
	}
	return conn
}
