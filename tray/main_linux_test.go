package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"neuron/assets/icons"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/folders"
	"neuron/internal/desktop/instance"
	"neuron/internal/desktop/prefs"
	"neuron/tray/icon"
	"neuron/tray/menu"
	"neuron/tray/traytest"
)

// The test binary plays the tray, and the programs that the tray starts.
func TestMain(m *testing.M) {
	play := os.Getenv("NEURON_TRAY_PLAY")
	if play == "" {
		os.Exit(m.Run())
	}
	data := os.Args[slices.Index(os.Args, "--data")+1]
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch {
	case play == "bare": // the library alone, as if the bus died when it is needed
		icon.Run(slog.Default(), menu.View{}, func(b *icon.Board) {
			b.Close()
			icon.Quit()
		})
	case play == "dead bus": // changes the icon when a line comes
		icon.Run(slog.Default(), menu.View{Icon: icons.Sharing}, func(b *icon.Board) {
			defer icon.Quit()
			defer b.Close()
			if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err == nil {
				b.Show(menu.View{Icon: icons.Paused}, time.Now())
			}
		})
	case os.Args[1] == "desktop":
		e := traytest.NewEngine()
		srv, err := e.Serve(data)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {
		case <-ctx.Done():
		case <-e.Ended:
		case <-time.After(2 * time.Minute): // a test that failed leaves nothing behind
		}
		srv.Close(context.Background())
	case play == "tray":
		os.Setenv("NEURON_TRAY_PLAY", "sister")
		os.Exit(run(ctx, os.Args[1:], os.Stderr, func(string) (string, error) { return os.Executable() }))
	default: // the window: says that it was opened
		i, err := instance.Take(data, instance.Window)
		if err != nil {
			os.Exit(1)
		}
		select {
		case <-i.Heard():
		case <-time.After(2 * time.Minute):
		}
		i.Close()
	}
}

// desk is a desktop: bus, data folder, engine.
type desk struct {
	t      *testing.T
	bus    *traytest.Bus
	data   string
	engine *traytest.Engine
	ctx    context.Context
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("SKIPPED: there is no dbus-daemon")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	d := &desk{t: t, data: t.TempDir(), engine: traytest.NewEngine(), ctx: ctx}
	p, err := prefs.Open(d.data)
	if err == nil {
		err = p.Update(func(p *prefs.Prefs) { p.Language = "en" })
	}
	if err != nil {
		t.Fatal(err)
	}
	if d.bus, err = traytest.StartBus(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.bus.Kill)
	return d
}

// serve gives the desk an engine that runs in this process.
func (d *desk) serve() {
	d.t.Helper()
	srv, err := d.engine.Serve(d.data)
	if err != nil {
		d.t.Fatal(err)
	}
	ended := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-d.engine.Ended:
		case <-over:
		}
		srv.Close(context.Background())
	}()
	d.t.Cleanup(func() {
		close(over)
		<-ended
	})
}

func (d *desk) panel(host bool) *traytest.Panel {
	d.t.Helper()
	p, err := traytest.NewPanel(d.bus, host)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { p.Close() })
	return p
}

// process is a tray of its own.
type process struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	ended  chan struct{}
	err    error
}

func (d *desk) tray(args ...string) *process {
	d.t.Helper()
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self, append(args, "--data", d.data)...), stderr: new(bytes.Buffer), ended: make(chan struct{})}
	p.cmd.Stderr = p.stderr
	runtimeDir := d.t.TempDir()
	p.cmd.Env = append(os.Environ(), "NEURON_TRAY_PLAY=tray", "DBUS_SESSION_BUS_ADDRESS="+d.bus.Address, "XDG_RUNTIME_DIR="+runtimeDir, "GORACE=exitcode=0")
	if err := p.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	d.t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if d.t.Failed() {
			log, err := os.ReadFile(filepath.Join(folders.Logs(d.data), "tray.log"))
			d.t.Logf("the tray's log (%v):\n%s\n%s", err, log, p.stderr)
		}
	})
	return p
}

