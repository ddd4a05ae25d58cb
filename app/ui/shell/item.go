package shell

import (
	"image/color"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

const itemHeight = 40

// item is one entry of the rail.
type item struct {
	widget.BaseWidget

	name, title string
	icon        fyne.Resource
	tapped      func()
	move        func(by int) // to the entry above or below

	chosen, narrow, hovered, focused bool
}

var (
	_ fyne.Tappable      = (*item)(nil)
	_ fyne.Focusable     = (*item)(nil)
	_ desktop.Hoverable  = (*item)(nil)
	_ desktop.Cursorable = (*item)(nil)
)

func newItem(name, title string, icon fyne.Resource, tapped func()) *item {
	i := &item{name: name, title: title, icon: icon, tapped: tapped}
	i.ExtendBaseWidget(i)
	return i
}

func (i *item) choose(on bool) {
	if on != i.chosen {
		i.chosen = on
		i.Refresh()
	}
}

func (i *item) Tapped(*fyne.PointEvent)        { i.tapped() }
func (i *item) FocusGained()                   { i.focused = true; i.Refresh() }
func (i *item) FocusLost()                     { i.focused = false; i.Refresh() }
func (i *item) TypedRune(rune)                 {}
func (i *item) MouseIn(*desktop.MouseEvent)    { i.hovered = true; i.Refresh() }
func (i *item) MouseMoved(*desktop.MouseEvent) {}
func (i *item) MouseOut()                      { i.hovered = false; i.Refresh() }
func (i *item) Cursor() desktop.Cursor         { return desktop.PointerCursor }

func (i *item) TypedKey(e *fyne.KeyEvent) {
	switch e.Name {
	case fyne.KeySpace, fyne.KeyReturn, fyne.KeyEnter:
		i.tapped()
	case fyne.KeyUp:
		i.move(-1)
	case fyne.KeyDown:
		i.move(1)
	}
}

// CreateRenderer implements fyne.Widget.
func (i *item) CreateRenderer() fyne.WidgetRenderer {
	d := &itemDrawing{
		item: i, back: &canvas.Rectangle{CornerRadius: theme.RadiusSmall},
		img:   &canvas.Image{FillMode: canvas.ImageFillContain},
		title: &canvas.Text{Text: i.title, TextSize: theme.TextBody},
	}
	d.paint()
	return d
}

type itemDrawing struct {
	item  *item
	back  *canvas.Rectangle
	img   *canvas.Image
	title *canvas.Text
}

func (d *itemDrawing) Destroy()           {}
func (d *itemDrawing) MinSize() fyne.Size { return fyne.NewSize(40, itemHeight) }
func (d *itemDrawing) Objects() []fyne.CanvasObject {
	return []fyne.CanvasObject{d.back, d.img, d.title}
}

func (d *itemDrawing) Layout(s fyne.Size) {
	const size = 20
	d.back.Resize(s)
	x := float32(10)
	if d.item.narrow {
		x = (s.Width - size) / 2
	}
	d.img.Move(fyne.NewPos(x, (s.Height-size)/2))
	d.img.Resize(fyne.NewSquareSize(size))
	d.title.Hidden = d.item.narrow
	m := d.title.MinSize()
	d.title.Move(fyne.NewPos(x+size+theme.GapM, (s.Height-m.Height)/2))
	d.title.Resize(m)
}

func (d *itemDrawing) paint() {
	words, back := theme.Muted, fyne.ThemeColorName("")
	switch {
	case d.item.chosen:
		words, back = theme.AccentText, theme.AccentTint
	case d.item.hovered:
		words, back = theme.Text, theme.Hover
	}
	d.back.FillColor = color.Transparent
	if back != "" {
		d.back.FillColor = theme.Color(back)
	}
	d.back.StrokeWidth = 0
	if d.item.focused {
		d.back.StrokeWidth, d.back.StrokeColor = 2, theme.Color(theme.AccentText)
	}
	d.title.Color = theme.Color(words)
	d.title.TextStyle = fyne.TextStyle{Bold: d.item.chosen}
	d.img.Resource = theme.Colored(d.item.icon, words)
}

func (d *itemDrawing) Refresh() {
	d.paint()
	d.Layout(d.item.Size())
	d.back.Refresh()
	d.img.Refresh()
	d.title.Refresh()
}
