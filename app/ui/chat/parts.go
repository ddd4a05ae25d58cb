package chat

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/chat"
)

// columns puts the list at the left, the chat in the middle, and the sheet at the
// right, where it is visible. A narrow window has no room for the list beside
// the sheet.
type columns struct{}

const (
	listWidth  = 250
	sheetWidth = 320
	leastTalk  = 380
)

func (*columns) MinSize([]fyne.CanvasObject) fyne.Size {
	return fyne.NewSize(leastTalk+listWidth, 420)
}

func (*columns) Layout(o []fyne.CanvasObject, s fyne.Size) {
	list, talk, side := o[0], o[1], o[2]
	left, right := float32(listWidth), float32(0)
	if side.Visible() {
		right = min(sheetWidth, s.Width-leastTalk)
		if s.Width-right-left < leastTalk {
			left = 0
		}
	}
	put(list, 0, 0, left, s.Height)
	put(talk, left, 0, s.Width-left-right, s.Height)
	put(side, s.Width-right, 0, right, s.Height)
}

func put(o fyne.CanvasObject, x, y, w, h float32) {
	o.Move(fyne.NewPos(x, y))
	o.Resize(fyne.NewSize(w, h))
}

// floating puts the second object over the lower end of the first.
type floating struct{}

func (*floating) MinSize(o []fyne.CanvasObject) fyne.Size { return o[0].MinSize() }

func (*floating) Layout(o []fyne.CanvasObject, s fyne.Size) {
	o[0].Resize(s)
	m := o[1].MinSize()
	put(o[1], (s.Width-m.Width)/2, s.Height-m.Height-theme.GapM, m.Width, m.Height)
}

// footer puts a switch, words and a button beside each other, or the words below
// where there is little room.
type footer struct{ width float32 }

const wideFooter = 560

func (f *footer) MinSize(o []fyne.CanvasObject) fyne.Size {
	line := max(o[0].MinSize().Height, o[2].MinSize().Height)
	words := o[1].MinSize().Height
	if f.width < wideFooter {
		return fyne.NewSize(o[0].MinSize().Width+theme.GapM+o[2].MinSize().Width, line+theme.GapS+words)
	}
	return fyne.NewSize(o[0].MinSize().Width+theme.GapM+o[2].MinSize().Width, max(line, words))
}

func (f *footer) Layout(o []fyne.CanvasObject, s fyne.Size) {
	f.width = s.Width
	a, b := o[0].MinSize(), o[2].MinSize()
	line := max(a.Height, b.Height)
	x, y, w := a.Width+theme.GapM, float32(0), s.Width-a.Width-b.Width-2*theme.GapM
	if s.Width < wideFooter {
		x, y, w = 0, line+theme.GapS, s.Width
	} else {
		line = max(line, s.Height)
	}
	put(o[0], 0, (line-a.Height)/2, a.Width, a.Height)
	put(o[2], s.Width-b.Width, (line-b.Height)/2, b.Width, b.Height)
	put(o[1], x, y, w, o[1].MinSize().Height)
	h := o[1].MinSize().Height // with the lines of this width
	if s.Width >= wideFooter {
		y = (line - h) / 2
	}
	put(o[1], x, y, w, h)
}

// bar is a notice that is there only when there is something to say.
type bar struct {
	notice *kit.Notice
	box    *fyne.Container
}

func newBar(tone kit.Tone, actions ...fyne.CanvasObject) *bar {
	b := &bar{notice: kit.NewNotice(tone, "", "", actions...)}
	b.box = container.NewStack(b.notice)
	b.box.Hide()
	return b
}

func (b *bar) show(text, remedy string) {
	if text == "" {
		b.box.Hide()
		return
	}
	b.notice.Set(kit.Warn, text, remedy)
	b.box.Show()
}

// head is above the chat: its title, who answers, and what can be done with it.
type head struct {
	widget.BaseWidget
	p      *Page
	title  *kit.Text
	models *widget.Select
	ids    []string // of the options of models
	more   *kit.Button
	box    fyne.CanvasObject
}

func newHead(p *Page) *head {
	h := &head{p: p, title: kit.Heading("").Cut()}
	var choice fyne.CanvasObject
	h.models, choice = kit.NewSelect(220, nil, -1, func(i int) {
		if i >= 0 && i < len(h.ids) && h.ids[i] != p.view.Model {
			p.model.SetModel(h.ids[i])
		}
	})
	h.models.PlaceHolder = p.t("chat.model")
	settings := kit.Quiet("", func() { p.sheet.open(!p.sheet.Visible()) }).WithIcon(theme.IconSettings)
	h.more = kit.Quiet("", h.menu).WithIcon(theme.IconMore)
	h.box = kit.Inset(sideGap, theme.GapM, kit.Beside(theme.GapS, h.title, choice, settings, h.more))
	h.ExtendBaseWidget(h)
	return h
}

