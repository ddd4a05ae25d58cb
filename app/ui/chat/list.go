package chat

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"

	"neuron/app/chat/thread"
	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/chat"
)

// list is the left column: a new chat, a search, and all chats.
type list struct {
	widget.BaseWidget
	p      *Page
	search *searchEntry
	chats  *widget.List
	none   *kit.Text
	undo   *kit.Text
	undoer fyne.CanvasObject
	box    fyne.CanvasObject
	back   *canvas.Rectangle

	groups []vm.Group
	lines  []line
}

// line is a chat of the list, or the heading of a group.
type line struct {
	heading string
	entry   vm.Entry
}

const (
	headingHeight = 34
	entryHeight   = 48
)

func newList(p *Page) *list {
	l := &list{p: p, none: kit.Muted("").Centered(), undo: kit.Muted(""), back: &canvas.Rectangle{}}
	l.search = newSearchEntry(p)
	fresh := kit.Primary(p.t("chat.new"), p.newChat).WithIcon(theme.IconPlus)
	l.chats = widget.NewList(
		func() int { return len(l.lines) },
		func() fyne.CanvasObject { return newEntryRow() },
		func(i widget.ListItemID, o fyne.CanvasObject) { o.(*entryRow).show(l.lines[i]) },
	)
	l.chats.HideSeparators = true
	l.chats.OnSelected = func(i widget.ListItemID) {
		if id := l.lines[i].entry.ID; id != 0 {
			p.model.Open(id)
		}
		l.chats.Unselect(i)
	}
	l.undoer = kit.NewPanel(theme.Raised, theme.Border, theme.RadiusSmall, kit.Inset(theme.GapM, theme.GapS,
		kit.Column(theme.GapXS, l.undo, kit.Beside(0, kit.Spacer(), kit.Secondary(p.t("chat.undo"), p.model.Undo).Compact()))))
	l.undoer.Hide()
	top := kit.Inset(theme.GapM, theme.GapM, kit.Column(theme.GapM, fresh, l.search))
	l.box = container.NewBorder(top, kit.Inset(theme.GapM, theme.GapM, l.undoer), nil, nil,
		container.NewStack(l.chats, kit.Inset(theme.GapL, theme.GapXL, l.none)))
	l.ExtendBaseWidget(l)
	return l
}

// CreateRenderer implements fyne.Widget.
func (l *list) CreateRenderer() fyne.WidgetRenderer {
	l.back.FillColor = theme.Color(theme.Rail)
	return &listDrawing{widget.NewSimpleRenderer(container.NewStack(l.back, l.box)), l}
}

type listDrawing struct {
	fyne.WidgetRenderer
	l *list
}

// Refresh implements fyne.WidgetRenderer: the theme may be another one.
func (d *listDrawing) Refresh() {
	d.l.back.FillColor = theme.Color(theme.Rail)
	d.l.back.Refresh()
	d.WidgetRenderer.Refresh()
}

func (l *list) show(v *vm.View) {
	l.undo.Set(v.Undo)
	if l.undoer.Visible() != (v.Undo != "") {
		if v.Undo != "" {
			l.undoer.Show()
		} else {
			l.undoer.Hide()
		}
		l.Refresh()
	}
	switch {
	case v.NotFound:
		l.none.Set(l.p.t("chat.not_found"))
	case v.NothingMade:
		l.none.Set(l.p.t("chat.none_yet"))
	default:
		l.none.Set("")
	}
	if sameGroups(v.Groups, l.groups) {
		return
	}
	l.groups = v.Groups
	l.lines = l.lines[:0]
	for _, g := range v.Groups {
		l.lines = append(l.lines, line{heading: g.Title})
		l.chats.SetItemHeight(len(l.lines)-1, headingHeight)
		for _, e := range g.Chats {
			l.lines = append(l.lines, line{entry: e})
			l.chats.SetItemHeight(len(l.lines)-1, entryHeight)
		}
	}
	l.chats.Refresh()
}

