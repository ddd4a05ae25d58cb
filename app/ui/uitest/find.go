package uitest

import (
	"strings"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/test"

	"neuron/app/ui/kit"
)

// Button is the first button with a label among what can be seen, nil for none.
func Button(w fyne.Window, label string) *kit.Button {
	b, _ := seen(w.Content(), func(o fyne.CanvasObject) bool {
		b, ok := o.(*kit.Button)
		return ok && b.Label() == label
	}).(*kit.Button)
	return b
}

// Says reports whether words can be read somewhere in the window.
func Says(w fyne.Window, part string) bool {
	return seen(w.Content(), func(o fyne.CanvasObject) bool {
		t, ok := o.(*canvas.Text)
		return ok && strings.Contains(t.Text, part)
	}) != nil
}

// Tap waits for a button that can be pressed and presses it.
func (d *Desk) Tap(label string) {
	d.t.Helper()
	var b *kit.Button
	d.Until("a button "+label, func() bool {
		b = Button(d.Window, label)
		return b != nil && !b.Disabled()
	})
	test.Tap(b)
}

// seen is the first object for which is says true, among those that can be seen.
func seen(o fyne.CanvasObject, is func(fyne.CanvasObject) bool) fyne.CanvasObject {
	if !o.Visible() {
		return nil
	}
	if is(o) {
		return o
	}
	var parts []fyne.CanvasObject
	switch o := o.(type) {
	case *fyne.Container:
		parts = o.Objects
	case fyne.Widget:
		parts = test.WidgetRenderer(o).Objects()
	}
	for _, x := range parts {
		if found := seen(x, is); found != nil {
			return found
		}
	}
	return nil
}
