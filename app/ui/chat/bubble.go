package chat

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/widget"

	"neuron/app/chat/markdown"
	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
)

// bubble is a question, at the right and no wider than it has to be.
type bubble struct {
	widget.BaseWidget
	body  *flow
	panel *kit.Panel
}

func newBubble(text string) *bubble {
	b := &bubble{body: newFlow(theme.TextBody, theme.Text)}
	b.body.set([]markdown.Span{{Text: text}})
	b.panel = kit.NewPanel(theme.AccentTint, "", theme.Radius, kit.Spacer())
	b.ExtendBaseWidget(b)
	return b
}

// CreateRenderer implements fyne.Widget.
func (b *bubble) CreateRenderer() fyne.WidgetRenderer { return &bubbleDrawing{b} }

type bubbleDrawing struct{ b *bubble }

const bubblePart = 0.85 // of the width, at most

func (d *bubbleDrawing) Destroy() {}
func (d *bubbleDrawing) Objects() []fyne.CanvasObject {
	return []fyne.CanvasObject{d.b.panel, d.b.body}
}

func (d *bubbleDrawing) MinSize() fyne.Size {
	return fyne.NewSize(60, d.b.body.MinSize().Height+2*theme.GapS)
}

func (d *bubbleDrawing) Layout(s fyne.Size) {
	body := d.b.body
	body.Resize(fyne.NewSize(s.Width*bubblePart-2*theme.GapM, body.MinSize().Height))
	w := body.used() + 2*theme.GapM
	d.b.panel.Move(fyne.NewPos(s.Width-w, 0))
	d.b.panel.Resize(fyne.NewSize(w, body.MinSize().Height+2*theme.GapS))
	body.Move(fyne.NewPos(s.Width-w+theme.GapM, theme.GapS))
}

func (d *bubbleDrawing) Refresh() {
	d.b.panel.Refresh()
	d.b.body.Refresh()
}
