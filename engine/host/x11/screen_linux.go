package x11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xinerama"
	"github.com/jezek/xgb/xproto"
)

// FullScreen reports whether the window that the user works with fills a screen:
// one that says so itself (_NET_WM_STATE_FULLSCREEN, as games, players and
// browsers do), or one without a window manager's frame that covers a screen
// exactly, as old games have. Windows of screen savers and lockers do not count.
func (d *Display) FullScreen(ctx context.Context) (bool, error) {
	var full bool
	err := d.ask(ctx, func() error {
		var err error
		full, err = d.fullScreen()
		// A window may close between two questions about it.
		var x xgb.Error
		if errors.As(err, &x) {
			full, err = false, nil
		}
		if err != nil {
			return fmt.Errorf("full screen: %w", err)
		}
		return nil
	})
	return full, err
}

func (d *Display) fullScreen() (bool, error) {
	w, err := d.active()
	if err != nil {
		return false, err
	}
	if w != 0 {
		if says, err := d.says(w); err != nil || says {
			return says, err
		}
	}
	focus, err := xproto.GetInputFocus(d.conn).Reply()
	if err != nil {
		return false, err
	}
	if focus.Focus <= 1 || focus.Focus == d.root() { // none, the pointer's root, the desktop
		return false, nil
	}
	top, err := d.top(focus.Focus)
	if err != nil {
		return false, err
	}
	if w != 0 {
		// Frames of window managers look like windows without one.
		if frame, err := d.top(w); err != nil || frame == top {
			return false, err
		}
	}
	a, err := xproto.GetWindowAttributes(d.conn, top).Reply()
	if err != nil || !a.OverrideRedirect || a.MapState != xproto.MapStateViewable {
		return false, err
	}
	if covers, err := d.covers(top); err != nil || !covers {
		return false, err
	}
	saver, err := d.saver(top)
	return !saver, err
}

// says reports whether a window is in full screen by its own word.
func (d *Display) says(w xproto.Window) (bool, error) {
	state, err := d.atoms32(w, "_NET_WM_STATE")
	if err != nil {
		return false, err
	}
	full, err := d.atom("_NET_WM_STATE_FULLSCREEN")
	if err != nil || full == xproto.AtomNone || !slices.Contains(state, uint32(full)) {
		return false, err
	}
	saver, err := d.saver(w)
	return !saver, err
}

// active is the window that the window manager calls active, 0 without one.
func (d *Display) active() (xproto.Window, error) {
	v, err := d.atoms32(d.root(), "_NET_ACTIVE_WINDOW")
	if err != nil || len(v) == 0 {
		return 0, err
	}
	return xproto.Window(v[0]), nil
}

// atoms32 are the values of a property, at most 64.
func (d *Display) atoms32(w xproto.Window, name string) ([]uint32, error) {
	raw, format, err := d.property(w, name)
	if err != nil || format != 32 {
		return nil, err
	}
	var out []uint32
	for ; len(raw) >= 4; raw = raw[4:] {
		out = append(out, xgb.Get32(raw))
	}
	return out, nil
}

func (d *Display) property(w xproto.Window, name string) (raw []byte, format byte, err error) {
	a, err := d.atom(name)
	if err != nil || a == xproto.AtomNone {
		return nil, 0, err
	}
	r, err := xproto.GetProperty(d.conn, false, w, a, xproto.GetPropertyTypeAny, 0, 64).Reply()
	if err != nil {
		return nil, 0, err
	}
	return r.Value, r.Format, nil
}

// savers are parts of class names of screen savers and lockers.
var savers = []string{"screensaver", "screen-saver", "lock", "greeter"}

func (d *Display) saver(w xproto.Window) (bool, error) {
	class, _, err := d.property(w, "WM_CLASS")
	if err != nil {
		return false, err
	}
	name := strings.ToLower(string(class))
	return slices.ContainsFunc(savers, func(s string) bool { return strings.Contains(name, s) }), nil
}

// top is the ancestor of a window that is a child of the root.
func (d *Display) top(w xproto.Window) (xproto.Window, error) {
	for range 64 {
		r, err := xproto.QueryTree(d.conn, w).Reply()
		if err != nil {
			return 0, err
		}
		if r.Parent == 0 || r.Parent == r.Root {
			return w, nil
		}
		w = r.Parent
	}
	return 0, errors.New("a tree of windows without a root")
}

// covers reports whether a child of the root fills a screen exactly.
func (d *Display) covers(w xproto.Window) (bool, error) {
	g, err := xproto.GetGeometry(d.conn, xproto.Drawable(w)).Reply()
	if err != nil {
		return false, err
	}
	screens, err := d.screens()
	if err != nil {
		return false, err
	}
	return slices.Contains(screens, xinerama.ScreenInfo{XOrg: g.X, YOrg: g.Y, Width: g.Width, Height: g.Height}), nil
}

// screens are the monitors, and all of them together.
func (d *Display) screens() ([]xinerama.ScreenInfo, error) {
	s := xproto.Setup(d.conn).DefaultScreen(d.conn)
	all := []xinerama.ScreenInfo{{Width: s.WidthInPixels, Height: s.HeightInPixels}}
	if there, err := d.extension("XINERAMA"); err != nil || !there {
		return all, err
	}
	r, err := xinerama.QueryScreens(d.conn).Reply()
	if err != nil {
		return nil, err
	}
	return append(all, r.ScreenInfo...), nil
}
