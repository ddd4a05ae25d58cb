package chat

import (
	"strings"
	"unicode/utf8"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"

	"neuron/app/chat/markdown"
	"neuron/app/ui/theme"
)

// flow is text in several styles that breaks its lines to its width. Its cost
// grows with the text, unlike a Label's, which grows with the square of it.
type flow struct {
	widget.BaseWidget

	spans  []markdown.Span
	size   float32
	bold   bool
	mono   bool // code: all spaces stay
	color  fyne.ThemeColorName
	onLink func(address string)

	width  float32 // that the lines were broken for
	frags  []frag
	texts  []*canvas.Text      // reused
	backs  []*canvas.Rectangle // behind code in a line, reused
	height float32
	over   string // the link under the pointer
}

// frag is a piece of one line in one style.
type frag struct {
	text       string
	style      markdown.Span // without its text
	x, y, w, h float32
}

var (
	_ fyne.Tappable      = (*flow)(nil)
	_ desktop.Hoverable  = (*flow)(nil)
	_ desktop.Cursorable = (*flow)(nil)
)

func newFlow(size float32, color fyne.ThemeColorName) *flow {
	f := &flow{size: size, color: color}
	f.ExtendBaseWidget(f)
	return f
}

// set changes the text.
func (f *flow) set(spans []markdown.Span) {
	f.spans = spans
	f.breakLines()
	f.Refresh()
}

