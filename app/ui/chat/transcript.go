package chat

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// slot is one row of a transcript. Its object is made when it comes near what is
// visible; until then its height is a guess.
type slot struct {
	build  func() fyne.CanvasObject
	gap    float32 // above
	guess  float32 // height, while it is not measured
	object fyne.CanvasObject

	measured bool // guess is the height for the transcript's width
	y        float32
}

// stale says that the row may have another height now.
func (s *slot) stale() { s.measured = false }

// transcript shows rows below each other, of which only those near the visible
// part exist as objects: Fyne walks through all objects for each frame. It stays
// at its end while rows grow, unless the reader has scrolled away from there.
type transcript struct {
	widget.BaseWidget

	scroll *container.Scroll
	body   *rows
	slots  []*slot
	width  float32 // of rows, that measured heights are for
	follow bool
	busy   bool // arrange moves the scroll itself
	// onFollow is called when follow changes.
	onFollow func(following bool)
}

const (
	readable  = 760 // width of rows
	sideGap   = theme.GapXL
	nearby    = 400 // rows this far outside exist too
	atEnd     = 24  // so far from the end counts as at it
	maxPasses = 10
)

func newTranscript() *transcript {
	t := &transcript{body: &rows{}, follow: true}
	t.body.ExtendBaseWidget(t.body)
	t.scroll = container.NewVScroll(t.body)
	t.scroll.OnScrolled = func(p fyne.Position) {
		if t.busy {
			return
		}
		t.setFollow(p.Y+t.scroll.Size().Height >= t.body.total-atEnd)
		t.arrange()
	}
	t.ExtendBaseWidget(t)
	return t
}

func (t *transcript) setFollow(on bool) {
	if t.follow != on {
		t.follow = on
		if t.onFollow != nil {
			t.onFollow(on)
		}
	}
}

// set shows other rows. Rows that were there keep their objects, and the first
// visible one its place on the screen.
func (t *transcript) set(slots []*slot) {
	anchor, delta := t.anchor()
	t.slots = slots
	t.arrangeAt(anchor, delta)
}

// toEnd shows the end, and follows it.
func (t *transcript) toEnd() {
	t.setFollow(true)
	t.arrange()
}

// anchor is the first row that is visible, and how far it is below the top.
func (t *transcript) anchor() (*slot, float32) {
	top := t.scroll.Offset.Y
	for _, s := range t.slots {
		if s.y+s.guess > top {
			return s, s.y - top
		}
	}
	return nil, 0
}

func (t *transcript) arrange() { t.arrangeAt(t.anchor()) }

// arrangeAt measures what is visible, and places it so that the anchor stays, or
// the end is seen.
func (t *transcript) arrangeAt(anchor *slot, delta float32) {
	view := t.scroll.Size()
	if view.Width <= 0 || view.Height <= 0 || t.busy {
		return
	}
	t.busy = true
	defer func() { t.busy = false }()
	width := max(40, min(readable, view.Width-2*sideGap))
	if width != t.width {
		t.width = width
		for _, s := range t.slots {
			s.stale()
		}
	}
	left := (view.Width - width) / 2
	var offset float32
	var visible []fyne.CanvasObject
	for range maxPasses {
		total := t.place()
		offset = t.scroll.Offset.Y
		if anchor != nil {
			offset = anchor.y - delta
		}
		if t.follow {
			offset = total
		}
		offset = max(0, min(offset, total-view.Height))
		t.body.total = total
		visible = visible[:0]
		again := false
		for _, s := range t.slots {
			if s.y+s.guess < offset-nearby || s.y > offset+view.Height+nearby {
				continue
			}
			again = t.measure(s) || again
			s.object.Move(fyne.NewPos(left, s.y))
			visible = append(visible, s.object)
		}
		if !again {
			break
		}
	}
	t.body.objects = visible
	t.scroll.Offset.Y = offset
	t.body.Resize(fyne.NewSize(view.Width, max(t.body.total, view.Height)))
	t.scroll.Refresh()
}

// place gives every row its place, and returns the height of all.
func (t *transcript) place() float32 {
	y := float32(theme.GapL)
	for _, s := range t.slots {
		y += s.gap
		s.y = y
		y += s.guess
	}
	return y + theme.GapXL
}

// measure makes a row's object and gives it its height, and says whether that is
// another one than was thought.
func (t *transcript) measure(s *slot) bool {
	if s.measured {
		return false
	}
	if s.object == nil {
		s.object = s.build()
	}
	h := s.object.MinSize().Height
	s.object.Resize(fyne.NewSize(t.width, h))
	if again := s.object.MinSize().Height; again != h {
		h = again
		s.object.Resize(fyne.NewSize(t.width, h))
	}
	changed := h != s.guess
	s.guess, s.measured = h, true
	return changed
}

// Resize implements fyne.CanvasObject.
func (t *transcript) Resize(s fyne.Size) {
	t.BaseWidget.Resize(s)
	t.scroll.Resize(s)
	t.arrange()
}

// CreateRenderer implements fyne.Widget.
func (t *transcript) CreateRenderer() fyne.WidgetRenderer {
	return widget.NewSimpleRenderer(t.scroll)
}

// rows is what scrolls.
type rows struct {
	widget.BaseWidget
	objects []fyne.CanvasObject
	total   float32
}

func (r *rows) CreateRenderer() fyne.WidgetRenderer { return &rowsDrawing{r} }

type rowsDrawing struct{ r *rows }

func (d *rowsDrawing) Destroy()                     {}
func (d *rowsDrawing) Layout(fyne.Size)             {}
func (d *rowsDrawing) MinSize() fyne.Size           { return fyne.NewSize(40, d.r.total) }
func (d *rowsDrawing) Objects() []fyne.CanvasObject { return d.r.objects }
func (d *rowsDrawing) Refresh()                     { canvas.Refresh(d.r) }
