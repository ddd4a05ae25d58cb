// Package chart is the window's bar chart. Pages import it; it knows colours by
// the theme's names and texts from the caller alone.
package chart

import (
	"image"
	"math"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/driver/software"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// Bar is one bar. Values below zero are drawn as zero.
type Bar struct {
	Label string // below it; "" leaves it out
	Value float64
	Text  string // said of it when it is chosen
}

// Chart shows bars with a scale. The pointer, and the arrow keys when it has the
// keyboard, choose a bar.
type Chart struct {
	widget.BaseWidget

	// OnChosen is called with the index of the chosen bar, -1 for none.
	OnChosen func(index int)

	bars    []Bar
	format  func(float64) string // of the scale
	chosen  int
	focused bool
	height  float32
}

var (
	_ fyne.Focusable    = (*Chart)(nil)
	_ fyne.Tappable     = (*Chart)(nil)
	_ desktop.Hoverable = (*Chart)(nil)
)

// New makes an empty chart that is at least so high; format writes the scale.
func New(height float32, format func(float64) string) *Chart {
	c := &Chart{chosen: -1, height: height, format: format}
	c.ExtendBaseWidget(c)
	return c
}

// Set changes the bars.
func (c *Chart) Set(bars []Bar) {
	same := len(bars) == len(c.bars)
	for i := 0; same && i < len(bars); i++ {
		same = bars[i] == c.bars[i]
	}
	if same {
		return
	}
	c.bars = bars
	if c.chosen >= len(bars) {
		c.chosen = -1
	}
	c.Refresh()
}

// Chosen is the index of the chosen bar, -1 for none.
func (c *Chart) Chosen() int { return c.chosen }

func (c *Chart) choose(i int) {
	if i == c.chosen {
		return
	}
	c.chosen = i
	if c.OnChosen != nil {
		c.OnChosen(i)
	}
	c.Refresh()
}

// Image draws the chart alone, in the colours of the present theme.
func (c *Chart) Image(width, height float32) image.Image {
	copied := New(height, c.format)
	copied.bars = c.bars
	back := canvas.NewRectangle(theme.Color(theme.Surface))
	box := &framed{back: back, chart: copied}
	box.ExtendBaseWidget(box)
	box.Resize(fyne.NewSize(width, height))
	return software.Render(box, fyne.CurrentApp().Settings().Theme())
}

// framed is a chart on its ground, with room around it.
type framed struct {
	widget.BaseWidget
	back  *canvas.Rectangle
	chart *Chart
}

func (f *framed) CreateRenderer() fyne.WidgetRenderer {
	return &frameDrawing{f}
}

type frameDrawing struct{ f *framed }

func (d *frameDrawing) Destroy()                     {}
func (d *frameDrawing) Refresh()                     {}
func (d *frameDrawing) MinSize() fyne.Size           { return d.f.Size() }
func (d *frameDrawing) Objects() []fyne.CanvasObject { return []fyne.CanvasObject{d.f.back, d.f.chart} }

func (d *frameDrawing) Layout(s fyne.Size) {
	d.f.back.Resize(s)
	d.f.chart.Move(fyne.NewPos(theme.GapL, theme.GapL))
	d.f.chart.Resize(s.Subtract(fyne.NewSize(2*theme.GapL, 2*theme.GapL)))
}

// scale is the top of the axis for a largest value, a round number, and how many
// steps it has.
func scale(most float64) (top float64, steps int) {
	if most <= 0 || math.IsInf(most, 0) || math.IsNaN(most) {
		return 1, 2
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, s := range []struct {
		times float64
		steps int
	}{{1, 2}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 3}, {8, 4}, {10, 5}} {
		if top = s.times * power; most <= top*(1+1e-9) {
			return top, s.steps
		}
	}
	return 10 * power, 5
}
