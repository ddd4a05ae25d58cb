package kit

import (
	"image/color"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// StatTile is one figure with its name and what there is to say about it.
type StatTile struct {
	widget.BaseWidget

	value, detail *Text
	panel         *Panel
}

// NewStatTile makes one, to stand in Tiles.
func NewStatTile(label, value, detail string) *StatTile {
	t := &StatTile{value: Number(value).Cut(), detail: Caption(detail).Cut()}
	t.panel = NewPanel(theme.Surface, theme.Border, theme.Radius,
		Inset(18, 14, Column(2, newText(styleMuted, label, false).Cut(), t.value, t.detail)))
	t.ExtendBaseWidget(t)
	return t
}

// Set changes the figure and what is said about it.
func (t *StatTile) Set(value, detail string) {
	t.value.Set(value)
	t.detail.Set(detail)
}

// Value is the figure as it is shown.
func (t *StatTile) Value() string { return t.value.Text() }

// CreateRenderer implements fyne.Widget.
func (t *StatTile) CreateRenderer() fyne.WidgetRenderer {
	return draw(t.panel.MinSize, t.panel.Resize, func() {}, t.panel)
}

// Meter is a bar with its name and the same in words.
type Meter struct {
	widget.BaseWidget

	label, words *Text
	part         float32
	tone         Tone
}

// NewMeter makes one; the part is 0 to 1.
func NewMeter(label string, part float32, words string) *Meter {
	m := &Meter{label: newText(styleMuted, label, false).Cut(), words: newText(styleMuted, words, false), part: part}
	m.words.SetTone(Plain)
	m.ExtendBaseWidget(m)
	return m
}

// Set changes part and words.
func (m *Meter) Set(part float32, words string) {
	m.words.Set(words)
	if part = min(max(part, 0), 1); part != m.part {
		m.part = part
		m.Refresh()
	}
}

// SetLabel changes the name.
func (m *Meter) SetLabel(s string) { m.label.Set(s) }

// SetTone colours the bar.
func (m *Meter) SetTone(t Tone) {
	if t != m.tone {
		m.tone = t
		m.Refresh()
	}
}

// Words are what it says.
func (m *Meter) Words() string { return m.words.Text() }

// CreateRenderer implements fyne.Widget.
func (m *Meter) CreateRenderer() fyne.WidgetRenderer {
	const thick, gap = 8, 7
	track := &canvas.Rectangle{CornerRadius: thick / 2}
	bar := &canvas.Rectangle{CornerRadius: thick / 2}
	head := Beside(theme.GapM, m.label, m.words)
	layout := func(s fyne.Size) {
		h := settle(head, 0, 0, s.Width)
		place(track, 0, h+gap, s.Width, thick)
		w := s.Width * m.part
		if m.part > 0 {
			w = max(w, thick)
		}
		place(bar, 0, h+gap, w, thick)
	}
	return draw(
		func() fyne.Size { return fyne.NewSize(120, head.MinSize().Height+gap+thick) },
		layout,
		func() {
			track.FillColor = theme.Color(theme.Raised)
			bar.FillColor = theme.Color(m.tone.fill())
			layout(m.Size())
		},
		head, track, bar)
}

// Cell is one layer in a Strip: by how many computers it is held, and whether
// this one is among them.
type Cell struct {
	Count int
	Mine  bool
}

// Strip shows how a model's layers are held: the higher a bar the more computers
// hold it (three and more are full), none is a dot, and what this computer holds
// is underlined. The caller says the same in words.
type Strip struct {
	widget.BaseWidget

	cells []Cell
	bars  []*canvas.Rectangle
	lines []*canvas.Rectangle
}

// NewStrip makes one of a model's layers.
func NewStrip(cells []Cell) *Strip {
	s := &Strip{}
	s.ExtendBaseWidget(s)
	s.Set(cells)
	return s
}

// Set changes the cells; equal ones cost nothing.
func (s *Strip) Set(cells []Cell) {
	same := len(cells) == len(s.cells)
	for i := 0; same && i < len(cells); i++ {
		same = cells[i] == s.cells[i]
	}
	if same {
		return
	}
	s.cells = append(s.cells[:0:0], cells...)
	s.Refresh()
}

// CreateRenderer implements fyne.Widget.
func (s *Strip) CreateRenderer() fyne.WidgetRenderer { d := &stripDrawing{s: s}; d.paint(); return d }

type stripDrawing struct{ s *Strip }

const (
	stripHeight = 30
	stripFull   = 24
)

func (d *stripDrawing) Destroy()           {}
func (d *stripDrawing) MinSize() fyne.Size { return fyne.NewSize(120, stripHeight) }

func (d *stripDrawing) Objects() []fyne.CanvasObject {
	objects := make([]fyne.CanvasObject, 0, len(d.s.bars)+len(d.s.lines))
	for i := range d.s.bars {
		objects = append(objects, d.s.bars[i], d.s.lines[i])
	}
	return objects
}

func (d *stripDrawing) Layout(size fyne.Size) {
	n := len(d.s.cells)
	if n == 0 {
		return
	}
	step := min(size.Width/float32(n), 32)
	gap := min(step/4, 3)
	for i, c := range d.s.cells {
		h := float32(stripFull) * float32(min(c.Count, 3)) / 3
		if c.Count == 0 {
			h = 3
		}
		x, w := float32(i)*step, step-gap
		place(d.s.bars[i], x, stripFull-h, w, h)
		place(d.s.lines[i], x, stripFull+3, step-gap, 3)
	}
}

func (d *stripDrawing) paint() {
	s := d.s
	for len(s.bars) < len(s.cells) {
		s.bars = append(s.bars, &canvas.Rectangle{CornerRadius: 2})
		s.lines = append(s.lines, &canvas.Rectangle{CornerRadius: 1.5})
	}
	s.bars, s.lines = s.bars[:len(s.cells)], s.lines[:len(s.cells)]
	for i, c := range s.cells {
		s.bars[i].FillColor = theme.Color(theme.Accent)
		if c.Count == 0 {
			s.bars[i].FillColor = theme.Color(theme.Bad)
		}
		s.lines[i].FillColor = color.Transparent
		if c.Mine {
			s.lines[i].FillColor = theme.Color(theme.Good)
		}
	}
}

func (d *stripDrawing) Refresh() {
	d.paint()
	d.Layout(d.s.Size())
	canvas.Refresh(d.s)
}