// ends waits for the end of a tray.
func (d *desk) ends(p *process) {
	d.t.Helper()
	select {
	case <-p.ended:
	case <-d.ctx.Done():
		d.t.Fatal("the tray does not end")
	}
	if p.err != nil {
		d.t.Errorf("the tray ended with %v", p.err)
	}
	for _, report := range ownRaces(p.stderr.String()) {
		d.t.Error(report)
	}
	log, err := os.ReadFile(filepath.Join(folders.Logs(d.data), "tray.log"))
	if err != nil {
		d.t.Error(err)
	}
	if text := p.stderr.String() + string(log); strings.Contains(text, "panic:") {
		d.t.Errorf("the tray panicked:\n%s", text)
	}
}

var access = regexp.MustCompile(`(?m)^\s*(?:Previous )?(?:[Ww]rite|[Rr]ead) at .*:\n\s*(\S+)$`)

// ownRaces are the race detector's reports but for those in which both sides are
// the tray's library: its 1.12.2 counts the menu's revisions under one lock and
// reads them under another, which costs a panel a second look at most.
func ownRaces(stderr string) []string {
	var out []string
	for report := range strings.SplitSeq(stderr, "==================") {
		if !strings.Contains(report, "WARNING: DATA RACE") {
			continue
		}
		sides := access.FindAllStringSubmatch(report, -1)
		library := len(sides) == 2
		for _, s := range sides {
			library = library && strings.HasPrefix(s[1], "fyne.io/systray.")
		}
		if !library {
			out = append(out, report)
		}
	}
	return out
}

func TestRacesOfOursAreSeen(t *testing.T) {
	t.Parallel()
	report := func(a, b string) string {
		return "x\n==================\nWARNING: DATA RACE\nWrite at 0x1 by goroutine 50:\n  " + a + "()\n      /f.go:4 +0x1\n\nPrevious read at 0x1 by goroutine 5:\n  " + b + "()\n      /f.go:9 +0x2\n==================\n"
	}
	if r := ownRaces(report("fyne.io/systray.refresh", "fyne.io/systray.(*tray).GetLayout")); len(r) != 0 {
		t.Errorf("%q", r)
	}
	for _, b := range []string{"neuron/tray/icon.(*Board).Show", "fyne.io/other.f"} {
		if r := ownRaces(report("fyne.io/systray.refresh", b)); len(r) != 1 {
			t.Errorf("%s: %q", b, r)
		}
	}
}

// registers waits until an item has come to the panel.
func (d *desk) registers(p *traytest.Panel) string {
	d.t.Helper()
	select {
	case name := <-p.Registered:
		return name
	case <-d.ctx.Done():
		d.t.Fatal("no icon came")
		return ""
	}
}

// until looks at an item's menu until it is so.
func (d *desk) until(p *traytest.Panel, item, what string, ok func([]traytest.Entry) bool) []traytest.Entry {
	d.t.Helper()
	for {
		menu, err := p.Menu(d.ctx, item)
		if err != nil {
			d.t.Fatal(err)
		}
		if ok(menu) {
			return menu
		}
		select {
		case <-d.ctx.Done():
			d.t.Fatalf("never came: %s; the menu is %+v", what, menu)
		case <-time.After(20 * time.Millisecond): // polling another process, bounded
		}
	}
}

func says(text string) func([]traytest.Entry) bool {
	return func(m []traytest.Entry) bool { return len(m) > 0 && m[0].Label == text }
}

func entry(t *testing.T, menu []traytest.Entry, label string) traytest.Entry {
	t.Helper()
	for _, e := range menu {
		if e.Label == label {
			return e
		}
		for _, c := range e.Children {
			if c.Label == label {
				return c
			}
		}
	}
	t.Fatalf("no %q in %+v", label, menu)
	return traytest.Entry{}
}

// outline writes a menu as a panel shows it.
func outline(menu []traytest.Entry, indent string) string {
	var b strings.Builder
	for _, e := range menu {
		if !e.Visible {
			continue
		}
		s := e.Label
		if e.Line {
			s = "---"
		} else if !e.Enabled {
			s = "(" + s + ")"
		}
		if e.Check >= 0 {
			s = []string{"[ ] ", "[x] "}[e.Check] + s
		}
		b.WriteString(indent + s + "\n" + outline(e.Children, indent+"  "))
	}
	return b.String()
}

