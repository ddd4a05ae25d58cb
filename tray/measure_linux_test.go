package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"neuron/engine/localapi"
	"neuron/internal/desktop/notify"
	"neuron/tray/traytest"
)

// A tray that waits costs next to nothing. NEURON_TRAY_BINARY is the built
// program, which is smaller than this test.
func TestTrayIsSmall(t *testing.T) {
	binary := os.Getenv("NEURON_TRAY_BINARY")
	if binary == "" {
		t.Skip("SKIPPED: NEURON_TRAY_BINARY names no built tray; it is measured for 30 seconds")
	}
	d := newDesk(t)
	d.serve()
	panel := d.panel(true)
	cmd := exec.Command(binary, "--hidden", "--data", d.data)
	cmd.Env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS="+d.bus.Address, "XDG_RUNTIME_DIR="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	item := d.registers(panel)
	d.until(panel, item, "sharing", says("Sharing this computer."))
	pid := cmd.Process.Pid
	for name, busy := range map[string]bool{"idle": false, "with figures that change": true} {
		before := ticks(t, pid)
		for i := range 300 {
			if busy {
				d.engine.Set(func(s *localapi.Status) {
					s.Work = &localapi.Work{Sessions: 1, TokensPerSecond: float64(i), CreditKnown: true}
				})
			}
			time.Sleep(100 * time.Millisecond) // the time that is measured
		}
		cpu := float64(ticks(t, pid)-before) / 100 / 30
		rss := resident(t, pid)
		t.Logf("%s: %.2f %% of a core, %.1f MB resident", name, 100*cpu, float64(rss)/1e6)
		if rss > 15<<20 {
			t.Errorf("%d bytes are resident", rss)
		}
		if !busy && cpu > 0.001 {
			t.Errorf("idle it takes %.2f %% of a core", 100*cpu)
		}
	}
}

// ticks are hundredths of a second that a process has used.
func ticks(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	var user, system int
	if _, err := fmt.Sscan(strings.Join(strings.Fields(rest)[11:13], " "), &user, &system); err != nil {
		t.Fatal(err)
	}
	return user + system
}

// resident is the memory of a process in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// On a real bus a notification replaces the one before, and its text is no
// markup.
func TestNotificationsReplaceEachOther(t *testing.T) {
	d := newDesk(t)
	shown, stop, err := traytest.Notifications(d.bus)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", d.bus.Address)
	n := notify.New("Neuron")
	for i, text := range []string{"first <b>", "second"} {
		if ok, err := n.Show(d.ctx, fmt.Sprint(i), "title", text); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	want := []traytest.Notification{{App: "Neuron", Title: "title", Text: "first &lt;b&gt;"}, {App: "Neuron", Title: "title", Text: "second", Replaces: 7}}
	for _, w := range want {
		if got := <-shown; got != w {
			t.Errorf("%+v, want %+v", got, w)
		}
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+t.TempDir()+"/nobody")
	if _, err := n.Show(d.ctx, "other", "title", "text"); err == nil {
		t.Error("shown without a bus")
	}
}