// sameGroups reports whether b is the very list that a is: the model makes
// another one for each change.
func sameGroups(a, b []vm.Group) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// ids are the chats of the list, for tests.
func (l *list) ids() (out []thread.ID) {
	for _, x := range l.lines {
		if x.entry.ID != 0 {
			out = append(out, x.entry.ID)
		}
	}
	return out
}

// entryRow shows one line.
type entryRow struct {
	widget.BaseWidget
	title, detail, heading *kit.Text
	dot                    *kit.Image
	back                   *canvas.Rectangle
	current                bool
}

func newEntryRow() *entryRow {
	r := &entryRow{title: kit.Line("").Cut(), detail: kit.Caption("").Cut(), heading: kit.Caption(""), dot: kit.NewImage(theme.IconDot, kit.Accent, 14),
		back: &canvas.Rectangle{CornerRadius: theme.RadiusSmall}}
	r.ExtendBaseWidget(r)
	return r
}

func (r *entryRow) show(x line) {
	r.heading.Set(x.heading)
	r.title.Set(x.entry.Title)
	r.detail.Set(x.entry.Detail)
	r.current = x.entry.Current
	switch {
	case x.entry.Busy:
		r.dot.Set(theme.IconBolt, kit.Accent)
	case x.entry.Draft:
		r.dot.Set(theme.IconEdit, kit.Subtle)
	}
	r.dot.Hidden = !x.entry.Busy && !x.entry.Draft
	r.Refresh()
}

func (r *entryRow) CreateRenderer() fyne.WidgetRenderer { return &entryDrawing{r} }

type entryDrawing struct{ r *entryRow }

func (d *entryDrawing) Destroy()           {}
func (d *entryDrawing) MinSize() fyne.Size { return fyne.NewSize(60, headingHeight) }
func (d *entryDrawing) Objects() []fyne.CanvasObject {
	r := d.r
	return []fyne.CanvasObject{r.back, r.heading, r.title, r.detail, r.dot}
}

func (d *entryDrawing) Layout(s fyne.Size) {
	r := d.r
	x := float32(theme.GapL)
	put(r.back, theme.GapS, 1, s.Width-2*theme.GapS, s.Height-2)
	h := r.heading.MinSize()
	put(r.heading, x, s.Height-h.Height-theme.GapXS, s.Width-2*x, h.Height)
	w := s.Width - 2*x
	if !r.dot.Hidden {
		put(r.dot, s.Width-x-14, (s.Height-14)/2, 14, 14)
		w -= 18
	}
	put(r.title, x, 5, w, r.title.MinSize().Height)
	put(r.detail, x, 5+r.title.MinSize().Height, w, r.detail.MinSize().Height)
}

func (d *entryDrawing) Refresh() {
	r := d.r
	r.back.FillColor = theme.Color(theme.AccentTint)
	r.back.Hidden = !r.current
	d.Layout(r.Size())
	for _, o := range d.Objects() {
		o.Refresh()
	}
	canvas.Refresh(r)
}

// searchEntry is the field to search in.
type searchEntry struct {
	widget.Entry
	p *Page
}

func newSearchEntry(p *Page) *searchEntry {
	e := &searchEntry{p: p}
	e.ExtendBaseWidget(e)
	e.PlaceHolder = p.t("chat.search")
	e.OnChanged = p.model.Search
	return e
}

// TypedKey lets Escape end the search.
func (e *searchEntry) TypedKey(k *fyne.KeyEvent) {
	if k.Name == fyne.KeyEscape {
		e.SetText("")
		return
	}
	e.Entry.TypedKey(k)
}

// TypedShortcut implements fyne.Shortcutable.
func (e *searchEntry) TypedShortcut(s fyne.Shortcut) {
	if !e.p.shortcut(s) {
		e.Entry.TypedShortcut(s)
	}
}