// text is what is shown, for tests.
func (f *flow) text() string {
	var b strings.Builder
	for _, s := range f.spans {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Resize implements fyne.CanvasObject: another width breaks the lines anew.
func (f *flow) Resize(s fyne.Size) {
	if s.Width != f.width {
		f.width = s.Width
		f.breakLines()
		f.BaseWidget.Resize(s)
		f.Refresh()
		return
	}
	f.BaseWidget.Resize(s)
}

func (f *flow) style(s markdown.Span) fyne.TextStyle {
	return fyne.TextStyle{Bold: s.Bold || f.bold, Italic: s.Italic, Monospace: s.Code || f.mono}
}

func (f *flow) sizeOf(s markdown.Span) float32 {
	if s.Code && !f.mono {
		return f.size - 1
	}
	return f.size
}

func (f *flow) measure(text string, s markdown.Span) float32 {
	return fyne.MeasureText(text, f.sizeOf(s), f.style(s)).Width
}

// lineHeight leaves some air between the lines of prose.
func (f *flow) lineHeight() float32 {
	h := fyne.MeasureText("M", f.size, fyne.TextStyle{Bold: f.bold, Monospace: f.mono}).Height
	if f.mono {
		return h
	}
	return h + 3
}

// breaker places words.
type breaker struct {
	f    *flow
	x, y float32
	line float32 // height
}

func (f *flow) breakLines() {
	f.frags = f.frags[:0]
	b := &breaker{f: f, line: f.lineHeight()}
	for _, s := range f.spans {
		rest := s.Text
		s.Text = ""
		for {
			part, more, found := strings.Cut(rest, "\n")
			b.words(part, s)
			if !found {
				break
			}
			b.newLine()
			rest = more
		}
	}
	f.height = b.y + b.line
}

func (b *breaker) newLine() { b.x, b.y = 0, b.y+b.line }

// words places a text without line breaks, word by word.
func (b *breaker) words(text string, s markdown.Span) {
	if b.f.mono {
		text = strings.ReplaceAll(text, "\t", "    ")
	}
	for text != "" {
		n := len(text) - len(strings.TrimLeft(text, " "))
		blank := text[:n]
		word := text[n:]
		if i := strings.IndexByte(word, ' '); i >= 0 {
			word = word[:i]
		}
		text = text[n+len(word):]
		b.word(blank, word, s)
	}
}

func (b *breaker) word(blank, word string, s markdown.Span) {
	f := b.f
	if b.x == 0 && !f.mono {
		blank = "" // a line of prose begins with a word
	}
	var space float32
	if blank != "" {
		space = f.measure(blank, s)
	}
	w := f.measure(word, s)
	if b.x > 0 && f.width > 0 && b.x+space+w > f.width {
		b.newLine()
		blank, space = "", 0
	}
	for f.width > 0 && b.x+space+w > f.width && word != "" { // longer than a line
		n := f.fitting(word, f.width-b.x-space, s)
		b.put(blank+word[:n], space+f.measure(word[:n], s), s)
		word, blank, space = word[n:], "", 0
		w = f.measure(word, s)
		b.newLine()
	}
	if blank+word != "" {
		b.put(blank+word, space+w, s)
	}
}

// put adds a piece to the line, to the one before it where both look alike.
func (b *breaker) put(text string, w float32, s markdown.Span) {
	f := b.f
	if n := len(f.frags); n > 0 && b.x > 0 {
		if l := &f.frags[n-1]; l.y == b.y && l.style == s {
			l.text += text
			l.w += w
			b.x += w
			return
		}
	}
	f.frags = append(f.frags, frag{text, s, b.x, b.y, w, b.line})
	b.x += w
}

// fitting is how many bytes of whole letters fit, at least one letter.
func (f *flow) fitting(word string, width float32, s markdown.Span) int {
	starts := make([]int, 0, len(word)+1)
	for i := range word {
		starts = append(starts, i)
	}
	starts = append(starts, len(word))
	low, high := 1, len(starts)-1
	if guess := int(width/f.measure("i", s)) + 2; guess < high {
		high = max(low, guess)
	}
	for low < high {
		mid := (low + high + 1) / 2
		if f.measure(word[:starts[mid]], s) <= width {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return starts[low]
}

// link is the address at a place.
func (f *flow) link(at fyne.Position) string {
	for i := range f.frags {
		g := &f.frags[i]
		if g.style.Link != "" && at.X >= g.x && at.X < g.x+g.w && at.Y >= g.y && at.Y < g.y+g.h {
			return g.style.Link
		}
	}
	return ""
}

// Tapped implements fyne.Tappable.
func (f *flow) Tapped(e *fyne.PointEvent) {
	if l := f.link(e.Position); l != "" && f.onLink != nil {
		f.onLink(l)
	}
}

// MouseIn and the next three show a hand over links.
func (f *flow) MouseIn(e *desktop.MouseEvent)    { f.over = f.link(e.Position) }
func (f *flow) MouseMoved(e *desktop.MouseEvent) { f.over = f.link(e.Position) }
func (f *flow) MouseOut()                        { f.over = "" }

// Cursor implements desktop.Cursorable.
func (f *flow) Cursor() desktop.Cursor {
	if f.over != "" {
		return desktop.PointerCursor
	}
	return desktop.DefaultCursor
}

// CreateRenderer implements fyne.Widget.
func (f *flow) CreateRenderer() fyne.WidgetRenderer {
	d := &flowDrawing{f: f}
	d.paint()
	return d
}

type flowDrawing struct {
	f       *flow
	objects []fyne.CanvasObject
}

func (d *flowDrawing) Destroy()                     {}
func (d *flowDrawing) Layout(fyne.Size)             {}
func (d *flowDrawing) MinSize() fyne.Size           { return fyne.NewSize(24, d.f.height) }
func (d *flowDrawing) Objects() []fyne.CanvasObject { return d.objects }

// paint makes the pieces into objects.
func (d *flowDrawing) paint() {
	f := d.f
	d.objects = d.objects[:0]
	texts, backs := 0, 0
	for i := range f.frags {
		g := &f.frags[i]
		if g.style.Code && !f.mono {
			if backs == len(f.backs) {
				f.backs = append(f.backs, &canvas.Rectangle{CornerRadius: 4})
			}
			r := f.backs[backs]
			backs++
			r.FillColor = theme.Color(theme.Raised)
			lead := f.measure(g.text[:len(g.text)-len(strings.TrimLeft(g.text, " "))], g.style)
			r.Move(fyne.NewPos(g.x+lead-2, g.y+1))
			r.Resize(fyne.NewSize(g.w-lead+4, g.h-3))
			d.objects = append(d.objects, r)
		}
		if texts == len(f.texts) {
			f.texts = append(f.texts, &canvas.Text{})
		}
		t := f.texts[texts]
		texts++
		t.Text, t.TextSize, t.TextStyle = strings.ToValidUTF8(g.text, string(utf8.RuneError)), f.sizeOf(g.style), f.style(g.style)
		t.Color = theme.Color(f.color)
		if g.style.Link != "" {
			t.Color = theme.Color(theme.AccentText)
			t.TextStyle.Underline = true
		}
		t.Move(fyne.NewPos(g.x, g.y))
		t.Resize(fyne.NewSize(g.w, g.h))
		d.objects = append(d.objects, t)
	}
}

// Refresh implements fyne.WidgetRenderer.
func (d *flowDrawing) Refresh() {
	d.paint()
	for _, o := range d.objects {
		o.Refresh()
	}
	canvas.Refresh(d.f)
}

// used is the width of the widest line.
func (f *flow) used() float32 {
	var w float32
	for i := range f.frags {
		w = max(w, f.frags[i].x+f.frags[i].w)
	}
	return w
}
