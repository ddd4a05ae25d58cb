package chart

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"

	"neuron/app/ui/theme"
)

const (
	labelRoom = 22 // below the bars
	topRoom   = 10 // above the highest line, for its label
	ring      = 2
)

// field is where the bars begin, and how wide one is with its gap.
func (c *Chart) field() (left, step float32) {
	most := c.most()
	top, _ := scale(most)
	left = fyne.MeasureText(c.format(top), theme.TextCaption, fyne.TextStyle{}).Width + theme.GapS
	return left, (c.Size().Width - left) / float32(max(len(c.bars), 1))
}

func (c *Chart) most() float64 {
	most := 0.0
	for _, b := range c.bars {
		most = max(most, b.Value)
	}
	return most
}

// CreateRenderer implements fyne.Widget.
func (c *Chart) CreateRenderer() fyne.WidgetRenderer {
	d := &drawing{c: c, ring: &canvas.Rectangle{StrokeWidth: ring, CornerRadius: theme.RadiusSmall}}
	d.Refresh()
	return d
}

type drawing struct {
	c      *Chart
	ring   *canvas.Rectangle
	lines  []*canvas.Line
	steps  []*canvas.Text
	bars   []*canvas.Rectangle
	labels []*canvas.Text
}

func (d *drawing) Destroy() {}

func (d *drawing) MinSize() fyne.Size { return fyne.NewSize(200, d.c.height) }

func (d *drawing) Objects() []fyne.CanvasObject {
	out := []fyne.CanvasObject{d.ring}
	for i := range d.lines {
		out = append(out, d.lines[i], d.steps[i])
	}
	for i := range d.bars {
		out = append(out, d.bars[i], d.labels[i])
	}
	return out
}

// Refresh makes as many objects as are needed, colours and places them.
func (d *drawing) Refresh() {
	top, steps := scale(d.c.most())
	for len(d.lines) <= steps {
		d.lines = append(d.lines, &canvas.Line{StrokeWidth: 1})
		d.steps = append(d.steps, &canvas.Text{TextSize: theme.TextCaption, Alignment: fyne.TextAlignTrailing})
	}
	d.lines, d.steps = d.lines[:steps+1], d.steps[:steps+1]
	for i := range d.lines {
		d.lines[i].StrokeColor = theme.Color(theme.Border)
		d.steps[i].Color = theme.Color(theme.Muted)
		d.steps[i].Text = d.c.format(top * float64(i) / float64(steps))
	}
	for len(d.bars) < len(d.c.bars) {
		d.bars = append(d.bars, &canvas.Rectangle{CornerRadius: 3})
		d.labels = append(d.labels, &canvas.Text{TextSize: theme.TextCaption})
	}
	d.bars, d.labels = d.bars[:len(d.c.bars)], d.labels[:len(d.c.bars)]
	for i, b := range d.c.bars {
		color := theme.Accent
		switch {
		case b.Value <= 0:
			color = theme.Raised
		case i == d.c.chosen:
			color = theme.AccentText
		}
		d.bars[i].FillColor = theme.Color(color)
		d.labels[i].Text, d.labels[i].Color = b.Label, theme.Color(theme.Muted)
	}
	d.ring.Hidden = !d.c.focused
	d.ring.StrokeColor = theme.Color(theme.AccentText)
	d.Layout(d.c.Size())
	canvas.Refresh(d.c)
}

// Layout implements fyne.WidgetRenderer.
func (d *drawing) Layout(s fyne.Size) {
	if s.Width <= 0 {
		return
	}
	place(d.ring, -2*ring, -2*ring, s.Width+4*ring, s.Height+4*ring)
	left, step := d.c.field()
	floor := s.Height - labelRoom
	high := floor - topRoom
	for i, l := range d.lines {
		y := floor - high*float32(i)/float32(len(d.lines)-1)
		l.Position1, l.Position2 = fyne.NewPos(left, y), fyne.NewPos(s.Width, y)
		m := d.steps[i].MinSize()
		place(d.steps[i], 0, y-m.Height/2, left-theme.GapS, m.Height)
	}
	top, _ := scale(d.c.most())
	gap := min(step*0.3, 8)
	for i, b := range d.c.bars {
		h := max(2, high*float32(max(b.Value, 0)/top))
		x := left + float32(i)*step
		place(d.bars[i], x+gap/2, floor-h, step-gap, h)
		m := d.labels[i].MinSize()
		// The last label ends with the chart.
		place(d.labels[i], max(left, min(x+(step-m.Width)/2, s.Width-m.Width)), floor+4, m.Width, m.Height)
	}
}

func place(o fyne.CanvasObject, x, y, w, h float32) {
	o.Move(fyne.NewPos(x, y))
	o.Resize(fyne.NewSize(w, h))
}
