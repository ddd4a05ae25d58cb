package kit

import (
	"image/color"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// Segmented is a choice of one of a few short words. Tab reaches it, the arrow
// keys change it.
type Segmented struct {
	widget.DisableableWidget

	// OnChanged is called when the user chooses, not by Set.
	OnChanged func(index int)

	options  []string
	selected int
	focused  bool
}

var (
	_ fyne.Tappable      = (*Segmented)(nil)
	_ fyne.Focusable     = (*Segmented)(nil)
	_ desktop.Cursorable = (*Segmented)(nil)
)

// NewSegmented makes a choice; selected -1 is none.
func NewSegmented(options []string, selected int, changed func(index int)) *Segmented {
	s := &Segmented{options: options, selected: selected, OnChanged: changed}
	s.ExtendBaseWidget(s)
	return s
}

// Selected is the index of what is chosen, -1 for none.
func (s *Segmented) Selected() int { return s.selected }

// Set chooses without telling.
func (s *Segmented) Set(index int) {
	if index != s.selected {
		s.selected = index
		s.Refresh()
	}
}

func (s *Segmented) choose(index int) {
	if s.Disabled() || index == s.selected || index < 0 || index >= len(s.options) {
		return
	}
	s.Set(index)
	if s.OnChanged != nil {
		s.OnChanged(index)
	}
}

// Tapped implements fyne.Tappable.
func (s *Segmented) Tapped(e *fyne.PointEvent) {
	x := float32(segmentGap)
	for i, w := range s.widths() {
		if x += w; e.Position.X < x {
			s.choose(i)
			return
		}
	}
}

// FocusGained and the next three implement fyne.Focusable.
func (s *Segmented) FocusGained()   { s.focused = true; s.Refresh() }
func (s *Segmented) FocusLost()     { s.focused = false; s.Refresh() }
func (s *Segmented) TypedRune(rune) {}

// TypedKey moves the choice.
func (s *Segmented) TypedKey(e *fyne.KeyEvent) {
	switch e.Name {
	case fyne.KeyLeft, fyne.KeyUp:
		s.choose(s.selected - 1)
	case fyne.KeyRight, fyne.KeyDown:
		s.choose(s.selected + 1)
	case fyne.KeyHome:
		s.choose(0)
	case fyne.KeyEnd:
		s.choose(len(s.options) - 1)
	}
}

// Cursor implements desktop.Cursorable.
func (s *Segmented) Cursor() desktop.Cursor { return desktop.PointerCursor }

const segmentGap = 3

func (s *Segmented) widths() []float32 {
	w := make([]float32, len(s.options))
	for i, o := range s.options {
		w[i] = fyne.MeasureText(o, theme.TextSmall, fyne.TextStyle{Bold: true}).Width + 2*theme.GapM
	}
	return w
}

// CreateRenderer implements fyne.Widget.
func (s *Segmented) CreateRenderer() fyne.WidgetRenderer {
	const height = 34
	ring := focusRing(theme.RadiusSmall)
	track := &canvas.Rectangle{CornerRadius: theme.RadiusSmall}
	chosen := &canvas.Rectangle{CornerRadius: theme.RadiusSmall - 2, StrokeWidth: 1}
	objects := []fyne.CanvasObject{ring, track, chosen}
	words := make([]*canvas.Text, len(s.options))
	for i, o := range s.options {
		words[i] = &canvas.Text{Text: o, TextSize: theme.TextSmall, Alignment: fyne.TextAlignCenter}
		objects = append(objects, words[i])
	}
	total := func() float32 {
		t := float32(2 * segmentGap)
		for _, w := range s.widths() {
			t += w
		}
		return t
	}
	layout := func(size fyne.Size) {
		y := (size.Height - height) / 2
		place(ring, -ringGap, y-ringGap, total()+2*ringGap, height+2*ringGap)
		place(track, 0, y, total(), height)
		x := float32(segmentGap)
		for i, w := range s.widths() {
			h := words[i].MinSize().Height
			place(words[i], x, y+(height-h)/2, w, h)
			if i == s.selected {
				place(chosen, x, y+segmentGap, w, height-2*segmentGap)
			}
			x += w
		}
	}
	return draw(
		func() fyne.Size { return fyne.NewSize(total(), height) },
		layout,
		func() {
			track.FillColor = theme.Color(theme.Raised)
			chosen.FillColor, chosen.StrokeColor = theme.Color(theme.Surface), theme.Color(theme.Strong)
			if s.selected < 0 || s.Disabled() {
				chosen.FillColor, chosen.StrokeColor = color.Transparent, color.Transparent
			}
			for i, w := range words {
				w.Color, w.TextStyle = theme.Color(theme.Muted), fyne.TextStyle{}
				if i == s.selected {
					w.Color, w.TextStyle = theme.Color(theme.Text), fyne.TextStyle{Bold: true}
				}
				if s.Disabled() {
					w.Color = theme.Color(theme.Faint)
				}
			}
			paintRing(ring, s.focused)
			layout(s.Size())
		},
		objects...)
}
