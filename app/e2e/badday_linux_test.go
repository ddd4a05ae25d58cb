package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/desktop/instance"
	"neuron/internal/localnet"
)

// TestBadDay is the story of a day on which everything breaks once: files of the
// window before it starts and while it runs, the token, the tracker, a stage, the
// window, the tray, the settings and the engine. Each time the rest goes on, what
// was lost is told, and nothing else is lost. (A full disk is tried by hand: it
// takes a disk.)
func TestBadDay(t *testing.T) {
	d := newDesk(t)
	guide, err := filepath.Abs(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.net.Publish(d.ctx, guide); err != nil {
		t.Fatal(err)
	}
	node, err := d.net.StartNode(d.ctx, "node", localnet.NodeOptions{Model: guide, Layers: "0-8"})
	if err != nil {
		t.Fatal(err)
	}
	edit := func(s *policy.Settings) {
		s.SetUp, s.Share, s.Tracker, s.Model, s.Layers = true, true, d.net.TrackerURL, guide, lower
		s.Rules = policy.Rules{IdleMinutes: s.Rules.IdleMinutes, OnBattery: true, OnMetered: true, Apps: []string{}}
	}
	desktop, err := d.net.StartDesktop(d.ctx, "desk", edit)
	if err != nil {
		t.Fatal(err)
	}
	d.data = desktop.Data
	if _, err := d.net.WaitRoute(d.ctx, guideName, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := localnet.WaitAccess(d.ctx, desktop, time.Minute); err != nil {
		t.Fatal(err)
	}

	// Both files of the window are rubbish before its first start.
	d.write("window/chats.db", []byte("this was a database once"))
	d.write("window/prefs.json", []byte(`{"theme": "li`))
	window := d.begin()
	d.there("window/chats.db.damaged-*", "window/prefs.broken.json")
	d.change("the chat page tells it", func() { d.control(pageKey(t, "chat")) })
	d.picture("e2e-bad-1-files")
	d.askHere("What is Neuron?", []*localnet.Node{node})

	// The chats' file is deleted under the window: it comes back with all of it.
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(d.file("window/chats.db" + suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	d.text("And what is a seam")
	d.keeps("And what is a seam")
	d.picture("e2e-bad-2-chats-deleted")

	// The token is withdrawn: the engine makes another one, and the window hears of
	// a change again.
	if err := os.Remove(d.file("api.token")); err != nil {
		t.Fatal(err)
	}
	d.there("api.token")
	c := d.engine()
	d.change("the window hears that sharing is off", func() {
		if err := c.Share(d.ctx, false); err != nil {
			t.Fatal(err)
		}
	})
	if err := c.Share(d.ctx, true); err != nil {
		t.Fatal(err)
	}

	// A stage crashes, and the tracker is away for a while.
	d.ready(c)
	before := d.status(c)
	if err := syscall.Kill(before.StagePIDs[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(d.ctx, t, "another stage serves", func() bool {
		s := d.status(c)
		return len(s.StagePIDs) == 1 && s.StagePIDs[0] != before.StagePIDs[0] && s.Shards[0].State == protocol.ShardReady
	})
	if err := d.net.RestartTracker(d.ctx); err != nil {
		t.Fatal(err)
	}
	until(d.ctx, t, "the network is there again", func() bool { return d.status(c).Tracker.Connected })
	if _, err := d.net.WaitRoute(d.ctx, guideName, time.Minute); err != nil {
		t.Fatal(err)
	}

	// The window crashes, and then the tray: the next start brings both back, and
	// what was typed.
	if err := window.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-window.done // killed
	if pid := d.tray(); pid == 0 {
		t.Error("the window has started no tray")
	} else if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	window = d.begin()
	until(d.ctx, t, "another tray runs", func() bool { return d.tray() != 0 })
	d.keeps("And what is a seam")
	if now := d.status(c); now.PID != before.PID {
		t.Errorf("the engine is another one: %d, %d", before.PID, now.PID)
	}

	// The settings are rubbish when the engine crashes: the new one tells it, and
	// shares nothing that nobody has asked for.
	if err := os.WriteFile(d.file("settings.json"), []byte(`{"form":1,"sha`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.net.Kill(desktop); err != nil {
		t.Fatal(err)
	}
	var told *localapi.Status
	until(d.ctx, t, "another engine tells it", func() bool {
		again, err := localapi.Dial(d.data)
		if err != nil {
			return false
		}
		defer again.Close()
		told, err = again.Status(d.ctx)
		return err == nil && told.PID != before.PID &&
			slices.ContainsFunc(told.Health, func(h localapi.HealthEntry) bool { return h.Code == protocol.CodeSettingsBroken && h.Remedy != "" })
	})
	d.there("settings.json.broken-*")
	if told.Sharing {
		t.Error("it shares by settings that nobody made")
	}
	d.settle()
	d.picture("e2e-bad-3-settings")
	c = d.engine()
	s := d.settings(c)
	edit(&s)
	if _, err := c.SetSettings(d.ctx, s); err != nil {
		t.Fatal(err)
	}
	d.ready(c)
	d.keeps("And what is a seam")
	d.control('q')
	d.ends(window, "the window")
	d.engineEnds()
}

// begin starts the window and waits until it has drawn itself.
func (d *desk) begin() *program {
	d.t.Helper()
	was := strings.Count(d.logged(), "window shown")
	p := d.start()
	d.window(d.ctx, "Neuron")
	until(d.ctx, d.t, "the first frame", func() bool { return strings.Count(d.logged(), "window shown") > was })
	until(d.ctx, d.t, "something is drawn", func() bool { return colors(d.look()) > 20 })
	d.settle()
	return p
}

// logged is the window's log, "" before there is one.
func (d *desk) logged() string {
	d.t.Helper()
	b, err := os.ReadFile(d.file("logs/window.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Fatal(err)
	}
	return string(b)
}

// file is a file of the data folder.
func (d *desk) file(name string) string { return filepath.Join(d.data, filepath.FromSlash(name)) }

func (d *desk) write(name string, b []byte) {
	d.t.Helper()
	err := os.MkdirAll(filepath.Dir(d.file(name)), 0o700)
	if err == nil {
		err = os.WriteFile(d.file(name), b, 0o600)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// there waits for files, by their patterns.
func (d *desk) there(patterns ...string) {
	d.t.Helper()
	for _, p := range patterns {
		until(d.ctx, d.t, p+" is there", func() bool {
			found, err := filepath.Glob(d.file(p))
			return err == nil && len(found) > 0
		})
	}
}

// keeps waits until the chats on the disk have a draft and the first question.
func (d *desk) keeps(draft string) {
	d.t.Helper()
	until(d.ctx, d.t, "the chat is kept with "+strconv.Quote(draft), func() bool {
		if _, err := os.Stat(d.file("window/chats.db")); err != nil {
			return false
		}
		s, ok := d.said()
		return ok && s.draft == draft && s.question != nil && s.answer != nil
	})
}

// ready waits until this computer serves its layers.
func (d *desk) ready(c *localapi.Client) {
	d.t.Helper()
	until(d.ctx, d.t, "this computer serves its layers", func() bool {
		s, err := c.Status(d.ctx)
		return err == nil && len(s.StagePIDs) == 1 && len(s.Shards) == 1 && s.Shards[0].State == protocol.ShardReady
	})
}

func (d *desk) status(c *localapi.Client) *localapi.Status {
	d.t.Helper()
	s, err := c.Status(d.ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// tray is the process of the data folder's tray, 0 while none runs.
func (d *desk) tray() int {
	d.t.Helper()
	if !instance.Running(d.data, instance.Tray) {
		return 0
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(line, []byte("neuron-tray\x00")) || !bytes.Contains(line, []byte(d.data)) {
			continue // others, and one that has ended since
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err != nil {
			d.t.Fatal(err)
		}
		return pid
	}
	return 0
}
