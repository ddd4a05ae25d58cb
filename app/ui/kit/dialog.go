package kit

import (
	"image/color"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// Dialog is a question or a form before the rest of the window. Escape closes
// it.
type Dialog struct {
	Title string
	Text  string            // "" for none
	Body  fyne.CanvasObject // nil for none
	// Buttons stand at the right, the main one last. They do not close the
	// dialog by themselves.
	Buttons []fyne.CanvasObject
	Width   float32 // 0: 440
	// First has the keyboard at the beginning; nil: the first control.
	First fyne.Focusable
	// Closed is called once when it has been closed, however that came.
	Closed func()

	canvas fyne.Canvas
	shade  *shade
}

// Open shows the dialog over a window and gives it the keyboard.
func (d *Dialog) Open(w fyne.Window) {
	parts := []fyne.CanvasObject{newText(styleHeading, d.Title, true)}
	if d.Text != "" {
		parts = append(parts, newText(style{theme.TextBody, fyne.TextStyle{}, theme.Muted}, d.Text, true))
	}
	if d.Body != nil {
		parts = append(parts, d.Body)
	}
	if len(d.Buttons) > 0 {
		parts = append(parts, Inset(0, theme.GapXS, Beside(theme.GapS, append([]fyne.CanvasObject{Spacer()}, d.Buttons...)...)))
	}
	width := d.Width
	if width == 0 {
		width = 440
	}
	d.canvas = w.Canvas()
	d.shade = &shade{
		dialog: d, width: width,
		panel: NewPanel(theme.Surface, theme.Border, theme.Radius, Inset(theme.GapXL, 20, Column(theme.GapL, parts...))),
	}
	d.shade.ExtendBaseWidget(d.shade)
	d.canvas.Overlays().Add(d.shade)
	d.shade.Resize(d.canvas.Size())
	if d.First != nil {
		d.canvas.Focus(d.First)
	} else {
		d.canvas.FocusNext()
	}
}

// Close takes the dialog away. A second call does nothing.
func (d *Dialog) Close() {
	if d.shade == nil {
		return
	}
	d.canvas.Overlays().Remove(d.shade)
	d.shade = nil
	if d.Closed != nil {
		d.Closed()
	}
}

// Escape closes the topmost dialog of a canvas and says whether there was one.
func Escape(c fyne.Canvas) bool {
	if c == nil {
		return false
	}
	s, ok := c.Overlays().Top().(*shade)
	if ok {
		s.dialog.Close()
	}
	return ok
}

// shade covers the window with the dialog in its middle. What is under it gets
// no clicks, since Fyne looks into the topmost overlay alone.
type shade struct {
	widget.BaseWidget

	dialog *Dialog
	panel  *Panel
	width  float32
}

func (s *shade) CreateRenderer() fyne.WidgetRenderer {
	dim := &canvas.Rectangle{FillColor: color.NRGBA{A: 0x80}}
	return draw(
		func() fyne.Size { return fyne.NewSize(200, s.panel.MinSize().Height) },
		func(size fyne.Size) {
			place(dim, 0, 0, size.Width, size.Height)
			w := min(s.width, size.Width-2*theme.GapL)
			h := settle(s.panel, 0, 0, w)
			s.panel.Move(fyne.NewPos((size.Width-w)/2, max(0, (size.Height-h)/2)))
		},
		func() {},
		dim, s.panel)
}

// Confirm asks a question with two answers. The safe one has the keyboard.
func Confirm(w fyne.Window, title, text, yes, no string, danger bool, then func()) {
	d := &Dialog{Title: title, Text: text}
	act := Primary
	if danger {
		act = Danger
	}
	d.Buttons = []fyne.CanvasObject{
		Secondary(no, d.Close),
		act(yes, func() { d.Close(); then() }),
	}
	d.Open(w)
}
