package chat

import (
	"strings"
	"unicode/utf8"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/widget"

	"neuron/app/chat/markdown"
	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
)

// part is a piece of a message that one row shows. A block of many lines makes
// several, so that the text that grows at its end is short.
type part struct {
	kind   markdown.Kind
	level  int
	indent int
	marker string
	lang   string
	text   string
	first  bool // of its block
	// whole is the whole code, for copying; of the first part of code.
	whole func() string
}

// Bounds of a part.
const (
	partBytes = 1500
	partLines = 40
)

// partsOf cuts a block.
func partsOf(b *markdown.Block) []part {
	p := part{kind: b.Kind, level: b.Level, indent: b.Indent, marker: b.Marker, lang: b.Language(), first: true}
	lines := b.Lines
	switch b.Kind {
	case markdown.Table:
		lines = b.Aligned()
		p.whole = func() string { return strings.Join(lines, "\n") }
	case markdown.Code:
		p.whole = func() string { return strings.Join(lines, "\n") }
	case markdown.Rule:
		return []part{p}
	case markdown.Paragraph, markdown.Heading, markdown.Quote, markdown.Item:
	}
	var out []part
	put := func(text string) {
		p.text = text
		out = append(out, p)
		p.first, p.whole = false, nil
	}
	for _, text := range pieces(lines) {
		put(text)
	}
	if len(out) == 0 {
		put("")
	}
	return out
}

// pieces joins lines up to the bounds of a part, and cuts lines that are longer.
func pieces(lines []string) []string {
	var out []string
	var b strings.Builder
	n := 0
	flush := func() {
		if n > 0 {
			out = append(out, b.String())
			b.Reset()
			n = 0
		}
	}
	for _, line := range lines {
		if n == partLines || n > 0 && b.Len()+len(line) > partBytes {
			flush()
		}
		for len(line) > 2*partBytes {
			cut := strings.LastIndexByte(line[:partBytes], ' ')
			if cut <= 0 {
				for cut = partBytes; !utf8.RuneStart(line[cut]); cut-- {
				}
			}
			out = append(out, line[:cut])
			line = strings.TrimPrefix(line[cut:], " ")
		}
		if n > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line)
		n++
	}
	flush()
	return out
}

// blockView shows one part. Parts of the same kind can follow each other in it,
// while an answer grows.
type blockView struct {
	widget.BaseWidget

	part part
	ui   *texts
	body *flow
	mark *kit.Text // of items
	box  fyne.CanvasObject
	bar  *canvas.Rectangle // of quotes
}

// texts are the words that blocks need, and what a link does.
type texts struct {
	copy, copied, code, table string
	onLink                    func(address string)
}

func newBlockView(p part, ui *texts) *blockView {
	v := &blockView{part: p, ui: ui}
	v.ExtendBaseWidget(v)
	switch p.kind {
	case markdown.Heading:
		v.body = newFlow([]float32{19, 17, theme.TextHeading, 15, 15, 15}[min(max(p.level, 1), 6)-1], theme.Text)
		v.body.bold = true
		v.box = v.body
	case markdown.Code, markdown.Table:
		v.body = newFlow(theme.TextSmall, theme.Text)
		v.body.mono = true
		rows := []fyne.CanvasObject{v.body}
		if p.first {
			name := p.lang
			if name == "" {
				if name = ui.code; p.kind == markdown.Table {
					name = ui.table
				}
			}
			copier := kit.CopyButton(ui.copy, ui.copied, func() string { return v.part.whole() })
			rows = []fyne.CanvasObject{kit.Beside(theme.GapS, kit.Caption(name), kit.Spacer(), copier), v.body}
		}
		v.box = kit.NewPanel(theme.Raised, theme.Border, theme.RadiusSmall, kit.Inset(theme.GapM, theme.GapS, kit.Column(theme.GapXS, rows...)))
	case markdown.Quote:
		v.body = newFlow(theme.TextBody, theme.Muted)
		v.bar = &canvas.Rectangle{CornerRadius: 1.5}
		v.box = v.body
	case markdown.Item:
		v.body = newFlow(theme.TextBody, theme.Text)
		v.mark = kit.Line("")
		v.box = v.body
	case markdown.Rule:
		v.body = newFlow(theme.TextBody, theme.Text)
		v.box = kit.Divider()
	case markdown.Paragraph:
		v.body = newFlow(theme.TextBody, theme.Text)
		v.box = v.body
	}
	v.body.onLink = ui.onLink
	v.fill()
	return v
}

// set shows another part of the same kind, and says whether anything has changed.
func (v *blockView) set(p part) bool {
	same := v.part.text == p.text && v.part.marker == p.marker
	v.part = p
	if !same {
		v.fill()
	}
	return !same
}

func (v *blockView) fill() {
	p := v.part
	if v.mark != nil {
		v.mark.Set(p.marker)
	}
	if v.body.mono {
		v.body.set([]markdown.Span{{Text: p.text}})
		return
	}
	v.body.set(markdown.Inline(p.text))
}

// indentOf is how far the text of a part stands to the right.
func (v *blockView) indentOf() float32 {
	x := float32(v.part.indent) * 22
	switch v.part.kind {
	case markdown.Item:
		x += max(22, v.mark.MinSize().Width+8)
	case markdown.Quote:
		x += theme.GapL
	case markdown.Paragraph, markdown.Heading, markdown.Code, markdown.Table, markdown.Rule:
	}
	return x
}

// CreateRenderer implements fyne.Widget.
func (v *blockView) CreateRenderer() fyne.WidgetRenderer {
	d := &blockDrawing{v: v, objects: []fyne.CanvasObject{v.box}}
	if v.mark != nil {
		d.objects = append(d.objects, v.mark)
	}
	if v.bar != nil {
		d.objects = append(d.objects, v.bar)
	}
	d.paint()
	return d
}

type blockDrawing struct {
	v       *blockView
	objects []fyne.CanvasObject
}

func (d *blockDrawing) Destroy()                     {}
func (d *blockDrawing) Objects() []fyne.CanvasObject { return d.objects }
func (d *blockDrawing) MinSize() fyne.Size {
	return fyne.NewSize(d.v.indentOf()+24, d.v.box.MinSize().Height)
}

func (d *blockDrawing) Layout(s fyne.Size) {
	v := d.v
	x := v.indentOf()
	v.box.Move(fyne.NewPos(x, 0))
	v.box.Resize(fyne.NewSize(max(24, s.Width-x), s.Height))
	if v.mark != nil {
		m := v.mark.MinSize()
		m.Height = v.body.lineHeight()
		v.mark.Move(fyne.NewPos(x-8-m.Width, (m.Height-v.mark.MinSize().Height)/2))
		v.mark.Resize(m)
	}
	if v.bar != nil {
		v.bar.Move(fyne.NewPos(x-theme.GapL, 0))
		v.bar.Resize(fyne.NewSize(3, s.Height))
	}
}

func (d *blockDrawing) paint() {
	if d.v.bar != nil {
		d.v.bar.FillColor = theme.Color(theme.Strong)
	}
}

// Refresh implements fyne.WidgetRenderer.
func (d *blockDrawing) Refresh() {
	d.paint()
	for _, o := range d.objects {
		o.Refresh()
	}
	canvas.Refresh(d.v)
}