func TestTrayOnARealBus(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.serve()
	panel := d.panel(true)
	tray := d.tray("--hidden")
	item := d.registers(panel)
	d.until(panel, item, "sharing", says("Sharing this computer."))
	menu := d.until(panel, item, "the setting", func(m []traytest.Entry) bool { return len(m) > 5 && len(m[3].Children) == 5 && m[5].Enabled })
	if got, want := outline(menu, ""), `(Sharing this computer.)
---
[x] Share this computer
Pause
  For 30 minutes
  For 1 hour
  For 3 hours
  Until tomorrow
  Until I resume
[ ] Only when I am away
---
Open Neuron
---
Quit Neuron
`; got != want {
		t.Errorf("the menu is\n%swant\n%s", got, want)
	}
	if id, err := panel.Property(d.ctx, item, "Id"); err != nil || id.Value() != "neuron" {
		t.Errorf("the item's id is %v, %v", id, err)
	}
	if pix, err := panel.Property(d.ctx, item, "IconPixmap"); err != nil || len(pix.String()) < 1000 {
		t.Errorf("no icon: %v", err)
	}
	if err := panel.Click(d.ctx, item, entry(t, menu, "For 1 hour").ID); err != nil {
		t.Fatal(err)
	}
	if want := "pause {Seconds:3600 Tomorrow:false UntilResumed:false}"; !d.engine.Await(d.ctx, want) {
		t.Fatalf("%q never came; only %q", want, d.engine.Orders())
	}
	paused := d.until(panel, item, "paused", func(m []traytest.Entry) bool { return strings.HasPrefix(m[0].Label, "Paused by you until ") })
	// Items keep their numbers: nothing is built anew.
	if a, b := entry(t, menu, "Quit Neuron"), entry(t, paused, "Quit Neuron"); a.ID != b.ID {
		t.Errorf("item %d became %d", a.ID, b.ID)
	}
	if e := entry(t, paused, "Pause"); e.Visible {
		t.Error("pausing what is paused")
	}
	if err := panel.Click(d.ctx, item, entry(t, paused, "Resume").ID); err != nil {
		t.Fatal(err)
	}
	d.until(panel, item, "sharing again", says("Sharing this computer."))

	// The panel is started anew, as Explorer, plasmashell and extensions are.
	panel.Close()
	panel = d.panel(true)
	item = d.registers(panel)
	menu = d.until(panel, item, "the menu is there again", says("Sharing this computer."))

	if err := panel.Click(d.ctx, item, entry(t, menu, "Quit Neuron").ID); err != nil {
		t.Fatal(err)
	}
	if !d.engine.Await(d.ctx, "shutdown") {
		t.Fatal("the engine was not asked to end")
	}
	d.ends(tray)
}

func TestIconComesWithThePanel(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.serve()
	notes, stop, err := traytest.Notifications(d.bus)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	panel := d.panel(false) // GNOME without its extension
	tray := d.tray("--hidden")
	select {
	case n := <-notes:
		if n.App != "Neuron" || n.Title != "Neuron runs without an icon" || n.Replaces != 0 {
			t.Errorf("%+v", n)
		}
	case <-d.ctx.Done():
		t.Fatal("the user does not hear that there is no icon")
	}
	for !instance.Running(d.data, instance.Window) {
		select {
		case <-d.ctx.Done():
			t.Fatal("no window was opened instead")
		case <-time.After(20 * time.Millisecond): // polling another process, bounded
		}
	}
	if len(panel.Registered) != 0 {
		t.Error("an icon without a host")
	}
	if err := panel.AddHost(); err != nil {
		t.Fatal(err)
	}
	item := d.registers(panel)
	menu := d.until(panel, item, "sharing", says("Sharing this computer."))
	if err := panel.Click(d.ctx, item, entry(t, menu, "Quit Neuron").ID); err != nil {
		t.Fatal(err)
	}
	d.ends(tray)
	if instance.Running(d.data, instance.Window) {
		t.Error("the window is left")
	}
}

