package chat

import (
	"slices"
	"strings"

	"fyne.io/fyne/v2"

	"neuron/app/chat/markdown"
	"neuron/app/chat/thread"
	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/chat"
)

// messageRows are the rows of one message. They are kept from one view to the
// next, so that only what has grown is made anew.
type messageRows struct {
	shown vm.Message
	last  bool
	slots []*slot

	// Of answers: the text so far in blocks, and their rows.
	split  markdown.Splitter
	fed    string
	frozen int // blocks whose rows are final
	final  int // rows of them
	blocks []*blockRow
	head   *slot
}

// blockRow is the row of one part of an answer.
type blockRow struct {
	slot
	part part
	view *blockView // nil until it is near what is visible
}

// update brings the row to another part of the same kind.
func (b *blockRow) update(p part) {
	if b.view != nil {
		if b.view.set(p) {
			b.stale()
		}
	} else if b.part.text != p.text {
		b.guess = guess(p)
	}
	b.part = p
}

// guess is about the height of a part.
func guess(p part) float32 {
	const letter, line = 7, 21
	lines := float32(strings.Count(p.text, "\n") + 1 + len(p.text)*letter/readable)
	h := lines * line
	if p.kind == markdown.Code || p.kind == markdown.Table {
		h += 50
	}
	return h
}

// rowsOf are the rows of a message.
func (p *Page) rowsOf(m *vm.Message, last bool) []*slot {
	r := p.messages[m.ID]
	if r == nil {
		r = &messageRows{}
		p.messages[m.ID] = r
	} else if r.last == last && same(&r.shown, m) {
		return r.slots
	}
	r.shown, r.last = *m, last
	if m.User {
		r.slots = p.questionRows(m)
	} else {
		r.slots = p.answerRows(r, m)
	}
	return r.slots
}

func same(a, b *vm.Message) bool {
	if (a.Problem == nil) != (b.Problem == nil) || a.Problem != nil &&
		(a.Problem.Text != b.Problem.Text || a.Problem.Remedy != b.Problem.Remedy || !slices.Equal(a.Problem.Ways, b.Problem.Ways)) {
		return false
	}
	x, y := *a, *b
	x.Problem, y.Problem = nil, nil
	return x == y
}

// questionRows show what the user has asked as it is, without marks.
func (p *Page) questionRows(m *vm.Message) []*slot {
	var out []*slot
	for i, text := range pieces(strings.Split(m.Text, "\n")) {
		s := &slot{guess: guess(part{text: text}) + 2*theme.GapM, gap: 2, build: func() fyne.CanvasObject { return newBubble(text) }}
		if i == 0 {
			s.gap = theme.GapXL
		}
		out = append(out, s)
	}
	id, text := m.ID, m.Text
	place, of := m.Place, m.Of
	return append(out, &slot{guess: 30, gap: theme.GapXS, build: func() fyne.CanvasObject {
		row := []fyne.CanvasObject{kit.Spacer()}
		row = append(row, p.versions(id, place, of)...)
		row = append(row, kit.CopyButton(p.t("chat.copy"), p.t("chat.copied"), func() string { return text }),
			kit.Quiet(p.t("chat.edit"), func() { p.edit(id, text) }).WithIcon(theme.IconEdit).Compact())
		return kit.Beside(2, row...)
	}})
}

func (p *Page) answerRows(r *messageRows, m *vm.Message) []*slot {
	if r.head == nil {
		name := m.Name
		r.head = &slot{guess: 18, gap: theme.GapL, build: func() fyne.CanvasObject { return kit.Caption(name).Cut() }}
	}
	out := []*slot{r.head}
	p.feed(r, m.Text)
	for _, b := range r.blocks {
		out = append(out, &b.slot)
	}
	add := func(gap, guess float32, build func() fyne.CanvasObject) {
		out = append(out, &slot{gap: gap, guess: guess, build: build})
	}
	if m.Writing {
		if m.Text == "" {
			add(theme.GapS, 20, func() fyne.CanvasObject { return kit.Line("…").SetTone(kit.Subtle) })
		}
		return out
	}
	if note := m.Note; note != "" {
		add(theme.GapS, 20, func() fyne.CanvasObject {
			return kit.Beside(theme.GapS, kit.NewImage(theme.IconWarn, kit.Warn, 16), kit.Muted(note))
		})
	}
	if problem := m.Problem; problem != nil {
		id := m.ID
		add(theme.GapM, 90, func() fyne.CanvasObject { return p.problem(id, problem) })
	}
	// The card with a problem offers the same.
	id, text, place, of, again := m.ID, m.Text, m.Place, m.Of, r.last && m.Problem == nil
	add(theme.GapXS, 30, func() fyne.CanvasObject {
		row := p.versions(id, place, of)
		if text != "" {
			row = append(row, kit.CopyButton(p.t("chat.copy"), p.t("chat.copied"), func() string { return text }))
		}
		if again {
			row = append(row, kit.Quiet(p.t("chat.regenerate"), func() { p.model.Regenerate(id) }).WithIcon(theme.IconRefresh).Compact())
		}
		if len(row) == 0 {
			row = append(row, kit.Spacer())
		}
		return kit.Beside(2, row...)
	})
	return out
}

