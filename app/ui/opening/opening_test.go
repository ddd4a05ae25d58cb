package opening_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/test"

	"neuron/app/enginetest"
	"neuron/app/ui/kit"
	"neuron/app/ui/opening"
	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// desk is a window with an Opener.
type desk struct {
	*uitest.Desk
	t *testing.T
	o *opening.Opener
}

func newDesk(t *testing.T, e *enginetest.Engine) *desk {
	t.Helper()
	uitest.App(t, theme.Dark)
	d := &desk{Desk: uitest.New(t, e, "en"), t: t}
	d.Set(container.NewStack(), 800, 600)
	d.o = opening.New(d.Env)
	t.Cleanup(d.o.Close)
	return d
}

// parts calls f for everything of the dialog on top, if there is one.
func (d *desk) parts(f func(fyne.CanvasObject)) {
	var walk func(fyne.CanvasObject)
	walk = func(o fyne.CanvasObject) {
		f(o)
		switch o := o.(type) {
		case *fyne.Container:
			for _, x := range o.Objects {
				walk(x)
			}
		case fyne.Widget:
			for _, x := range test.WidgetRenderer(o).Objects() {
				walk(x)
			}
		}
	}
	if top := d.Window.Canvas().Overlays().Top(); top != nil {
		walk(top)
	}
}

// says is what can be read in the dialog.
func (d *desk) says() string {
	var words []string
	d.parts(func(o fyne.CanvasObject) {
		if x, ok := o.(*canvas.Text); ok {
			words = append(words, x.Text)
		}
	})
	return strings.Join(words, " ")
}

func (d *desk) press(label string) {
	d.t.Helper()
	var button *kit.Button
	d.parts(func(o fyne.CanvasObject) {
		if b, ok := o.(*kit.Button); ok && b.Label() == label {
			button = b
		}
	})
	if button == nil {
		d.t.Fatalf("no button %q; the dialog says %q", label, d.says())
	}
	test.Tap(button)
}

func (d *desk) until(part string) {
	d.t.Helper()
	d.Until("a dialog with "+part, func() bool { return strings.Contains(d.says(), part) })
}

func TestModelIsHeldWhenTheUserAgrees(t *testing.T) {
	e := enginetest.Catalog(t)
	d := newDesk(t, e)
	path := filepath.Join(t.TempDir(), "mine.gguf")
	if err := os.WriteFile(path, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	held := func() []localapi.Hold {
		return enginetest.Look(e, func(s *enginetest.State) []localapi.Hold { return s.Holds })
	}
	d.o.Open(path)
	if len(d.Opened) != 1 || d.Opened[0] != "models" || !strings.Contains(d.says(), "mine.gguf") {
		t.Errorf("opened %v, says %q", d.Opened, d.says())
	}
	d.press("No")
	if len(held()) != 0 || d.says() != "" {
		t.Errorf("held %v without consent", held())
	}
	d.o.Open(path)
	d.press("Hold it")
	d.until("being prepared")
	if h := held(); len(h) != 1 || h[0].Model != path || h[0].Layers != "" {
		t.Errorf("%+v", h)
	}
	d.press("Close")
	// What cannot be held is told.
	e.With(func(s *enginetest.State) { s.Err = protocol.Errorf(protocol.CodeDiskFull, "no room") })
	d.o.Open(path)
	d.press("Hold it")
	d.Until("the error", func() bool { return d.says() != "" && !strings.Contains(d.says(), "being prepared") })
}

func TestInvitationIsAskedAbout(t *testing.T) {
	e := enginetest.Catalog(t)
	settings := func() policy.Settings {
		return enginetest.Look(e, func(s *enginetest.State) policy.Settings { return s.Settings })
	}
	e.With(func(s *enginetest.State) { s.Settings.SetUp = true })
	before := settings()
	d := newDesk(t, e)
	const invitation = "neuron://join?tracker=https%3A%2F%2Ftracker.example"
	d.o.Open(invitation)
	if !strings.Contains(d.says(), "https://tracker.example") {
		t.Errorf("it does not say where to: %q", d.says())
	}
	d.press("No")
	if settings().Tracker != before.Tracker {
		t.Error("joined without consent")
	}
	d.o.Open(invitation)
	d.press("Join")
	d.until("now belongs to")
	after := settings()
	if after.Tracker != "https://tracker.example" || after.Share != before.Share || len(d.Opened) != 0 {
		t.Errorf("%+v, opened %v", after, d.Opened)
	}
	d.press("Close")
	// At the first start the questions begin anew, with the new address.
	e.With(func(s *enginetest.State) { s.Settings.SetUp = false })
	d.o.Open(invitation)
	d.press("Join")
	d.Until("the window opens anew", func() bool { return len(d.Opened) == 1 && d.Opened[0] == "window" })
}

func TestWhatIsNoTarget(t *testing.T) {
	d := newDesk(t, nil)
	d.o.Open("neuron://join?tracker=http://elsewhere.example")
	if d.says() == "" {
		t.Error("a bad invitation is passed over in silence")
	}
	d.press("Close")
	// Without an engine nothing is lost in silence either.
	d.o.Open("neuron://join?tracker=https://tracker.example")
	d.press("Join")
	d.Until("the error", func() bool { return d.says() != "" && !strings.Contains(d.says(), "Join") })
}
