package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"
)

// Column puts objects below each other, each as wide as the column. Text that
// wraps gets its height in the same pass.
func Column(gap float32, objects ...fyne.CanvasObject) *fyne.Container {
	return container.New(&column{gap}, objects...)
}

// Beside puts objects beside each other, each in the middle of the height. What
// grows (wrapped or cut text, Grow, Spacer) shares the room that is left.
func Beside(gap float32, objects ...fyne.CanvasObject) *fyne.Container {
	return container.New(&beside{gap}, objects...)
}

// Tiles puts objects of one width beside each other, as many in a line as have
// at least that width.
func Tiles(least, gap float32, objects ...fyne.CanvasObject) *fyne.Container {
	return container.New(&tiles{least: least, gap: gap}, objects...)
}

// Wrapped puts objects of their own widths beside each other and goes on in the
// next line.
func Wrapped(gap float32, objects ...fyne.CanvasObject) *fyne.Container {
	return container.New(&flow{gap: gap}, objects...)
}

// Inset leaves room left and right, above and below an object.
func Inset(x, y float32, o fyne.CanvasObject) *fyne.Container {
	return container.New(&inset{x: x, y: y}, o)
}

// Narrow keeps an object readable: at most so wide, in the middle.
func Narrow(most float32, o fyne.CanvasObject) *fyne.Container {
	return container.New(&inset{most: most}, o)
}

// SetVisible shows or hides an object; nothing happens when it is so already.
func SetVisible(o fyne.CanvasObject, on bool) {
	switch {
	case o.Visible() == on:
	case on:
		o.Show()
	default:
		o.Hide()
	}
}

// Spacer takes the room that is left in Beside.
func Spacer() fyne.CanvasObject { return Grow(nil) }

// Grow lets an object take the room that is left in Beside; it is drawn in the
// middle of the height.
func Grow(o fyne.CanvasObject) fyne.CanvasObject {
	g := &growing{o: o}
	g.ExtendBaseWidget(g)
	return g
}

// Fixed gives an object a least width.
func Fixed(width float32, o fyne.CanvasObject) *fyne.Container {
	return container.New(&fixed{width}, o)
}

type growing struct {
	widget.BaseWidget
	o fyne.CanvasObject
}

func (*growing) grows() bool { return true }

func (g *growing) CreateRenderer() fyne.WidgetRenderer {
	if g.o == nil {
		return draw(func() fyne.Size { return fyne.Size{} }, func(fyne.Size) {}, func() {})
	}
	return draw(g.o.MinSize, g.o.Resize, func() {}, g.o)
}

// settle gives an object its width, then the height that it needs with it.
func settle(o fyne.CanvasObject, x, y, w float32) float32 {
	o.Move(fyne.NewPos(x, y))
	h := o.MinSize().Height
	o.Resize(fyne.NewSize(w, h))
	if again := o.MinSize().Height; again != h {
		h = again
		o.Resize(fyne.NewSize(w, h))
	}
	return h
}

func visible(objects []fyne.CanvasObject) []fyne.CanvasObject {
	shown := make([]fyne.CanvasObject, 0, len(objects))
	for _, o := range objects {
		if o.Visible() {
			shown = append(shown, o)
		}
	}
	return shown
}

type column struct{ gap float32 }

func (c *column) MinSize(objects []fyne.CanvasObject) fyne.Size {
	var s fyne.Size
	for i, o := range visible(objects) {
		m := o.MinSize()
		s.Width = max(s.Width, m.Width)
		s.Height += m.Height
		if i > 0 {
			s.Height += c.gap
		}
	}
	return s
}

func (c *column) Layout(objects []fyne.CanvasObject, s fyne.Size) {
	var y float32
	for _, o := range visible(objects) {
		y += settle(o, 0, y, s.Width) + c.gap
	}
}

type beside struct{ gap float32 }

func (b *beside) MinSize(objects []fyne.CanvasObject) fyne.Size {
	var s fyne.Size
	for i, o := range visible(objects) {
		m := o.MinSize()
		s.Width += m.Width
		s.Height = max(s.Height, m.Height)
		if i > 0 {
			s.Width += b.gap
		}
	}
	return s
}

func (b *beside) Layout(objects []fyne.CanvasObject, s fyne.Size) {
	shown := visible(objects)
	growing := 0
	left := s.Width - b.gap*float32(max(len(shown)-1, 0))
	for _, o := range shown {
		if g, ok := o.(grower); ok && g.grows() {
			growing++
		} else {
			left -= o.MinSize().Width
		}
	}
	var x float32
	for _, o := range shown {
		w := o.MinSize().Width
		if g, ok := o.(grower); ok && g.grows() {
			w = max(w, left/float32(growing))
		}
		h := settle(o, x, 0, w)
		o.Move(fyne.NewPos(x, max(0, (s.Height-h)/2)))
		x += w + b.gap
	}
}