// feed brings an answer's rows to its text, which as a rule is the one before
// with more at its end.
func (p *Page) feed(r *messageRows, text string) {
	if !strings.HasPrefix(text, r.fed) {
		r.split, r.fed, r.frozen, r.final, r.blocks = markdown.Splitter{}, "", 0, 0, nil
	}
	r.split.Write(text[len(r.fed):])
	r.fed = text
	blocks, frozen := r.split.Blocks()
	at := r.final
	for i := r.frozen; i < len(blocks); i++ {
		if i == frozen {
			r.final = at
		}
		for _, q := range partsOf(&blocks[i]) {
			p.row(r, at, i == 0 || q.kind == markdown.Item && blocks[i-1].Kind == markdown.Item, q)
			at++
		}
	}
	if frozen == len(blocks) {
		r.final = at
	}
	r.frozen = frozen
	r.blocks = r.blocks[:at]
}

// row puts a part into the row with a number.
func (p *Page) row(r *messageRows, at int, close bool, q part) {
	if at < len(r.blocks) {
		if b := r.blocks[at]; b.takes(q) {
			b.update(q)
			return
		}
		r.blocks = r.blocks[:at]
	}
	b := &blockRow{part: q}
	b.guess = guess(q)
	b.gap = theme.GapM
	switch {
	case !q.first:
		b.gap = 0
	case q.kind == markdown.Heading:
		b.gap = theme.GapL
	case close:
		b.gap = theme.GapXS
	}
	b.build = func() fyne.CanvasObject {
		b.view = newBlockView(b.part, p.texts)
		return b.view
	}
	r.blocks = append(r.blocks, b)
}

func (b *blockRow) takes(q part) bool {
	o := b.part
	return o.kind == q.kind && o.level == q.level && o.indent == q.indent && o.lang == q.lang && o.first == q.first
}

// versions lead to the other versions of a message.
func (p *Page) versions(id thread.ID, place, of int) []fyne.CanvasObject {
	if of < 2 {
		return nil
	}
	back := kit.Quiet("", func() { p.model.Branch(id, -1) }).WithIcon(theme.IconLeft).Compact()
	back.SetEnabled(place > 1)
	on := kit.Quiet("", func() { p.model.Branch(id, 1) }).WithIcon(theme.IconRight).Compact()
	on.SetEnabled(place < of)
	return []fyne.CanvasObject{back, kit.Caption(p.t("chat.version", "Place", place, "Of", of)), on}
}

// problem is the card with what went wrong, and the ways out.
func (p *Page) problem(id thread.ID, e *vm.Problem) fyne.CanvasObject {
	var buttons []fyne.CanvasObject
	for i, way := range e.Ways {
		b := kit.Secondary(p.model.Label(way), func() { p.take(id, way) }).Compact()
		if i == 0 && way == vm.WayAgain {
			b.WithIcon(theme.IconRefresh)
		}
		buttons = append(buttons, b)
	}
	words := []fyne.CanvasObject{kit.Sentence(e.Text)}
	if e.Remedy != "" {
		words = append(words, kit.Muted(e.Remedy))
	}
	if len(buttons) > 0 {
		words = append(words, kit.Inset(0, theme.GapXS, kit.Wrapped(theme.GapS, buttons...)))
	}
	return kit.NewPanel(theme.BadTint, "", theme.Radius, kit.Inset(theme.GapL, theme.GapM,
		kit.Beside(theme.GapM, kit.NewImage(theme.IconWarn, kit.Bad, 20), kit.Grow(kit.Column(theme.GapXS, words...)))))
}

// take goes a way out.
func (p *Page) take(id thread.ID, way vm.Way) {
	switch way {
	case vm.WayAgain:
		p.model.Regenerate(id)
	case vm.WayPublic:
		p.model.RegeneratePublic(id)
	case vm.WayNewChat:
		p.newChat()
	case vm.WayParams:
		p.sheet.open(true)
	case vm.WayModels, vm.WayNetwork, vm.WaySettings, vm.WayEarnings:
		p.env.Open(string(way))
	}
}
