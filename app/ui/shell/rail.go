package shell

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
)

// rail is the navigation at the left: the name, an entry per page, and at its
// foot what this computer does.
type rail struct {
	widget.BaseWidget

	items []*item
	foot  *foot
	help  *kit.Button
}

func newRail(pages []page.Page, open func(name string), foot *foot, help *kit.Button) *rail {
	r := &rail{foot: foot, help: help}
	for i, p := range pages {
		it := newItem(p.Name(), p.Title(), p.Icon(), func() { open(p.Name()) })
		it.move = func(by int) {
			if next := i + by; next >= 0 && next < len(r.items) {
				open(pages[next].Name())
				fyne.CurrentApp().Driver().CanvasForObject(r).Focus(r.items[next])
			}
		}
		r.items = append(r.items, it)
	}
	r.ExtendBaseWidget(r)
	return r
}

// mark shows which page is open.
func (r *rail) mark(name string) {
	for _, it := range r.items {
		it.choose(it.name == name)
	}
}

// CreateRenderer implements fyne.Widget.
func (r *rail) CreateRenderer() fyne.WidgetRenderer {
	back := &canvas.Rectangle{}
	edge := &canvas.Rectangle{}
	brand := kit.NewImage(theme.IconNeuron, kit.Accent, 24)
	name := kit.Heading("Neuron")
	objects := []fyne.CanvasObject{back, edge, brand, name}
	for _, it := range r.items {
		objects = append(objects, it)
	}
	objects = append(objects, r.foot, r.help)
	layout := func(s fyne.Size) {
		back.Resize(s)
		edge.Move(fyne.NewPos(s.Width-1, 0))
		edge.Resize(fyne.NewSize(1, s.Height))
		narrow := s.Width < railWidth
		brand.Move(fyne.NewPos(20, 24))
		brand.Resize(fyne.NewSize(24, 24))
		name.Hidden = narrow
		name.Move(fyne.NewPos(54, 24+(24-name.MinSize().Height)/2))
		name.Resize(name.MinSize())
		y := float32(72)
		for _, it := range r.items {
			it.narrow = narrow
			it.Move(fyne.NewPos(theme.GapM, y))
			it.Resize(fyne.NewSize(s.Width-2*theme.GapM, itemHeight))
			y += itemHeight + theme.GapXS
		}
		r.help.Hidden = narrow
		r.foot.setNarrow(narrow)
		w := s.Width - 2*theme.GapM
		h := r.foot.heightFor(w)
		r.foot.Move(fyne.NewPos(theme.GapM, s.Height-h-theme.GapM))
		r.foot.Resize(fyne.NewSize(w, h))
		r.help.Resize(r.help.MinSize())
		r.help.Move(fyne.NewPos(s.Width-theme.GapM-r.help.MinSize().Width, 18))
	}
	return &railDrawing{rail: r, objects: objects, layout: layout, paint: func() {
		back.FillColor = theme.Color(theme.Rail)
		edge.FillColor = theme.Color(theme.Border)
	}}
}

type railDrawing struct {
	rail    *rail
	objects []fyne.CanvasObject
	layout  func(fyne.Size)
	paint   func()
}

func (d *railDrawing) Destroy()                     {}
func (d *railDrawing) MinSize() fyne.Size           { return fyne.NewSize(railNarrow, 420) }
func (d *railDrawing) Objects() []fyne.CanvasObject { d.paint(); return d.objects }
func (d *railDrawing) Layout(s fyne.Size)           { d.layout(s) }

func (d *railDrawing) Refresh() {
	d.paint()
	d.layout(d.rail.Size())
	for _, o := range d.objects {
		o.Refresh()
	}
}
