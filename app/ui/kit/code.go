package kit

import (
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// CopyButton puts a text on the clipboard and says so for a moment.
func CopyButton(label, copied string, text func() string) *Button {
	b := Quiet(label, nil).WithIcon(theme.IconCopy).Compact()
	b.OnTapped = func() {
		fyne.CurrentApp().Clipboard().SetContent(text())
		b.Set(copied, theme.IconCheck)
		// Fyne's animations are timers on the UI goroutine.
		fyne.NewAnimation(2*time.Second, func(done float32) {
			if done == 1 {
				b.Set(label, theme.IconCopy)
			}
		}).Start()
	}
	return b
}

// Code is text with letters of one width on a field of its own, with what it is
// ("" for none) and a button that copies it.
type Code struct {
	widget.BaseWidget

	panel *Panel
	text  *Text
}

// NewCode makes one; copyLabel "" leaves the button out.
func NewCode(kind, text, copyLabel, copied string) *Code {
	c := &Code{text: newText(styleMono, text, true)}
	parts := []fyne.CanvasObject{}
	switch {
	case copyLabel != "" && kind == "":
		parts = append(parts, Beside(theme.GapM, c.text, CopyButton(copyLabel, copied, c.text.Text)))
	case copyLabel != "":
		parts = append(parts, Beside(theme.GapM, Caption(kind), Spacer(), CopyButton(copyLabel, copied, c.text.Text)), c.text)
	default:
		parts = append(parts, c.text)
	}
	c.panel = NewPanel(theme.Raised, theme.Border, theme.RadiusSmall, Inset(theme.GapM, theme.GapS, Column(theme.GapXS, parts...)))
	c.ExtendBaseWidget(c)
	return c
}

// Set changes the text.
func (c *Code) Set(text string) { c.text.Set(text) }

// Text is what it shows.
func (c *Code) Text() string { return c.text.Text() }

// CreateRenderer implements fyne.Widget.
func (c *Code) CreateRenderer() fyne.WidgetRenderer {
	return draw(c.panel.MinSize, c.panel.Resize, func() {}, c.panel)
}
