package e2e

import (
	"bufio"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"
)

// screen is an X server without a monitor, with a connection that presses keys.
type screen struct {
	t       *testing.T
	display string
	conn    *xgb.Conn
	root    xproto.Window
	keys    map[rune]stroke
	codes   map[xproto.Keysym]xproto.Keycode
}

// stroke is how a character is typed.
type stroke struct {
	code  xproto.Keycode
	shift bool
}

// The keys that have no character.
const (
	keyTab    xproto.Keysym = 0xff09
	keyReturn xproto.Keysym = 0xff0d
	keyEscape xproto.Keysym = 0xff1b
	keyShift  xproto.Keysym = 0xffe1
	keyCtrl   xproto.Keysym = 0xffe3
	keyF1     xproto.Keysym = 0xffbe
)

const (
	screenWidth  = 1280
	screenHeight = 860
)

// need skips where a program is missing; CI installs all of them.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("SKIPPED: %s is not installed (scripts/setup.sh installs it)", p)
		}
	}
}

// service starts a program that ends with the test, and gives the first line
// that it writes to the pipe numbered 3.
func service(t *testing.T, name string, args ...string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		r.Close()
	})
	r.SetReadDeadline(time.Now().Add(30 * time.Second))
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("%s says nothing: %v", name, err)
	}
	return strings.TrimSpace(line)
}

// newScreen starts an X server and a session bus, and points this process and
// its children to them.
func newScreen(t *testing.T) *screen {
	t.Helper()
	need(t, "Xvfb", "dbus-daemon")
	number := service(t, "Xvfb", "-displayfd", "3", "-screen", "0", fmt.Sprintf("%dx%dx24", screenWidth, screenHeight), "-nolisten", "tcp", "-noreset")
	t.Setenv("DISPLAY", ":"+number)
	t.Setenv("WAYLAND_DISPLAY", "")
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", service(t, "dbus-daemon", "--session", "--nofork", "--print-address=3"))
	s := &screen{t: t, display: ":" + number}
	xgb.Logger.SetOutput(io.Discard)
	conn, err := xgb.NewConnDisplay(s.display)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := xtest.Init(conn); err != nil {
		t.Fatal(err)
	}
	s.conn, s.root = conn, xproto.Setup(conn).DefaultScreen(conn).Root
	s.learnKeys()
	return s
}

func (s *screen) learnKeys() {
	setup := xproto.Setup(s.conn)
	first, last := setup.MinKeycode, setup.MaxKeycode
	m, err := xproto.GetKeyboardMapping(s.conn, first, byte(last-first+1)).Reply()
	if err != nil {
		s.t.Fatal(err)
	}
	s.keys, s.codes = make(map[rune]stroke), make(map[xproto.Keysym]xproto.Keycode)
	n := int(m.KeysymsPerKeycode)
	for i := 0; i+n <= len(m.Keysyms); i += n {
		code := first + xproto.Keycode(i/n)
		for j, sym := range m.Keysyms[i:min(i+2, i+n)] {
			if _, ok := s.codes[sym]; !ok && sym != 0 {
				s.codes[sym] = code
			}
			if sym >= 0x20 && sym < 0x7f { // Latin-1 keysyms are their characters
				if _, ok := s.keys[rune(sym)]; !ok {
					s.keys[rune(sym)] = stroke{code, j == 1}
				}
			}
		}
	}
}

func (s *screen) fake(kind byte, code xproto.Keycode) {
	if err := xtest.FakeInputChecked(s.conn, kind, byte(code), 0, s.root, 0, 0, 0).Check(); err != nil {
		s.t.Fatal(err)
	}
}

// press presses a key with those that are held.
func (s *screen) press(code xproto.Keycode, held ...xproto.Keysym) {
	s.t.Helper()
	if code == 0 {
		s.t.Fatal("this keyboard has no such key")
	}
	for _, h := range held {
		s.fake(xproto.KeyPress, s.codes[h])
	}
	s.fake(xproto.KeyPress, code)
	s.fake(xproto.KeyRelease, code)
	for _, h := range held {
		s.fake(xproto.KeyRelease, s.codes[h])
	}
}

