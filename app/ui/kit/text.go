package kit

import (
	"strings"
	"unicode/utf8"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// style is one step of the type scale.
type style struct {
	size  float32
	style fyne.TextStyle
	color fyne.ThemeColorName
}

var (
	styleTitle   = style{theme.TextTitle, fyne.TextStyle{Bold: true}, theme.Text}
	styleHeading = style{theme.TextHeading, fyne.TextStyle{Bold: true}, theme.Text}
	styleNumber  = style{theme.TextNumber, fyne.TextStyle{Bold: true}, theme.Text}
	styleStrong  = style{theme.TextBody, fyne.TextStyle{Bold: true}, theme.Text}
	styleBody    = style{theme.TextBody, fyne.TextStyle{}, theme.Text}
	styleMuted   = style{theme.TextSmall, fyne.TextStyle{}, theme.Muted}
	styleCaption = style{theme.TextCaption, fyne.TextStyle{}, theme.Muted}
	styleMono    = style{theme.TextSmall, fyne.TextStyle{Monospace: true}, theme.Text}
)

// Text is words in one style. Wrapped text breaks its lines to the width that it
// gets and grows downwards; other text is one line, cut with an ellipsis where
// it may be cut. For texts of up to a few thousand characters.
type Text struct {
	widget.BaseWidget

	style style
	tone  Tone
	text  string
	wrap  bool
	cut   bool
	align fyne.TextAlign

	width float32 // that the lines were broken for
	lines []*canvas.Text
}

// Title is a page's heading.
func Title(s string) *Text { return newText(styleTitle, s, false) }

// Heading is a card's.
func Heading(s string) *Text { return newText(styleHeading, s, false) }

// Number is a figure that stands alone; digits have one width.
func Number(s string) *Text { return newText(styleNumber, s, false) }

// Line is one line of text.
func Line(s string) *Text { return newText(styleBody, s, false) }

// Strong is one in bold.
func Strong(s string) *Text { return newText(styleStrong, s, false) }

// Caption is one line of small text.
func Caption(s string) *Text { return newText(styleCaption, s, false) }

// Sentence is wrapped text.
func Sentence(s string) *Text { return newText(styleBody, s, true) }

// Muted is the same for explanations.
func Muted(s string) *Text { return newText(styleMuted, s, true) }

// Mono is one line with letters of one width.
func Mono(s string) *Text { return newText(styleMono, s, false) }

func newText(st style, s string, wrap bool) *Text {
	t := &Text{style: st, text: s, wrap: wrap}
	t.ExtendBaseWidget(t)
	t.breakLines()
	return t
}

// Set changes the words; equal ones cost nothing.
func (t *Text) Set(s string) {
	if s == t.text {
		return
	}
	t.text = s
	t.breakLines()
	t.Refresh()
}

// Text is what is shown.
func (t *Text) Text() string { return t.text }

// SetTone changes the colour to a tone's; Plain is that of the style.
func (t *Text) SetTone(tone Tone) *Text {
	if tone != t.tone {
		t.tone = tone
		t.Refresh()
	}
	return t
}

// Centered puts the lines in the middle.
func (t *Text) Centered() *Text { t.align = fyne.TextAlignCenter; t.Refresh(); return t }

// Trailing puts the lines to the right.
func (t *Text) Trailing() *Text { t.align = fyne.TextAlignTrailing; t.Refresh(); return t }

// Cut lets the line be shortened with an ellipsis where there is no room.
func (t *Text) Cut() *Text { t.cut = true; t.breakLines(); return t }

// grows says that the text takes what room there is in a row.
func (t *Text) grows() bool { return t.wrap || t.cut }

func (t *Text) measure(s string) float32 {
	return fyne.MeasureText(s, t.style.size, t.style.style).Width
}

// Resize implements fyne.CanvasObject: another width breaks the lines anew.
func (t *Text) Resize(s fyne.Size) {
	if (t.wrap || t.cut) && s.Width != t.width {
		t.width = s.Width
		t.breakLines()
		t.BaseWidget.Resize(s)
		t.Refresh()
		return
	}
	t.BaseWidget.Resize(s)
}

func (t *Text) breakLines() {
	var broken []string
	switch {
	case t.wrap && t.width > 0:
		for _, paragraph := range strings.Split(t.text, "\n") {
			broken = t.breakParagraph(broken, paragraph)
		}
	case t.wrap:
		broken = strings.Split(t.text, "\n")
	case t.cut && t.width > 0:
		broken = []string{t.shorten(t.text)}
	default:
		broken = []string{t.text}
	}
	for len(t.lines) < len(broken) {
		t.lines = append(t.lines, &canvas.Text{TextSize: t.style.size, TextStyle: t.style.style})
	}
	t.lines = t.lines[:len(broken)]
	for i, s := range broken {
		t.lines[i].Text = s
	}
}

// edge is how close to the end of a line its width is measured as a whole: words
// and spaces together are a little wider or narrower than their sum, most of all
// where letters come from another font.
const edge = 24

// breakParagraph adds the lines of one paragraph.
func (t *Text) breakParagraph(lines []string, s string) []string {
	if s == "" || t.measure(s) <= t.width {
		return append(lines, s)
	}
	space := t.measure(" ")
	var line strings.Builder
	var used float32
	flush := func() {
		lines = append(lines, line.String())
		line.Reset()
		used = 0
	}
	for _, word := range strings.Split(s, " ") {
		w := t.measure(word)
		if line.Len() > 0 {
			next := used + space + w
			if next > t.width-edge {
				next = t.measure(line.String() + " " + word)
			}
			if next > t.width {
				flush()
			} else {
				line.WriteByte(' ')
				used = next - w
			}
		}
		for w > t.width && word != "" { // a word longer than a line
			n := t.fitting(word, t.width-used)
			if n == 0 {
				if line.Len() > 0 {
					flush()
					continue
				}
				_, n = utf8.DecodeRuneInString(word)
			}
			line.WriteString(word[:n])
			word = word[n:]
			flush()
			w = t.measure(word)
		}
		line.WriteString(word)
		used += w
	}
	flush()
	return lines
}

// fitting is how many bytes of whole letters fit into a width.
func (t *Text) fitting(s string, width float32) int {
	var starts []int
	for i := range s {
		starts = append(starts, i)
	}
	starts = append(starts, len(s))
	low, high := 0, len(starts)-1
	for low < high {
		mid := (low + high + 1) / 2
		if t.measure(s[:starts[mid]]) <= width {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return starts[low]
}

func (t *Text) shorten(s string) string {
	if t.measure(s) <= t.width {
		return s
	}
	const ellipsis = "…"
	return strings.TrimRight(s[:t.fitting(s, t.width-t.measure(ellipsis))], " ") + ellipsis
}

// CreateRenderer implements fyne.Widget.
func (t *Text) CreateRenderer() fyne.WidgetRenderer {
	d := &textDrawing{t: t}
	d.paint()
	return d
}

type textDrawing struct{ t *Text }

func (d *textDrawing) Destroy() {}

func (d *textDrawing) Objects() []fyne.CanvasObject {
	objects := make([]fyne.CanvasObject, len(d.t.lines))
	for i, l := range d.t.lines {
		objects[i] = l
	}
	return objects
}

func (d *textDrawing) Layout(s fyne.Size) {
	h := lineHeight(d.t.style.size, d.t.style.style)
	for i, l := range d.t.lines {
		place(l, 0, float32(i)*h, s.Width, h)
	}
}

func (d *textDrawing) MinSize() fyne.Size {
	t := d.t
	h := lineHeight(t.style.size, t.style.style) * float32(len(t.lines))
	if t.grows() {
		return fyne.NewSize(24, h)
	}
	return fyne.NewSize(t.measure(t.text), h)
}

func (d *textDrawing) paint() {
	c := theme.Color(d.t.style.color)
	if d.t.tone != Plain {
		c = theme.Color(d.t.tone.text())
	}
	for _, l := range d.t.lines {
		l.Color, l.Alignment = c, d.t.align
	}
}

func (d *textDrawing) Refresh() {
	d.paint()
	d.Layout(d.t.Size())
	for _, l := range d.t.lines {
		l.Refresh()
	}
	canvas.Refresh(d.t)
}
