package x11_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	"neuron/engine/host/source"
	"neuron/engine/host/x11"
	xserver "neuron/engine/host/x11/xtest"
)

const patience = 20 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// client is a program with windows, and the window manager besides.
type client struct {
	t    *testing.T
	conn *xgb.Conn
	root xproto.Window
}

func newClient(t *testing.T, display string) *client {
	t.Helper()
	conn, err := xgb.NewConnDisplay(display)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return &client{t, conn, xproto.Setup(conn).DefaultScreen(conn).Root}
}

func (c *client) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) atom(name string) xproto.Atom {
	c.t.Helper()
	r, err := xproto.InternAtom(c.conn, false, uint16(len(name)), name).Reply()
	c.must(err)
	return r.Atom
}

// window shows one. bare is without a frame of the window manager's.
func (c *client) window(width, height uint16, bare bool) xproto.Window {
	c.t.Helper()
	w, err := xproto.NewWindowId(c.conn)
	c.must(err)
	value := uint32(0)
	if bare {
		value = 1
	}
	c.must(xproto.CreateWindowChecked(c.conn, 0, w, c.root, 0, 0, width, height, 0, xproto.WindowClassInputOutput, 0, xproto.CwOverrideRedirect, []uint32{value}).Check())
	c.must(xproto.MapWindowChecked(c.conn, w).Check())
	return w
}

func (c *client) set(w xproto.Window, name string, kind xproto.Atom, format byte, value []byte) {
	c.t.Helper()
	c.must(xproto.ChangePropertyChecked(c.conn, xproto.PropModeReplace, w, c.atom(name), kind, format, uint32(len(value)*8/int(format)), value).Check())
}

func (c *client) activate(w xproto.Window) {
	c.t.Helper()
	b := make([]byte, 4)
	xgb.Put32(b, uint32(w))
	c.set(c.root, "_NET_ACTIVE_WINDOW", xproto.AtomWindow, 32, b)
}

func (c *client) state(w xproto.Window, names ...string) {
	c.t.Helper()
	b := make([]byte, 4*len(names))
	for i, n := range names {
		xgb.Put32(b[4*i:], uint32(c.atom(n)))
	}
	c.set(w, "_NET_WM_STATE", xproto.AtomAtom, 32, b)
}

func (c *client) class(w xproto.Window, name string) {
	c.t.Helper()
	c.set(w, "WM_CLASS", xproto.AtomString, 8, []byte(name+"\x00"+name+"\x00"))
}

func (c *client) focus(w xproto.Window) {
	c.t.Helper()
	c.must(xproto.SetInputFocusChecked(c.conn, xproto.InputFocusParent, w, xproto.TimeCurrentTime).Check())
}

func TestIdleTime(t *testing.T) {
	t.Parallel()
	display, _ := xserver.Start(t)
	d := x11.Open(display)
	defer d.Close()
	c := newClient(t, display)
	c.must(xtest.Init(c.conn))
	touch := func() {
		t.Helper()
		c.must(xtest.FakeInputChecked(c.conn, xproto.MotionNotify, 0, 0, c.root, 100, 100, 0).Check())
		c.must(xtest.FakeInputChecked(c.conn, xproto.MotionNotify, 0, 0, c.root, 200, 200, 0).Check())
	}
	touch()
	at := time.Now()
	first, err := d.Idle(within(t))
	if err != nil || first > time.Since(at)+50*time.Millisecond {
		t.Fatalf("just touched: %s, %v", first, err)
	}
	for first < 300*time.Millisecond { // it grows
		if first, err = d.Idle(within(t)); err != nil {
			t.Fatal(err)
		}
		if passed := time.Since(at) + 50*time.Millisecond; first > passed {
			t.Fatalf("idle for %s, %s after the last input", first, passed)
		}
	}
	touch()
	at = time.Now()
	if again, err := d.Idle(within(t)); err != nil || again > time.Since(at)+50*time.Millisecond || again >= first {
		t.Errorf("touched again: %s, %v", again, err)
	}
}

func TestFullScreen(t *testing.T) {
	t.Parallel()
	display, _ := xserver.Start(t)
	d := x11.Open(display)
	defer d.Close()
	c := newClient(t, display)
	want := func(full bool, what string) {
		t.Helper()
		if got, err := d.FullScreen(within(t)); err != nil || got != full {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	want(false, "an empty screen")
	w := c.window(400, 300, false)
	c.class(w, "editor")
	c.activate(w)
	c.focus(w)
	want(false, "a window")
	c.state(w, "_NET_WM_STATE_MAXIMIZED_VERT", "_NET_WM_STATE_MAXIMIZED_HORZ")
	want(false, "a maximised window")
	c.state(w, "_NET_WM_STATE_ABOVE", "_NET_WM_STATE_FULLSCREEN")
	want(true, "a window that says so")
	c.class(w, "Xfce4-Screensaver")
	want(false, "a screen saver")
	c.class(w, "game")
	want(true, "a game")
	c.state(w)
	want(false, "a game in a window again")

	covers := c.window(xserver.Width, xserver.Height, false)
	c.activate(covers)
	c.focus(covers)
	want(false, "a window of a tiling desktop that covers the screen")
	bare := c.window(xserver.Width, xserver.Height, true)
	c.focus(bare)
	want(true, "an old game, without a frame")
	c.class(bare, "i3lock")
	want(false, "a locker")
	c.class(bare, "editor")
	c.activate(bare)
	want(false, "a frame of the window manager's that covers the screen")
	c.activate(w)
	small := c.window(200, 100, true)
	c.focus(small)
	want(false, "a menu")
	c.must(xproto.DestroyWindowChecked(c.conn, small).Check())
	c.activate(small)
	want(false, "an active window that is gone")
}

func TestALostServerIsFoundAgain(t *testing.T) {
	t.Parallel()
	display, stop := xserver.Start(t)
	d := x11.Open(display)
	defer d.Close()
	if _, err := d.Idle(within(t)); err != nil {
		t.Fatal(err)
	}
	stop()
	if idle, err := d.Idle(within(t)); err == nil {
		t.Errorf("%s without a server", idle)
	}
	if _, err := d.FullScreen(within(t)); err == nil {
		t.Error("an answer without a server")
	}
}

// TestQuestionsInARowAreNotBusy: the turn came back only after the answer, so that
// a question right behind another one was refused.
func TestQuestionsInARowAreNotBusy(t *testing.T) {
	t.Parallel()
	display, _ := xserver.Start(t)
	d := x11.Open(display)
	defer d.Close()
	ctx := within(t)
	for range 2000 {
		if _, err := d.Idle(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	none := x11.Open("")
	if _, err := none.Idle(within(t)); !errors.Is(err, source.ErrNotTold) {
		t.Error(err)
	}
	if err := none.Close(); err != nil {
		t.Error(err)
	}
	if _, err := x11.Open("nonsense").Idle(within(t)); err == nil {
		t.Error("an answer of nobody")
	}
}

// TestAServerThatSaysNothing: a question ends with its context, and the next one
// does not pile up behind it.
func TestAServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "mute:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := x11.Open(filepath.Join(dir, "mute:0"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.Idle(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if _, err := d.FullScreen(within(t)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second question: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
