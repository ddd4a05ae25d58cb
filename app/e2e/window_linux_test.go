package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/localnet"
)

// limit is how long the whole story may take, on a slow machine with software
// OpenGL.
const limit = 5 * time.Minute

// desk is a user's computer: a screen, a network, and a data folder.
type desk struct {
	*screen
	t    *testing.T
	ctx  context.Context
	net  *localnet.Net
	data string
}

// newDesk sets one up, with flags for the network's tracker.
func newDesk(t *testing.T, tracker ...string) *desk {
	t.Helper()
	if missing != "" {
		t.Skip("SKIPPED: " + missing)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	// A home of its own: the start at login and the preferences of Fyne are there.
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	t.Setenv("XDG_DATA_HOME", "")
	t.Setenv("LANG", "en_US.UTF-8")
	t.Setenv("LC_ALL", "")
	t.Setenv("NEURON_LOG", "info,window=debug")
	d := &desk{screen: newScreen(t), t: t, ctx: ctx, data: filepath.Join(home, "neuron")}
	n, err := localnet.Start(ctx, localnet.Options{Bin: bin, Data: filepath.Join(home, "net"), TrackerArgs: tracker})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	d.net = n
	return d
}

// program is the window's process.
type program struct {
	cmd    *exec.Cmd
	done   chan error // gets its end
	stderr string     // a file
}

// start starts the window. What it starts itself ends with the test.
func (d *desk) start(args ...string) *program {
	d.t.Helper()
	p := &program{cmd: exec.Command(filepath.Join(bin, "neuron"), append([]string{"--data", d.data}, args...)...), done: make(chan error, 1)}
	out, err := os.CreateTemp(d.t.TempDir(), "stderr")
	if err != nil {
		d.t.Fatal(err)
	}
	defer out.Close()
	p.cmd.Stderr, p.stderr = out, out.Name()
	if err := p.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	d.t.Cleanup(func() {
		p.cmd.Process.Kill() // an error: it has ended
		if c, err := localapi.Dial(d.data); err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			c.Shutdown(ctx)
			c.Close()
		}
		if d.t.Failed() {
			for _, name := range []string{"window.log", "engine.log", "tray.log"} {
				if b, err := os.ReadFile(filepath.Join(d.data, "logs", name)); err == nil {
					d.t.Logf("the end of %s:\n%s", name, b[max(0, len(b)-3000):])
				}
			}
		}
	})
	return p
}

// ends waits for the end of a program.
func (d *desk) ends(p *program, what string) {
	d.t.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			d.t.Errorf("%s ended with %v", what, err)
		}
	case <-d.ctx.Done():
		d.t.Fatalf("%s does not end", what)
	}
}

// engine waits for the engine's local API.
func (d *desk) engine() *localapi.Client {
	d.t.Helper()
	var c *localapi.Client
	until(d.ctx, d.t, "the engine answers", func() bool {
		var err error
		c, err = localapi.Dial(d.data)
		return err == nil
	})
	d.t.Cleanup(c.Close)
	return c
}

