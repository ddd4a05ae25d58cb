package settings

import (
	"fmt"
	"image/color"
	"math/bits"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// grid is the hours of a week: a click turns an hour, drawing over several turns
// them alike. Tab reaches it, the arrow keys move, Space turns.
type grid struct {
	widget.BaseWidget

	changed func(hours [7]uint32)
	days    [7]string

	hours   [7]uint32
	on      bool // whether the schedule is in force
	focused bool
	day     int // where the keyboard is
	hour    int

	drawing bool
	value   bool // that is being drawn
}

var (
	_ fyne.Tappable      = (*grid)(nil)
	_ fyne.Draggable     = (*grid)(nil)
	_ fyne.Focusable     = (*grid)(nil)
	_ desktop.Cursorable = (*grid)(nil)
)

func newGrid(days [7]string, changed func(hours [7]uint32)) *grid {
	g := &grid{days: days, changed: changed}
	g.ExtendBaseWidget(g)
	return g
}

// set shows hours without telling, not while some are being drawn.
func (g *grid) set(hours [7]uint32) {
	if !g.drawing && hours != g.hours {
		g.hours = hours
		g.Refresh()
	}
}

func (g *grid) enable(on bool) {
	if on != g.on {
		g.on = on
		g.Refresh()
	}
}

// count is how many hours of the week are open.
func (g *grid) count() int {
	n := 0
	for _, h := range g.hours {
		n += bits.OnesCount32(h)
	}
	return n
}

const (
	gridLeft = 44
	gridTop  = 22
	gridRow  = 24
	gridGap  = 2
)

func (g *grid) cell(width float32) float32 { return (width - gridLeft) / 24 }

// at is the hour at a position.
func (g *grid) at(p fyne.Position) (day, hour int, ok bool) {
	day = int((p.Y - gridTop) / gridRow)
	hour = int((p.X - gridLeft) / g.cell(g.Size().Width))
	return day, hour, p.X >= gridLeft && p.Y >= gridTop && day < 7 && hour < 24
}

func (g *grid) open(day, hour int) bool { return g.hours[day]>>hour&1 == 1 }

// put sets an hour and says whether that changed anything.
func (g *grid) put(day, hour int, open bool) bool {
	if g.open(day, hour) == open {
		return false
	}
	g.hours[day] ^= 1 << hour
	return true
}

// Tapped turns an hour.
func (g *grid) Tapped(e *fyne.PointEvent) {
	if day, hour, ok := g.at(e.Position); ok {
		g.day, g.hour = day, hour
		g.turn()
	}
}

func (g *grid) turn() {
	g.put(g.day, g.hour, !g.open(g.day, g.hour))
	g.Refresh()
	g.changed(g.hours)
}

// Dragged draws over hours.
func (g *grid) Dragged(e *fyne.DragEvent) {
	day, hour, ok := g.at(e.Position)
	if !ok {
		return
	}
	if !g.drawing {
		g.drawing = true
		from := e.Position.Subtract(e.Dragged)
		d, h, ok := g.at(from)
		if !ok {
			d, h = day, hour
		}
		g.value = !g.open(d, h)
		g.put(d, h, g.value)
	}
	g.put(day, hour, g.value)
	g.Refresh()
}

// DragEnd tells what was drawn.
func (g *grid) DragEnd() {
	g.drawing = false
	g.changed(g.hours)
}

func (g *grid) FocusGained()           { g.focused = true; g.Refresh() }
func (g *grid) FocusLost()             { g.focused = false; g.Refresh() }
func (g *grid) TypedRune(rune)         {}
func (g *grid) Cursor() desktop.Cursor { return desktop.PointerCursor }

// TypedKey moves and turns.
func (g *grid) TypedKey(e *fyne.KeyEvent) {
	switch e.Name {
	case fyne.KeyLeft:
		g.hour = max(g.hour-1, 0)
	case fyne.KeyRight:
		g.hour = min(g.hour+1, 23)
	case fyne.KeyUp:
		g.day = max(g.day-1, 0)
	case fyne.KeyDown:
		g.day = min(g.day+1, 6)
	case fyne.KeySpace, fyne.KeyReturn, fyne.KeyEnter:
		g.turn()
		return
	default:
		return
	}
	g.Refresh()
}

// CreateRenderer implements fyne.Widget.
func (g *grid) CreateRenderer() fyne.WidgetRenderer {
	d := &gridDrawing{g: g}
	for day := range g.days {
		d.names = append(d.names, &canvas.Text{Text: g.days[day], TextSize: theme.TextCaption})
		for range 24 {
			d.cells = append(d.cells, &canvas.Rectangle{CornerRadius: 4})
		}
	}
	for hour := 0; hour <= 24; hour += 6 {
		d.hours = append(d.hours, &canvas.Text{Text: fmt.Sprintf("%d", hour), TextSize: theme.TextCaption})
	}
	for _, o := range d.names {
		d.objects = append(d.objects, o)
	}
	for _, o := range d.hours {
		d.objects = append(d.objects, o)
	}
	for _, o := range d.cells {
		d.objects = append(d.objects, o)
	}
	d.paint()
	return d
}

type gridDrawing struct {
	g            *grid
	names, hours []*canvas.Text
	cells        []*canvas.Rectangle
	objects      []fyne.CanvasObject
}

func (d *gridDrawing) Destroy()                     {}
func (d *gridDrawing) MinSize() fyne.Size           { return fyne.NewSize(gridLeft+24*10, gridTop+7*gridRow) }
func (d *gridDrawing) Objects() []fyne.CanvasObject { return d.objects }

func (d *gridDrawing) Layout(s fyne.Size) {
	w := d.g.cell(s.Width)
	for i, t := range d.names {
		m := t.MinSize()
		t.Move(fyne.NewPos(0, gridTop+float32(i)*gridRow+(gridRow-m.Height)/2))
		t.Resize(m)
	}
	for i, t := range d.hours {
		m := t.MinSize()
		x := gridLeft + float32(i*6)*w
		if i > 0 {
			x -= m.Width / 2
		}
		t.Move(fyne.NewPos(min(x, s.Width-m.Width), 0))
		t.Resize(m)
	}
	for i, c := range d.cells {
		c.Move(fyne.NewPos(gridLeft+float32(i%24)*w, gridTop+float32(i/24)*gridRow))
		c.Resize(fyne.NewSize(w-gridGap, gridRow-gridGap))
	}
}

// paint tells open hours from closed ones by filling, not by colour alone: the
// closed ones are outlines.
func (d *gridDrawing) paint() {
	for _, t := range append(d.names, d.hours...) {
		t.Color = theme.Color(theme.Muted)
	}
	for i, c := range d.cells {
		day, hour := i/24, i%24
		c.StrokeWidth, c.StrokeColor = 1, theme.Color(theme.Border)
		c.FillColor = color.Transparent
		if d.g.open(day, hour) {
			c.FillColor, c.StrokeWidth = theme.Color(theme.Faint), 0
			if d.g.on {
				c.FillColor = theme.Color(theme.Accent)
			}
		}
		if d.g.focused && day == d.g.day && hour == d.g.hour {
			c.StrokeWidth, c.StrokeColor = 2, theme.Color(theme.Text)
		}
	}
}

func (d *gridDrawing) Refresh() {
	d.paint()
	canvas.Refresh(d.g)
}
