package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// Badge says a state with an icon and a word.
type Badge struct {
	widget.BaseWidget

	tone Tone
	icon theme.Icon
	word string
}

// NewBadge makes one; icon "" takes the tone's own.
func NewBadge(tone Tone, icon theme.Icon, word string) *Badge {
	b := &Badge{tone: tone, icon: icon, word: word}
	b.ExtendBaseWidget(b)
	return b
}

// Set changes all of it.
func (b *Badge) Set(tone Tone, icon theme.Icon, word string) {
	if tone != b.tone || icon != b.icon || word != b.word {
		b.tone, b.icon, b.word = tone, icon, word
		b.Refresh()
	}
}

// Word is what it says.
func (b *Badge) Word() string { return b.word }

// CreateRenderer implements fyne.Widget.
func (b *Badge) CreateRenderer() fyne.WidgetRenderer {
	const height, size, pad, gap = 24, 14, 9, 5
	back := &canvas.Rectangle{CornerRadius: height / 2}
	img := &canvas.Image{FillMode: canvas.ImageFillContain}
	word := &canvas.Text{TextSize: theme.TextCaption, TextStyle: fyne.TextStyle{Bold: true}}
	layout := func(s fyne.Size) {
		m := word.MinSize()
		w := m.Width + size + gap + 2*pad
		y := (s.Height - height) / 2
		place(back, 0, y, w, height)
		place(img, pad, y+(height-size)/2, size, size)
		place(word, pad+size+gap, y+(height-m.Height)/2, m.Width, m.Height)
	}
	return draw(
		func() fyne.Size { return fyne.NewSize(word.MinSize().Width+size+gap+2*pad, height) },
		layout,
		func() {
			icon := b.icon
			if icon == "" {
				icon = b.tone.Icon()
			}
			back.FillColor = theme.Color(b.tone.tint())
			img.Resource = icon.Resource(b.tone.text())
			word.Text, word.Color = b.word, theme.Color(b.tone.text())
			layout(b.Size())
		},
		back, img, word)
}

// Notice is a line across a page that says what happened and what to do.
type Notice struct {
	widget.BaseWidget

	image  *Image
	text   *Text
	remedy *Text
	tone   Tone
	panel  *Panel
}

// NewNotice makes one; remedy "" and no actions leave them out. Actions are
// buttons.
func NewNotice(tone Tone, text, remedy string, actions ...fyne.CanvasObject) *Notice {
	n := &Notice{
		image: NewImage(tone.Icon(), tone, 20), tone: tone,
		text: Sentence(text), remedy: Muted(remedy),
	}
	words := Column(2, n.text, n.remedy)
	line := append([]fyne.CanvasObject{n.image, Grow(words)}, actions...)
	n.panel = NewPanel(tone.tint(), "", 10, Inset(theme.GapL, theme.GapM, Beside(theme.GapM, line...)))
	n.ExtendBaseWidget(n)
	n.Set(tone, text, remedy)
	return n
}

// Set changes tone and words.
func (n *Notice) Set(tone Tone, text, remedy string) {
	n.tone = tone
	n.image.Set(tone.Icon(), tone)
	n.text.Set(text)
	n.remedy.Set(remedy)
	if n.remedy.Hidden != (remedy == "") {
		n.remedy.Hidden = remedy == ""
		n.panel.Refresh()
	}
	n.panel.SetColors(tone.tint(), "")
}

// Text is what it says.
func (n *Notice) Text() string { return n.text.Text() }

// CreateRenderer implements fyne.Widget.
func (n *Notice) CreateRenderer() fyne.WidgetRenderer {
	return draw(n.panel.MinSize, n.panel.Resize, func() {}, n.panel)
}