type grower interface{ grows() bool }

type tiles struct {
	least, gap float32
	width      float32 // of the last layout
}

// shape is how many columns fit, and their width.
func (t *tiles) shape(n int, width float32) (columns int, w float32) {
	columns = max(1, min(n, int((width+t.gap)/(t.least+t.gap))))
	return columns, (width - t.gap*float32(columns-1)) / float32(columns)
}

func (t *tiles) MinSize(objects []fyne.CanvasObject) fyne.Size {
	shown := visible(objects)
	columns, _ := t.shape(len(shown), max(t.width, t.least))
	s := fyne.NewSize(t.least, 0)
	for i := 0; i < len(shown); i += columns {
		var h float32
		for _, o := range shown[i:min(i+columns, len(shown))] {
			h = max(h, o.MinSize().Height)
		}
		if i > 0 {
			h += t.gap
		}
		s.Height += h
	}
	return s
}

func (t *tiles) Layout(objects []fyne.CanvasObject, s fyne.Size) {
	t.width = s.Width
	shown := visible(objects)
	columns, w := t.shape(len(shown), s.Width)
	var y float32
	for i := 0; i < len(shown); i += columns {
		line := shown[i:min(i+columns, len(shown))]
		var h float32
		for j, o := range line {
			h = max(h, settle(o, float32(j)*(w+t.gap), y, w))
		}
		for _, o := range line { // all tiles of a line end together
			o.Resize(fyne.NewSize(w, h))
		}
		y += h + t.gap
	}
}

type flow struct {
	gap   float32
	width float32
}

// arrange says for each object where it goes, in the middle of its line.
func (f *flow) arrange(objects []fyne.CanvasObject, width float32, at func(o fyne.CanvasObject, x, y float32, m fyne.Size)) fyne.Size {
	var s fyne.Size
	for shown := visible(objects); len(shown) > 0; {
		var w, h float32
		n := 0
		for _, o := range shown {
			m := o.MinSize()
			if n > 0 && w+f.gap+m.Width > width {
				break
			}
			if n > 0 {
				w += f.gap
			}
			w += m.Width
			h = max(h, m.Height)
			s.Width = max(s.Width, m.Width)
			n++
		}
		if s.Height > 0 {
			s.Height += f.gap
		}
		var x float32
		for _, o := range shown[:n] {
			m := o.MinSize()
			at(o, x, s.Height+(h-m.Height)/2, m)
			x += m.Width + f.gap
		}
		s.Height += h
		shown = shown[n:]
	}
	return s
}

func (f *flow) MinSize(objects []fyne.CanvasObject) fyne.Size {
	width := f.width
	if width == 0 {
		width = theFirstWidth
	}
	return f.arrange(objects, width, func(fyne.CanvasObject, float32, float32, fyne.Size) {})
}

// theFirstWidth is what is assumed before there has been a layout.
const theFirstWidth = 400

func (f *flow) Layout(objects []fyne.CanvasObject, s fyne.Size) {
	f.width = s.Width
	f.arrange(objects, s.Width, func(o fyne.CanvasObject, x, y float32, m fyne.Size) { place(o, x, y, m.Width, m.Height) })
}

// inset has one object.
type inset struct{ x, y, most float32 }

func (i *inset) MinSize(objects []fyne.CanvasObject) fyne.Size {
	if len(objects) == 0 || !objects[0].Visible() {
		return fyne.Size{}
	}
	return objects[0].MinSize().Add(fyne.NewSize(2*i.x, 2*i.y))
}

func (i *inset) Layout(objects []fyne.CanvasObject, s fyne.Size) {
	w, x := s.Width-2*i.x, i.x
	if i.most > 0 && w > i.most {
		x += (w - i.most) / 2
		w = i.most
	}
	for _, o := range objects {
		h := settle(o, x, i.y, w)
		if fill := s.Height - 2*i.y; fill > h { // cards of one line end together
			o.Resize(fyne.NewSize(w, fill))
		}
	}
}

type fixed struct{ width float32 }

func (f *fixed) MinSize(objects []fyne.CanvasObject) fyne.Size {
	m := objects[0].MinSize()
	return fyne.NewSize(max(m.Width, f.width), m.Height)
}

func (f *fixed) Layout(objects []fyne.CanvasObject, s fyne.Size) {
	place(objects[0], 0, 0, s.Width, s.Height)
}