func (h *head) CreateRenderer() fyne.WidgetRenderer { return widget.NewSimpleRenderer(h.box) }

func (h *head) show(v *vm.View) {
	h.title.Set(v.Title)
	h.more.SetEnabled(v.Stored)
	var labels []string
	h.ids = h.ids[:0]
	selected := -1
	for i, m := range v.Models {
		labels = append(labels, m.Label)
		h.ids = append(h.ids, m.ID)
		if m.ID == v.Model {
			selected = i
		}
	}
	same := len(labels) == len(h.models.Options)
	for i := range labels {
		same = same && labels[i] == h.models.Options[i]
	}
	if !same {
		h.models.SetOptions(labels)
	}
	if selected >= 0 && h.models.Selected != labels[selected] {
		h.models.SetSelectedIndex(selected)
	}
}

func (h *head) menu() {
	p := h.p
	items := []*fyne.MenuItem{
		fyne.NewMenuItem(p.t("chat.rename"), p.rename),
		fyne.NewMenuItem(p.t("chat.export_md"), func() { p.export(vm.ExportMarkdown) }),
		fyne.NewMenuItem(p.t("chat.export_json"), func() { p.export(vm.ExportJSON) }),
		fyne.NewMenuItemSeparator(),
		fyne.NewMenuItem(p.t("chat.delete"), func() { p.model.Delete(p.view.Chat) }),
	}
	c := p.env.Window.Canvas()
	at := fyne.CurrentApp().Driver().AbsolutePositionForObject(h.more)
	menu := widget.NewPopUpMenu(fyne.NewMenu("", items...), c)
	menu.ShowAtPosition(fyne.NewPos(at.X+h.more.Size().Width-menu.MinSize().Width, at.Y+h.more.Size().Height))
}

// strip tells of the route of the answer.
type strip struct {
	widget.BaseWidget
	phase *kit.Badge
	kind  *kit.Badge
	hops  []*kit.Badge
	fact  *kit.Text
	words *kit.Text // before the hops
	box   *fyne.Container
}

func newStrip() *strip {
	s := &strip{phase: kit.NewBadge(kit.Accent, theme.IconLoad, ""), kind: kit.NewBadge(kit.Plain, theme.IconNetwork, ""), fact: kit.Caption(""), words: kit.Caption("")}
	s.box = kit.Wrapped(theme.GapS, s.phase, s.kind, s.fact)
	s.ExtendBaseWidget(s)
	s.Hide()
	return s
}

func (s *strip) CreateRenderer() fyne.WidgetRenderer { return widget.NewSimpleRenderer(s.box) }

func (s *strip) show(v *vm.Strip) {
	if v == nil {
		s.Hide()
		return
	}
	tone, icon := kit.Good, theme.IconGood
	switch {
	case v.Running:
		tone, icon = kit.Accent, theme.IconBolt
	case v.Failed:
		tone, icon = kit.Bad, theme.IconBad
	}
	s.phase.Set(tone, icon, v.Phase)
	icon = theme.IconNetwork
	if v.Private {
		icon = theme.IconLock
	}
	s.kind.Set(kit.Subtle, icon, v.Kind)
	for len(s.hops) < len(v.Hops) {
		s.hops = append(s.hops, kit.NewBadge(kit.Plain, theme.IconCPU, ""))
	}
	s.hops = s.hops[:len(v.Hops)]
	objects := []fyne.CanvasObject{s.phase, s.kind}
	if len(v.Hops) > 0 {
		s.words.Set(v.Layers)
		objects = append(objects, s.words)
	}
	for i, h := range v.Hops {
		text, tone, icon := h.Layers, kit.Plain, theme.IconCPU
		for _, more := range []string{h.Time, h.Health} {
			if more != "" {
				text += " · " + more
			}
		}
		if h.Bad {
			tone, icon = kit.Warn, theme.IconWarn
		}
		s.hops[i].Set(tone, icon, text)
		objects = append(objects, s.hops[i])
	}
	text := ""
	for i, f := range v.Figures {
		if i > 0 {
			text += " · "
		}
		text += f
	}
	s.fact.Set(text)
	objects = append(objects, s.fact)
	s.box.Objects = objects
	s.box.Refresh()
	s.Show()
}
