package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// Panel is a filled field with round corners behind an object.
type Panel struct {
	widget.BaseWidget

	content      fyne.CanvasObject
	fill, stroke fyne.ThemeColorName
	radius       float32
}

// NewPanel makes one of the theme's colours; stroke "" draws no border.
func NewPanel(fill, stroke fyne.ThemeColorName, radius float32, content fyne.CanvasObject) *Panel {
	p := &Panel{content: content, fill: fill, stroke: stroke, radius: radius}
	p.ExtendBaseWidget(p)
	return p
}

// SetColors changes the colours.
func (p *Panel) SetColors(fill, stroke fyne.ThemeColorName) {
	if fill != p.fill || stroke != p.stroke {
		p.fill, p.stroke = fill, stroke
		p.Refresh()
	}
}

// CreateRenderer implements fyne.Widget.
func (p *Panel) CreateRenderer() fyne.WidgetRenderer {
	back := &canvas.Rectangle{CornerRadius: p.radius}
	return draw(
		p.content.MinSize,
		func(s fyne.Size) { place(back, 0, 0, s.Width, s.Height); p.content.Resize(s) },
		func() {
			back.FillColor = theme.Color(p.fill)
			back.StrokeWidth = 0
			if p.stroke != "" {
				back.StrokeColor, back.StrokeWidth = theme.Color(p.stroke), 1
			}
		},
		back, p.content)
}

// Card is a surface with what belongs together, below each other.
func Card(objects ...fyne.CanvasObject) *Panel {
	return NewPanel(theme.Surface, theme.Border, theme.Radius, Inset(20, 18, Column(theme.GapM, objects...)))
}

// TitledCard is a card with a heading, and what stands to its right ("" and nil
// leave them out).
func TitledCard(title string, trailing fyne.CanvasObject, objects ...fyne.CanvasObject) *Panel {
	var head []fyne.CanvasObject
	switch {
	case trailing != nil:
		head = append(head, Beside(theme.GapM, Heading(title), Spacer(), trailing))
	case title != "":
		head = append(head, Heading(title))
	}
	return Card(append(head, objects...)...)
}

// Divider is a thin line between rows.
func Divider() fyne.CanvasObject {
	d := &divider{}
	d.ExtendBaseWidget(d)
	return d
}

type divider struct{ widget.BaseWidget }

func (d *divider) CreateRenderer() fyne.WidgetRenderer {
	line := &canvas.Rectangle{}
	return draw(
		func() fyne.Size { return fyne.NewSize(1, 1) },
		func(s fyne.Size) { place(line, 0, (s.Height-1)/2, s.Width, 1) },
		func() { line.FillColor = theme.Color(theme.Border) },
		line)
}

// Image is an icon in a theme colour.
type Image struct {
	widget.BaseWidget

	icon  theme.Icon
	color fyne.ThemeColorName
	size  float32
}

// NewImage draws an icon so large.
func NewImage(icon theme.Icon, tone Tone, size float32) *Image {
	i := &Image{icon: icon, color: tone.text(), size: size}
	i.ExtendBaseWidget(i)
	return i
}

// Set changes icon and tone.
func (i *Image) Set(icon theme.Icon, tone Tone) {
	if icon != i.icon || tone.text() != i.color {
		i.icon, i.color = icon, tone.text()
		i.Refresh()
	}
}

// CreateRenderer implements fyne.Widget.
func (i *Image) CreateRenderer() fyne.WidgetRenderer {
	img := canvas.NewImageFromResource(i.icon.Resource(i.color))
	img.FillMode = canvas.ImageFillContain
	return draw(
		func() fyne.Size { return fyne.NewSquareSize(i.size) },
		func(s fyne.Size) { place(img, 0, (s.Height-i.size)/2, i.size, i.size) },
		func() { img.Resource = i.icon.Resource(i.color) },
		img)
}
