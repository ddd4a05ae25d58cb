package wayland

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"neuron/engine/host/source"
	"neuron/internal/leaktest"
)

// compositor plays one for a single client at a time, by the protocol's text.
type compositor struct {
	t       *testing.T
	socket  string
	globals []string
	l       net.Listener
	clients chan net.Conn // those that have asked for a notification
	wg      sync.WaitGroup
}

func newCompositor(t *testing.T, globals ...string) *compositor {
	t.Helper()
	dir, err := os.MkdirTemp("", "wl")
	if err != nil {
		t.Fatal(err)
	}
	c := &compositor{t: t, socket: filepath.Join(dir, "wayland-7"), globals: globals, clients: make(chan net.Conn, 4)}
	if c.l, err = net.Listen("unix", c.socket); err != nil {
		t.Fatal(err)
	}
	c.wg.Go(func() {
		for {
			conn, err := c.l.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		c.l.Close()
		c.wg.Wait()
		os.RemoveAll(dir)
	})
	return c
}

// serve answers what a client needs to ask for a notification, and checks how it
// asks.
func (c *compositor) serve(conn net.Conn) {
	bound := map[uint32]string{}
	defer conn.Close()
	for {
		m, err := readMessage(conn)
		if err != nil {
			return
		}
		a := m.read()
		switch {
		case m.object == 1 && m.code == 1: // get_registry
			id := a.uint()
			for i, g := range c.globals {
				conn.Write((&message{object: id, code: 0}).uint(uint32(i + 10)).text(g).uint(3).append(nil))
			}
		case m.object == 1 && m.code == 0: // sync
			conn.Write((&message{object: a.uint(), code: 0}).uint(1).append(nil))
		case m.object == idRegistry && m.code == 0: // bind
			number, name, version, id := a.uint(), a.text(), a.uint(), a.uint()
			if !a.ok || version != 1 || int(number) < 10 || c.globals[number-10] != name {
				c.t.Errorf("bind %d %q %d %d", number, name, version, id)
			}
			bound[id] = name
		case bound[m.object] == "ext_idle_notifier_v1" && m.code == 1: // get_idle_notification
			id, ms, seat := a.uint(), a.uint(), a.uint()
			if id != idNotice || ms != 20_000 || bound[seat] != "wl_seat" {
				c.t.Errorf("get_idle_notification %d %d %d", id, ms, seat)
			}
			c.clients <- conn
		default:
			c.t.Errorf("request %+v", m)
		}
	}
}

func (c *compositor) client() net.Conn {
	c.t.Helper()
	select {
	case conn := <-c.clients:
		return conn
	case <-time.After(20 * time.Second):
		c.t.Fatal("no client has asked")
		return nil
	}
}

func (c *compositor) send(conn net.Conn, object uint32, code uint16) {
	c.t.Helper()
	if _, err := conn.Write((&message{object: object, code: code}).append(nil)); err != nil {
		c.t.Fatal(err)
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// await reads until the idle time is right.
func await(t *testing.T, i *Idle, what string, right func(time.Duration) bool) {
	t.Helper()
	ctx := within(t)
	for {
		d, err := i.Read(ctx)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if right(d) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestTheCompositorTells(t *testing.T) {
	leaktest.Check(t)
	c := newCompositor(t, "wl_compositor", "wl_seat", "wl_seat", "ext_idle_notifier_v1")
	i := NewIdle(c.socket)
	defer i.Close()
	if d, err := i.Read(within(t)); err != nil || d != 0 {
		t.Fatalf("%s, %v", d, err)
	}
	conn := c.client()
	c.send(conn, idNotice, noticeIdled)
	await(t, i, "idle", func(d time.Duration) bool { return d >= 20*time.Second && d < 40*time.Second })
	first, _ := i.Read(within(t))
	await(t, i, "it grows", func(d time.Duration) bool { return d > first })
	c.send(conn, 77, 3) // of an object that is none of ours
	c.send(conn, idNotice, noticeResumed)
	await(t, i, "active", func(d time.Duration) bool { return d == 0 })

	conn.Close() // the compositor restarts
	await(t, i, "connected again", func(time.Duration) bool { return len(c.clients) > 0 })
	c.send(c.client(), idNotice, noticeIdled)
	await(t, i, "idle again", func(d time.Duration) bool { return d >= 20*time.Second })
}

func TestCompositorsThatDoNotTell(t *testing.T) {
	leaktest.Check(t)
	for what, globals := range map[string][]string{"no notifier": {"wl_seat"}, "no seat": {"ext_idle_notifier_v1"}, "nothing": nil} {
		i := NewIdle(newCompositor(t, globals...).socket)
		if _, err := i.Read(within(t)); !errors.Is(err, source.ErrNotTold) {
			t.Errorf("%s: %v", what, err)
		}
		i.Close()
	}
	if _, err := NewIdle("").Read(within(t)); !errors.Is(err, source.ErrNotTold) {
		t.Errorf("no Wayland: %v", err)
	}
	if _, err := NewIdle(filepath.Join(t.TempDir(), "none")).Read(within(t)); err == nil {
		t.Error("an answer of nobody")
	}
}

// TestACompositorThatSaysNothing: connecting ends with the context.
func TestACompositorThatSaysNothing(t *testing.T) {
	leaktest.Check(t)
	dir, err := os.MkdirTemp("", "wl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "mute"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	i := NewIdle(filepath.Join(dir, "mute"))
	if _, err := i.Read(ctx); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}

func TestSocket(t *testing.T) {
	for _, c := range []struct{ display, dir, want string }{
		{"", "/run/user/1", ""}, {"wayland-0", "/run/user/1", "/run/user/1/wayland-0"}, {"wayland-0", "", ""}, {"/tmp/w", "", "/tmp/w"},
	} {
		t.Setenv("WAYLAND_DISPLAY", c.display)
		t.Setenv("XDG_RUNTIME_DIR", c.dir)
		if got := Socket(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
