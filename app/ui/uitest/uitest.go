// Package uitest is what tests of the window's pages share: a test app with the
// window's theme, windows whose layout has settled, and pictures for those who
// look. Tests alone import it.
package uitest

import (
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"neuron/app/ui/theme"
)

// Themes are the modes in which pages are looked at.
var Themes = []theme.Mode{theme.Dark, theme.Light}

// App starts Fyne's test app with the window's theme. There is one app in a
// process, so that tests that use it do not run in parallel.
func App(t testing.TB, mode theme.Mode) fyne.App {
	t.Helper()
	for _, name := range []string{"LANG", "LC_ALL", "LC_MESSAGES", "LANGUAGE"} {
		t.Setenv(name, "en_US.UTF-8") // Fyne reports one that it cannot read
	}
	a := test.NewTempApp(t)
	a.Settings().SetTheme(theme.New(mode))
	return a
}

// Window shows content in a window without a border.
func Window(t testing.TB, content fyne.CanvasObject, width, height float32) fyne.Window {
	t.Helper()
	w := test.NewTempWindow(t, content)
	w.SetPadded(false)
	w.Resize(fyne.NewSize(width, height))
	Settle(w)
	return w
}

// Settle does what the real driver does before it draws: it lays out anew what
// has grown.
func Settle(w fyne.Window) {
	for range 3 {
		if c, ok := w.Content().(*fyne.Container); ok {
			c.Refresh()
		}
		settle(w.Content())
		w.Content().Refresh()
	}
}

func settle(o fyne.CanvasObject) {
	switch o := o.(type) {
	case *fyne.Container:
		for _, x := range o.Objects {
			settle(x)
		}
		if o.Layout != nil {
			o.Layout.Layout(o.Objects, o.Size())
		}
	case fyne.Widget:
		r := test.WidgetRenderer(o)
		for _, x := range r.Objects() {
			settle(x)
		}
		r.Layout(o.Size())
	}
}

// Picture writes what a window shows to NAME.png in the folder that
// NEURON_SCREENSHOTS names, and nothing without one.
func Picture(t testing.TB, w fyne.Window, name string) {
	t.Helper()
	dir := os.Getenv("NEURON_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, name+".png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, w.Canvas().Capture()); err != nil {
		t.Fatal(err)
	}
}
