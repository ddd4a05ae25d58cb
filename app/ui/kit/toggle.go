package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// Toggle is a switch that is on or off. The knob's place says it, not the colour
// alone. Tab reaches it, Space and Return turn it.
type Toggle struct {
	widget.DisableableWidget

	// OnChanged is called when the user turns it, not by Set.
	OnChanged func(on bool)

	on      bool
	hovered bool
	focused bool
}

var (
	_ fyne.Tappable      = (*Toggle)(nil)
	_ fyne.Focusable     = (*Toggle)(nil)
	_ desktop.Hoverable  = (*Toggle)(nil)
	_ desktop.Cursorable = (*Toggle)(nil)
)

// NewToggle makes a switch.
func NewToggle(on bool, changed func(on bool)) *Toggle {
	t := &Toggle{on: on, OnChanged: changed}
	t.ExtendBaseWidget(t)
	return t
}

// On says how it stands.
func (t *Toggle) On() bool { return t.on }

// Set turns it without telling.
func (t *Toggle) Set(on bool) {
	if on != t.on {
		t.on = on
		t.Refresh()
	}
}

// SetEnabled is Enable or Disable.
func (t *Toggle) SetEnabled(on bool) {
	if on == t.Disabled() {
		if on {
			t.Enable()
		} else {
			t.Disable()
		}
	}
}

// Tapped implements fyne.Tappable.
func (t *Toggle) Tapped(*fyne.PointEvent) {
	if t.Disabled() {
		return
	}
	t.Set(!t.on)
	if t.OnChanged != nil {
		t.OnChanged(t.on)
	}
}

// FocusGained and the next three implement fyne.Focusable.
func (t *Toggle) FocusGained()   { t.focused = true; t.Refresh() }
func (t *Toggle) FocusLost()     { t.focused = false; t.Refresh() }
func (t *Toggle) TypedRune(rune) {}

// TypedKey turns it.
func (t *Toggle) TypedKey(e *fyne.KeyEvent) {
	switch e.Name {
	case fyne.KeySpace, fyne.KeyReturn, fyne.KeyEnter:
		t.Tapped(nil)
	}
}

// MouseIn implements desktop.Hoverable, as the next two do.
func (t *Toggle) MouseIn(*desktop.MouseEvent)    { t.hovered = true; t.Refresh() }
func (t *Toggle) MouseMoved(*desktop.MouseEvent) {}
func (t *Toggle) MouseOut()                      { t.hovered = false; t.Refresh() }

// Cursor implements desktop.Cursorable.
func (t *Toggle) Cursor() desktop.Cursor {
	if t.Disabled() {
		return desktop.DefaultCursor
	}
	return desktop.PointerCursor
}

// CreateRenderer implements fyne.Widget.
func (t *Toggle) CreateRenderer() fyne.WidgetRenderer {
	const width, height, knob, gap = 40, 22, 16, 3
	ring := focusRing(height / 2)
	track := &canvas.Rectangle{CornerRadius: height / 2}
	dot := &canvas.Circle{}
	layout := func(s fyne.Size) {
		y := (s.Height - height) / 2
		place(ring, -ringGap, y-ringGap, width+2*ringGap, height+2*ringGap)
		place(track, 0, y, width, height)
		x := float32(gap)
		if t.on {
			x = width - gap - knob
		}
		place(dot, x, y+gap, knob, knob)
	}
	return draw(
		func() fyne.Size { return fyne.NewSize(width, height) },
		layout,
		func() {
			track.StrokeWidth = 0
			dot.FillColor = theme.Color(theme.Knob)
			switch {
			case t.Disabled():
				track.FillColor = theme.Color(theme.Border)
				dot.FillColor = theme.Color(theme.Faint)
			case t.on && t.hovered:
				track.FillColor = theme.Color(theme.AccentHover)
			case t.on:
				track.FillColor = theme.Color(theme.Accent)
			case t.hovered:
				track.FillColor = theme.Color(theme.Muted)
			default:
				track.FillColor = theme.Color(theme.Faint)
			}
			paintRing(ring, t.focused && !t.Disabled())
			layout(t.Size())
		},
		ring, track, dot)
}
