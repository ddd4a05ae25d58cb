package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// Empty says that there is nothing yet, and what to do about it. Actions are
// buttons.
func Empty(icon theme.Icon, title, text string, actions ...fyne.CanvasObject) fyne.CanvasObject {
	return message(icon, Accent, title, text, actions)
}

// Failed says what went wrong and the way out.
func Failed(title, text string, actions ...fyne.CanvasObject) fyne.CanvasObject {
	return message(theme.IconWarn, Warn, title, text, actions)
}

func message(icon theme.Icon, tone Tone, title, text string, actions []fyne.CanvasObject) fyne.CanvasObject {
	disc := NewPanel(tone.tint(), "", 28, Inset(16, 16, NewImage(icon, tone, 24)))
	parts := []fyne.CanvasObject{
		container.NewCenter(disc),
		Heading(title).Centered(),
		Narrow(440, newText(style{theme.TextBody, fyne.TextStyle{}, theme.Muted}, text, true).Centered()),
	}
	if len(actions) > 0 {
		parts = append(parts, Inset(0, theme.GapXS, container.NewCenter(Beside(theme.GapS, actions...))))
	}
	return Inset(theme.GapXL, theme.GapXL, Column(theme.GapM, parts...))
}

// Loading is a wait with words. Its animation runs only while it is visible, so
// that it has to be hidden when the wait is over.
type Loading struct {
	widget.BaseWidget

	text     *Text
	activity *widget.Activity
	box      *fyne.Container
}

// NewLoading makes one and starts it.
func NewLoading(text string) *Loading {
	l := &Loading{text: Muted(text).Centered(), activity: widget.NewActivity()}
	l.box = Inset(theme.GapXL, theme.GapXXL, Column(theme.GapM, container.NewCenter(Fixed(36, l.activity)), l.text))
	l.ExtendBaseWidget(l)
	l.activity.Start()
	return l
}

// Set changes the words.
func (l *Loading) Set(text string) { l.text.Set(text) }

// Show implements fyne.CanvasObject.
func (l *Loading) Show() { l.activity.Start(); l.BaseWidget.Show() }

// Hide implements fyne.CanvasObject.
func (l *Loading) Hide() { l.activity.Stop(); l.BaseWidget.Hide() }

// CreateRenderer implements fyne.Widget.
func (l *Loading) CreateRenderer() fyne.WidgetRenderer {
	return draw(l.box.MinSize, l.box.Resize, func() {}, l.box)
}

// One shows exactly one of several objects, as large as itself: the states of a
// page.
type One struct {
	widget.BaseWidget

	objects []fyne.CanvasObject
	shown   int
}

// NewOne shows the first.
func NewOne(objects ...fyne.CanvasObject) *One {
	o := &One{objects: objects}
	o.ExtendBaseWidget(o)
	for _, x := range objects[1:] {
		x.Hide()
	}
	return o
}

// Shown is the index of what is visible.
func (o *One) Shown() int { return o.shown }

// Select changes what is visible.
func (o *One) Select(index int) {
	if index == o.shown {
		return
	}
	o.objects[o.shown].Hide()
	o.shown = index
	o.objects[index].Show()
	o.objects[index].Resize(o.Size())
	o.Refresh()
}

// CreateRenderer implements fyne.Widget.
func (o *One) CreateRenderer() fyne.WidgetRenderer {
	return draw(
		func() fyne.Size { return o.objects[o.shown].MinSize() },
		func(s fyne.Size) { o.objects[o.shown].Resize(s) },
		func() {},
		o.objects...)
}