func TestBusDies(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.serve()
	panel := d.panel(true)
	tray := d.tray("--hidden")
	d.registers(panel)
	d.bus.Kill()
	d.ends(tray)
	if o := d.engine.Orders(); len(o) != 0 {
		t.Errorf("the engine heard %q", o)
	}
}

func TestNoBusAtAll(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.serve()
	d.bus.Kill()
	tray := d.tray() // not hidden: its window opens
	for !instance.Running(d.data, instance.Window) {
		select {
		case <-tray.ended:
			t.Fatalf("ended: %v\n%s", tray.err, tray.stderr)
		case <-d.ctx.Done():
			t.Fatal("no window")
		case <-time.After(20 * time.Millisecond): // polling another process, bounded
		}
	}
	// A second launch at login takes over from a tray that cannot be seen.
	second := d.tray("--hidden")
	d.ends(tray)
	for !instance.Running(d.data, instance.Tray) {
		select {
		case <-second.ended:
			t.Fatalf("it ended too: %v\n%s", second.err, second.stderr)
		case <-d.ctx.Done():
			t.Fatal("nobody has taken over")
		case <-time.After(20 * time.Millisecond): // polling another process, bounded
		}
	}
	// One by hand shows the window, and is over.
	third := d.tray()
	d.ends(third)
	if err := instance.Send(d.ctx, d.data, instance.Tray, instance.Quit); err != nil {
		t.Fatal(err)
	}
	d.ends(second)
}

func TestTrayStartsTheEngine(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	panel := d.panel(true)
	tray := d.tray("--hidden")
	item := d.registers(panel)
	menu := d.until(panel, item, "sharing", says("Sharing this computer."))
	c, err := localapi.Dial(d.data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pid := c.Address().PID
	// The engine crashes: another one takes its place.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for {
		if c, err := localapi.Dial(d.data); err == nil && c.Address().PID != pid {
			c.Close()
			break
		}
		select {
		case <-d.ctx.Done():
			t.Fatal("the engine was not started again")
		case <-time.After(20 * time.Millisecond): // polling another process, bounded
		}
	}
	d.until(panel, item, "sharing again", says("Sharing this computer."))
	if err := panel.Click(d.ctx, item, entry(t, menu, "Quit Neuron").ID); err != nil {
		t.Fatal(err)
	}
	d.ends(tray)
	if _, err := localapi.Dial(d.data); !errors.Is(err, &protocol.Error{Code: protocol.CodeUnavailable}) {
		t.Errorf("the engine runs still: %v", err)
	}
}

// Quitting without a bus is a nil pointer in the tray's library (systray 1.12.2,
// fixed after it).
func TestLibraryWithoutBusDoesNotPanic(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "--data", t.TempDir())
	cmd.Env = append(os.Environ(), "NEURON_TRAY_PLAY=bare", "DBUS_SESSION_BUS_ADDRESS=unix:path="+t.TempDir()+"/nobody")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Changing the icon after the bus has died was a panic: the library calls what
// must not fail.
func TestIconChangesAfterTheBusDied(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	panel := d.panel(true)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(self, "--data", d.data)
	cmd.Env = append(os.Environ(), "NEURON_TRAY_PLAY=dead bus", "DBUS_SESSION_BUS_ADDRESS="+d.bus.Address)
	cmd.Stdout, cmd.Stderr = &out, &out
	line, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	d.registers(panel)
	d.bus.Kill()
	for panel.Alive() {
		select {
		case <-d.ctx.Done():
			t.Fatal("the bus lives")
		case <-time.After(20 * time.Millisecond): // polling a connection, bounded
		}
	}
	fmt.Fprintln(line, "go")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// SIGTERM, which a session's end sends, ends the tray alone.
func TestSignalEndsTheTrayAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.serve()
	panel := d.panel(true)
	tray := d.tray("--hidden")
	d.registers(panel)
	if err := tray.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.ends(tray)
	if o := d.engine.Orders(); len(o) != 0 {
		t.Errorf("the engine heard %q", o)
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for want, args := range map[int][]string{0: {"--version"}, 2: {"--nothing"}} {
		var out bytes.Buffer
		if got := run(t.Context(), args, &out, nil); got != want || out.Len() == 0 {
			t.Errorf("%q: status %d, %q", args, got, out.String())
		}
	}
}