func (d *desk) settings(c *localapi.Client) policy.Settings {
	d.t.Helper()
	s, err := c.Settings(d.ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// change presses keys and waits until the screen has changed and rests.
func (d *desk) change(what string, keys func()) {
	d.t.Helper()
	before := d.look()
	keys()
	until(d.ctx, d.t, what, func() bool { return differs(before, d.look()) > 500 })
	d.settle()
}

// settle waits until the screen rests.
func (d *desk) settle() {
	d.t.Helper()
	last := d.look()
	until(d.ctx, d.t, "the screen rests", func() bool {
		now := d.look()
		same := differs(last, now) < 200
		last = now
		return same
	})
}

// rest waits until the screen has not changed at all for half a second: nothing
// is being asked for any more, which would turn.
func (d *desk) rest() {
	d.t.Helper()
	last, same := d.look(), 0
	until(d.ctx, d.t, "nothing turns on the screen", func() bool {
		now := d.look()
		if same++; differs(last, now) > 0 {
			same = 0
		}
		last = now
		return same >= 10
	})
}

// log is what the window has logged.
func (d *desk) log() string {
	b, err := os.ReadFile(filepath.Join(d.data, "logs", "window.log"))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

// engineEnds waits for the end of the engine.
func (d *desk) engineEnds() {
	d.t.Helper()
	until(d.ctx, d.t, "the engine has ended", func() bool {
		again, err := localapi.Dial(d.data)
		if err == nil {
			again.Close()
		}
		return errors.Is(err, &protocol.Error{Code: protocol.CodeUnavailable})
	})
}

// quiet wants that a window that has ended complained of nothing.
func (d *desk) quiet(window *program) {
	d.t.Helper()
	if log := d.log(); strings.Contains(log, "level=ERROR") {
		d.t.Errorf("the window logged errors:\n%s", log)
	}
	// Fyne says there when it is called by another goroutine than its own. That it
	// sometimes reads its own preferences while it writes them at the end, and
	// says so, is of no consequence: nothing of ours is in them.
	if said, err := os.ReadFile(window.stderr); err != nil || strings.Contains(string(said), "Fyne call thread") || strings.Contains(string(said), "panic:") {
		d.t.Errorf("the window said (%v):\n%s", err, said)
	}
}

// TestFirstDay is the story of a first day: start, the questions, sharing, a look
// at the pages, a crash of the engine, a second launch, and the end.
func TestFirstDay(t *testing.T) {
	d := newDesk(t)
	window := d.start()
	id := d.window(d.ctx, "Neuron")
	c := d.engine()
	until(d.ctx, t, "the first frame", func() bool { return strings.Contains(d.log(), "window shown") })

	// The questions, by the keyboard alone.
	until(d.ctx, t, "something is drawn", func() bool { return colors(d.look()) > 20 })
	if d.settings(c).SetUp {
		t.Fatal("the settings are set up before anything was asked")
	}
	d.settle()
	d.picture("e2e-1-welcome")
	d.change("this computer is shown", func() { d.key(keyReturn) })
	d.change("sharing is asked", func() { d.key(keyReturn) })
	d.change("sharing is turned on", func() { d.key(keyTab); d.text(" ") })
	d.picture("e2e-2-sharing")
	d.change("the network is asked", func() { d.key(keyTab, keyShift); d.key(keyReturn) })
	d.change("the address is typed", func() { d.key(keyTab); d.text(d.net.TrackerURL) })
	d.change("the network answers", func() { d.key(keyReturn) })
	d.picture("e2e-3-network")
	d.change("the end of the questions", func() { d.key(keyTab, keyShift); d.key(keyReturn) })
	d.change("the pages are there", func() { d.key(keyReturn) })
	s := d.settings(c)
	if !s.SetUp || !s.Share || s.Tracker != d.net.TrackerURL {
		t.Fatalf("saved: %+v", s)
	}

	// The engine does what was answered.
	until(d.ctx, t, "the engine is in the network and follows the rules", func() bool {
		st, err := c.Status(d.ctx)
		if err != nil || !st.Tracker.Connected || st.Policy == nil {
			return false
		}
		r := st.Policy.Reason
		return r != protocol.SharingUserOff && r != protocol.SharingNotSetUp && r != protocol.SharingNoTracker
	})

	// Every page, twice: the first time it is built, the second time it is there.
	d.focus(id)
	pages := pageCount(t)
	for i := range 2 * pages {
		number := rune('1' + (i+1)%pages)
		d.change("page "+string(number)+" is shown", func() { d.control(number) })
		d.picture("e2e-page-" + string(number))
	}

	// A crash of the engine is healed, and the window finds the new one.
	st, err := c.Status(d.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(d.ctx, t, "another engine runs", func() bool {
		again, err := localapi.Dial(d.data)
		if err != nil {
			return false
		}
		defer again.Close()
		now, err := again.Status(d.ctx)
		return err == nil && now.PID != st.PID
	})
	if s := d.settings(d.engine()); !s.SetUp || !s.Share {
		t.Errorf("the crash has lost settings: %+v", s)
	}

	// A second launch shows the first window and ends.
	d.ends(d.start(), "the second launch")
	select {
	case err := <-window.done:
		t.Fatalf("the first window ended: %v", err)
	default:
	}

	// Quitting ends all of it, and asks nothing.
	d.focus(id)
	d.control('q')
	d.ends(window, "the window")
	d.engineEnds()
	d.quiet(window)
	for line := range strings.Lines(d.log()) {
		if strings.Contains(line, "window shown") || strings.Contains(line, "page drawn") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// pageList is the navigation's list of pages: the source itself.
func pageList(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "pages.go"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// pageCount is how many pages the window has.
func pageCount(t *testing.T) int {
	t.Helper()
	return strings.Count(pageList(t), ".New(env)")
}

// pageKey is what opens a page together with Control.
func pageKey(t *testing.T, name string) rune {
	t.Helper()
	before, _, ok := strings.Cut(pageList(t), name+".New(env)")
	if !ok {
		t.Fatalf("there is no page %s", name)
	}
	return rune('1' + strings.Count(before, ".New(env)"))
}
