package chat

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/chat"
)

// composer is where a question is written, with who may see it.
type composer struct {
	widget.BaseWidget
	p      *Page
	entry  *questionEntry
	send   *kit.Button
	policy *kit.Segmented
	who    *kit.Text
	hint   *kit.Text
	box    fyne.CanvasObject

	answering bool
}

func newComposer(p *Page) *composer {
	c := &composer{p: p, who: kit.Muted(""), hint: kit.Muted("").SetTone(kit.Warn)}
	c.entry = newQuestionEntry(c)
	c.send = kit.Primary(p.t("chat.send"), c.act).WithIcon(theme.IconSend)
	c.policy = kit.NewSegmented([]string{p.t("chat.public"), p.t("chat.private")}, 0, func(i int) { p.model.SetPrivate(i == 1) })
	c.hint.Hide()
	c.box = kit.NewPanel(theme.Surface, theme.Border, theme.Radius, kit.Inset(theme.GapM, theme.GapM,
		kit.Column(theme.GapS, c.hint, c.entry, container.New(&footer{}, c.policy, c.who, c.send))))
	c.ExtendBaseWidget(c)
	return c
}

func (c *composer) CreateRenderer() fyne.WidgetRenderer { return widget.NewSimpleRenderer(c.box) }

func (c *composer) show(v *vm.View, other bool) {
	if other && c.entry.Text != v.Draft {
		c.entry.quiet = true
		c.entry.SetText(v.Draft)
		c.entry.quiet = false
	}
	c.answering = v.Answering
	if v.Answering {
		c.send.Set(c.p.t("chat.stop"), theme.IconStop)
		c.send.SetKind(kit.KindSecondary)
	} else {
		c.send.Set(c.p.t("chat.send"), theme.IconSend)
		c.send.SetKind(kit.KindPrimary)
	}
	c.send.SetEnabled(v.Answering || v.CanSend)
	c.policy.Set(0)
	if v.Private {
		c.policy.Set(1)
	}
	c.who.Set(v.Policy)
	// The notice above says it already when the engine is gone for good.
	hint := v.Hint
	if v.Engine.Phase == "absent" || v.Answering {
		hint = ""
	}
	if c.hint.Text() != hint {
		c.hint.Set(hint)
		c.hint.Hidden = hint == ""
		c.Refresh()
	}
}

// act is what the button does.
func (c *composer) act() {
	if c.answering {
		c.p.model.Stop()
		return
	}
	if c.p.model.Send(c.entry.Text) {
		c.entry.quiet = true
		c.entry.SetText("")
		c.entry.quiet = false
		c.p.talk.toEnd()
	}
	c.p.env.Window.Canvas().Focus(c.entry)
}

// questionEntry is a field of several lines: Enter sends, Shift+Enter begins a
// line, Escape stops the answer.
type questionEntry struct {
	widget.Entry
	c     *composer
	shift bool
	quiet bool // the text is changed by the program
}

var _ desktop.Keyable = (*questionEntry)(nil)

func newQuestionEntry(c *composer) *questionEntry {
	e := &questionEntry{c: c}
	e.MultiLine = true
	e.Wrapping = fyne.TextWrapWord
	e.ExtendBaseWidget(e)
	e.PlaceHolder = c.p.t("chat.write")
	e.SetMinRowsVisible(3)
	e.OnChanged = func(text string) {
		if !e.quiet {
			c.p.model.SetDraft(text)
		}
	}
	return e
}

// KeyDown and KeyUp implement desktop.Keyable.
func (e *questionEntry) KeyDown(k *fyne.KeyEvent) {
	if k.Name == desktop.KeyShiftLeft || k.Name == desktop.KeyShiftRight {
		e.shift = true
	}
	e.Entry.KeyDown(k)
}

func (e *questionEntry) KeyUp(k *fyne.KeyEvent) {
	if k.Name == desktop.KeyShiftLeft || k.Name == desktop.KeyShiftRight {
		e.shift = false
	}
	e.Entry.KeyUp(k)
}

// FocusLost implements fyne.Focusable.
func (e *questionEntry) FocusLost() {
	e.shift = false // its key may come up elsewhere
	e.Entry.FocusLost()
}

// TypedKey implements fyne.Focusable.
func (e *questionEntry) TypedKey(k *fyne.KeyEvent) {
	switch {
	case (k.Name == fyne.KeyReturn || k.Name == fyne.KeyEnter) && !e.shift:
		if !e.c.answering {
			e.c.act()
		}
	case k.Name == fyne.KeyEscape:
		e.c.p.model.Stop()
	default:
		e.Entry.TypedKey(k)
	}
}

// TypedShortcut implements fyne.Shortcutable.
func (e *questionEntry) TypedShortcut(s fyne.Shortcut) {
	if !e.c.p.shortcut(s) {
		e.Entry.TypedShortcut(s)
	}
}

// newMultiEntry is a field of several lines for dialogs and the sheet.
func newMultiEntry() *widget.Entry {
	e := widget.NewMultiLineEntry()
	e.Wrapping = fyne.TextWrapWord
	return e
}

// AcceptsTab lets Tab go on to the next control; a question needs no tabs.
func (e *questionEntry) AcceptsTab() bool { return false }