// key presses a key that has no character, with those that are held.
func (s *screen) key(k xproto.Keysym, held ...xproto.Keysym) {
	s.t.Helper()
	s.press(s.codes[k], held...)
}

// control presses Control with a character.
func (s *screen) control(c rune) {
	s.t.Helper()
	s.press(s.keys[c].code, keyCtrl)
}

// text types.
func (s *screen) text(text string) {
	s.t.Helper()
	for _, c := range text {
		k := s.keys[c]
		if k.shift {
			s.press(k.code, keyShift)
		} else {
			s.press(k.code)
		}
	}
}

// window waits for a window with a title, and gives it the keyboard, which a
// window manager would do.
func (s *screen) window(ctx context.Context, title string) xproto.Window {
	s.t.Helper()
	var found xproto.Window
	until(ctx, s.t, "the window is there", func() bool {
		tree, err := xproto.QueryTree(s.conn, s.root).Reply()
		if err != nil {
			return false
		}
		for _, w := range tree.Children {
			name, err := xproto.GetProperty(s.conn, false, w, xproto.AtomWmName, xproto.GetPropertyTypeAny, 0, 64).Reply()
			attributes, aerr := xproto.GetWindowAttributes(s.conn, w).Reply()
			if err == nil && aerr == nil && string(name.Value) == title && attributes.MapState == xproto.MapStateViewable {
				found = w
				return true
			}
		}
		return false
	})
	s.focus(found)
	return found
}

func (s *screen) focus(w xproto.Window) {
	s.t.Helper()
	if err := xproto.SetInputFocusChecked(s.conn, xproto.InputFocusParent, w, xproto.TimeCurrentTime).Check(); err != nil {
		s.t.Fatal(err)
	}
}

// look is what the screen shows.
func (s *screen) look() *image.NRGBA {
	s.t.Helper()
	r, err := xproto.GetImage(s.conn, xproto.ImageFormatZPixmap, xproto.Drawable(s.root), 0, 0, screenWidth, screenHeight, 0xffffffff).Reply()
	if err != nil {
		s.t.Fatal(err)
	}
	img := image.NewNRGBA(image.Rect(0, 0, screenWidth, screenHeight))
	for i := 0; i+4 <= len(r.Data); i += 4 {
		img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = r.Data[i+2], r.Data[i+1], r.Data[i], 0xff
	}
	return img
}

// picture keeps what the screen shows as NAME.png in the folder that
// NEURON_SCREENSHOTS names.
func (s *screen) picture(name string) {
	s.t.Helper()
	dir := os.Getenv("NEURON_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, name+".png"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, s.look()); err != nil {
		s.t.Fatal(err)
	}
}

// differs counts the points in which two pictures differ clearly.
func differs(a, b *image.NRGBA) int {
	n := 0
	for i := 0; i+4 <= len(a.Pix); i += 4 {
		if far(a.Pix[i], b.Pix[i]) || far(a.Pix[i+1], b.Pix[i+1]) || far(a.Pix[i+2], b.Pix[i+2]) {
			n++
		}
	}
	return n
}

// crop is a part of a picture, as one of its own.
func crop(img *image.NRGBA, r image.Rectangle) *image.NRGBA {
	out := image.NewNRGBA(r)
	draw.Draw(out, r, img, r.Min, draw.Src)
	return out
}

func far(a, b uint8) bool { return max(a, b)-min(a, b) > 12 }

// colors counts the different colours, up to a hundred: a window that has drawn
// something has many.
func colors(img *image.NRGBA) int {
	seen := make(map[color.NRGBA]bool)
	for y := 0; y < screenHeight && len(seen) < 100; y += 2 {
		for x := 0; x < screenWidth && len(seen) < 100; x += 2 {
			seen[img.NRGBAAt(x, y)] = true
		}
	}
	return len(seen)
}

// until waits for what has to come.
func until(ctx context.Context, t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("never so: %s (%v)", what, ctx.Err())
		case <-tick.C:
		}
	}
}
