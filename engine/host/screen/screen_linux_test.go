package screen

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"neuron/engine/host/source"
	"neuron/engine/host/x11"
	"neuron/engine/host/x11/xtest"
)

// TestWaylandSaysYesAndNeverNo: the X server of a Wayland desktop sees a game,
// and does not see what else fills the screen.
func TestWaylandSaysYesAndNeverNo(t *testing.T) {
	t.Parallel()
	display, _ := xtest.Start(t)
	x := x11.Open(display)
	defer x.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	onX, onWayland := New(x, false), New(x, true)
	if full, err := onX.Read(ctx); err != nil || full {
		t.Errorf("X11: %v, %v", full, err)
	}
	if full, err := onWayland.Read(ctx); !errors.Is(err, source.ErrNotTold) || full {
		t.Errorf("Wayland: %v, %v", full, err)
	}
	conn, err := xgb.NewConnDisplay(display)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w, err := xproto.NewWindowId(conn)
	if err != nil {
		t.Fatal(err)
	}
	root := xproto.Setup(conn).DefaultScreen(conn).Root
	if err := xproto.CreateWindowChecked(conn, 0, w, root, 0, 0, xtest.Width, xtest.Height, 0, xproto.WindowClassInputOutput, 0, xproto.CwOverrideRedirect, []uint32{1}).Check(); err != nil {
		t.Fatal(err)
	}
	if err := xproto.MapWindowChecked(conn, w).Check(); err != nil {
		t.Fatal(err)
	}
	if err := xproto.SetInputFocusChecked(conn, xproto.InputFocusParent, w, xproto.TimeCurrentTime).Check(); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]source.Source[bool]{"X11": onX, "Wayland": onWayland} {
		if full, err := s.Read(ctx); err != nil || !full {
			t.Errorf("%s with a game: %v, %v", name, full, err)
		}
	}
	if _, err := New(x11.Open(""), false).Read(ctx); !errors.Is(err, source.ErrNotTold) {
		t.Errorf("without a server: %v", err)
	}
}
