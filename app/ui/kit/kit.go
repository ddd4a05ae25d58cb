// Package kit is what pages are built of: text, cards, buttons, figures, states
// and dialogs in the window's look. Pages and the shell import it, and never
// name a colour or a distance of their own. It knows no page, no engine and no
// language: every text comes from the caller.
package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"

	"neuron/app/ui/theme"
)

// Tone is what a component means. Words and icons say the same as the colour.
type Tone int

// The tones.
const (
	Plain  Tone = iota
	Subtle      // beside the point
	Accent      // chosen, or running
	Good        // in order
	Warn        // needs a look some time
	Bad         // broken
)

// text, tint and fill are the colours of a tone: of words, behind words, and of
// bars.
func (t Tone) text() fyne.ThemeColorName {
	return [...]fyne.ThemeColorName{theme.Text, theme.Muted, theme.AccentText, theme.Good, theme.Warn, theme.Bad}[t]
}

func (t Tone) tint() fyne.ThemeColorName {
	return [...]fyne.ThemeColorName{theme.Raised, theme.Raised, theme.AccentTint, theme.GoodTint, theme.WarnTint, theme.BadTint}[t]
}

func (t Tone) fill() fyne.ThemeColorName {
	return [...]fyne.ThemeColorName{theme.Accent, theme.Faint, theme.Accent, theme.Good, theme.Warn, theme.Bad}[t]
}

// Icon is the tone's own icon.
func (t Tone) Icon() theme.Icon {
	return [...]theme.Icon{theme.IconInfo, theme.IconInfo, theme.IconInfo, theme.IconGood, theme.IconWarn, theme.IconBad}[t]
}

// drawing is a widget's renderer made of functions.
type drawing struct {
	objects []fyne.CanvasObject
	min     func() fyne.Size
	layout  func(fyne.Size)
	// paint copies state and colours to the objects.
	paint func()
}

func (d *drawing) Destroy()                     {}
func (d *drawing) Layout(s fyne.Size)           { d.layout(s) }
func (d *drawing) MinSize() fyne.Size           { return d.min() }
func (d *drawing) Objects() []fyne.CanvasObject { return d.objects }

func (d *drawing) Refresh() {
	d.paint()
	for _, o := range d.objects {
		o.Refresh()
	}
}

// draw makes a renderer and paints it for the first time.
func draw(min func() fyne.Size, layout func(fyne.Size), paint func(), objects ...fyne.CanvasObject) *drawing {
	paint()
	return &drawing{objects: objects, min: min, layout: layout, paint: paint}
}

// place moves and resizes an object.
func place(o fyne.CanvasObject, x, y, w, h float32) {
	o.Move(fyne.NewPos(x, y))
	o.Resize(fyne.NewSize(w, h))
}

// focusRing is drawn around what has the keyboard.
func focusRing(radius float32) *canvas.Rectangle {
	return &canvas.Rectangle{StrokeWidth: 2, CornerRadius: radius + 3}
}

const ringGap = 3

func paintRing(r *canvas.Rectangle, focused bool) {
	r.StrokeColor = theme.Color(theme.AccentText)
	r.Hidden = !focused
}

// lineHeight is the height of one line of text.
func lineHeight(size float32, style fyne.TextStyle) float32 {
	return fyne.MeasureText("M", size, style).Height
}
