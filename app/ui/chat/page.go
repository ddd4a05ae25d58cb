// Package chat is the chat page: its widgets, and nothing that has to be
// decided, which is in app/viewmodel/chat. The shell imports it.
package chat

import (
	"context"
	"io"
	"path/filepath"
	"slices"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/dialog"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/storage"

	"neuron/app/chat/thread"
	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/chat"
)

// Page is the chat page. Its methods are called on the UI goroutine.
type Page struct {
	env   *page.Env
	model *vm.Model
	view  vm.View // that is shown
	stop  func()  // ends following the model, nil while hidden

	content  fyne.CanvasObject
	list     *list
	head     *head
	notice   *bar // about the file of the chats
	engine   *bar // about the engine
	middle   *kit.One
	empty    fyne.CanvasObject
	talk     *transcript
	newest   *kit.Button
	strip    *strip
	composer *composer
	sheet    *sheet

	texts    *texts
	messages map[thread.ID]*messageRows
	older    int // that the row above was made for
	above    *slot

	// save asks where to put a file. Tests have their own.
	save func(name string, write func(io.Writer) error)
}

var _ page.Page = (*Page)(nil)

// New makes the page and begins to read the chats.
func New(env *page.Env) page.Page {
	return newPage(env, vm.Linked{Link: env.Link})
}

func newPage(env *page.Env, engine vm.Engine) *Page {
	p := &Page{env: env, messages: map[thread.ID]*messageRows{}}
	p.model = vm.New(vm.Options{
		File: filepath.Join(env.Data, "window", "chats.db"), Engine: engine, Words: env.Words, Now: env.Now,
	})
	p.save = p.saveFile
	return p
}

// Name implements page.Page.
func (p *Page) Name() string { return "chat" }

// Title implements page.Page.
func (p *Page) Title() string { return p.t("chat.title") }

// Icon implements page.Page.
func (p *Page) Icon() fyne.Resource { return theme.IconChat.Resource(theme.Text) }

// t is a text.
func (p *Page) t(id string, pairs ...any) string { return p.env.Words.T(id, pairs...) }

// Content implements page.Page.
func (p *Page) Content() fyne.CanvasObject {
	if p.content != nil {
		return p.content
	}
	p.texts = &texts{copy: p.t("chat.copy"), copied: p.t("chat.copied"), code: p.t("chat.code"), table: p.t("chat.table"), onLink: p.link}
	p.list = newList(p)
	p.head = newHead(p)
	p.sheet = newSheet(p)
	p.notice = newBar(kit.Warn, kit.Quiet("", p.model.DismissNotice).WithIcon(theme.IconClose).Compact())
	start := kit.Primary(p.t("chat.engine_start"), p.model.StartEngine).Compact()
	p.engine = newBar(kit.Warn, start)
	p.empty = container.NewCenter(kit.Fixed(520, kit.Empty(theme.IconChat, p.t("chat.empty"), p.t("chat.empty_text"))))
	p.talk = newTranscript()
	p.newest = kit.Secondary(p.t("chat.newest"), p.talk.toEnd).WithIcon(theme.IconDown).Compact()
	p.newest.Hide()
	p.talk.onFollow = func(following bool) {
		if p.newest.Visible() == following {
			if following {
				p.newest.Hide()
			} else {
				p.newest.Show()
			}
		}
	}
	p.strip = newStrip()
	p.composer = newComposer(p)
	p.middle = kit.NewOne(p.empty, container.New(&floating{}, p.talk, p.newest))
	below := kit.Narrow(readable+2*sideGap, kit.Inset(sideGap, theme.GapM, kit.Column(theme.GapM, p.strip, p.engine.box, p.composer)))
	talk := container.NewBorder(container.NewVBox(p.head, kit.Inset(theme.GapL, 0, p.notice.box)), below, nil, nil, p.middle)
	p.content = container.New(&columns{}, p.list, talk, p.sheet)
	p.update()
	return p.content
}

// Show implements page.Page.
func (p *Page) Show() {
	p.Content()
	if p.stop != nil {
		return
	}
	p.model.Shown(true)
	p.stop = page.Follow(p.env.Do, p.model.Changed(), p.update)
	c := p.env.Window.Canvas()
	for _, k := range p.keys() {
		c.AddShortcut(k.shortcut(), func(fyne.Shortcut) {
			if c.Overlays().Top() == nil {
				k.do()
			}
		})
	}
	c.Focus(p.composer.entry)
}

// Hide implements page.Page.
func (p *Page) Hide() {
	if p.stop == nil {
		return
	}
	p.model.Shown(false)
	p.stop()
	p.stop = nil
	for _, k := range p.keys() {
		p.env.Window.Canvas().RemoveShortcut(k.shortcut())
	}
}

// Finish implements page.Finisher: answers are.
func (p *Page) Finish(ctx context.Context) { p.model.Finish(ctx) }

// Close implements page.Page.
func (p *Page) Close() {
	p.Hide()
	p.model.Close()
}

// key is a letter that does something together with Control.
type key struct {
	name  fyne.KeyName
	shift bool
	do    func()
}

func (k key) shortcut() *desktop.CustomShortcut {
	s := &desktop.CustomShortcut{KeyName: k.name, Modifier: fyne.KeyModifierShortcutDefault}
	if k.shift {
		s.Modifier |= fyne.KeyModifierShift
	}
	return s
}

func (p *Page) keys() []key {
	return []key{
		{name: fyne.KeyN, do: p.newChat},
		{name: fyne.KeyF, do: func() { p.env.Window.Canvas().Focus(p.list.search) }},
		{name: fyne.KeyC, shift: true, do: p.copyAnswer},
	}
}

// copyAnswer puts the last answer on the clipboard, as it is shown now.
func (p *Page) copyAnswer() {
	for _, m := range slices.Backward(p.view.Messages) {
		if !m.User && m.Text != "" {
			fyne.CurrentApp().Clipboard().SetContent(m.Text)
			return
		}
	}
}

var _ page.Keyed = (*Page)(nil)

// Keys implements page.Keyed.
func (p *Page) Keys() []page.Key {
	return []page.Key{
		{Control: true, Name: "N", What: p.t("chat.keys_new")},
		{Control: true, Name: "F", What: p.t("chat.keys_search")},
		{Control: true, Name: p.t("chat.key_shift") + "+C", What: p.t("chat.keys_copy")},
		{Name: p.t("chat.key_enter"), What: p.t("chat.keys_ask")},
		{Name: p.t("chat.key_shift_enter"), What: p.t("chat.keys_line")},
		{Name: "Esc", What: p.t("chat.keys_stop")},
	}
}

// shortcut does what a shortcut means that a field of the page got. Fyne gives
// those only to the field that has the keyboard.
func (p *Page) shortcut(s fyne.Shortcut) bool {
	custom, ok := s.(*desktop.CustomShortcut)
	if !ok || slices.Contains([]fyne.KeyName{fyne.KeyLeft, fyne.KeyRight, fyne.KeyBackspace, fyne.KeyDelete}, custom.KeyName) {
		return false // the field's own: by words
	}
	if canvas, ok := p.env.Window.Canvas().(fyne.Shortcutable); ok {
		canvas.TypedShortcut(custom) // the window's own ones, too
	}
	return true
}

func (p *Page) newChat() {
	p.model.NewChat()
	p.env.Window.Canvas().Focus(p.composer.entry)
}

// update copies the model to the widgets.
func (p *Page) update() {
	v := p.model.View()
	before := p.view
	if v.Version == before.Version && before.Version != 0 {
		return
	}
	p.view = v
	other := v.Chat != before.Chat
	if other {
		p.messages = map[thread.ID]*messageRows{}
		p.talk.follow = true
		p.newest.Hide()
	}
	p.list.show(&v)
	p.head.show(&v)
	p.sheet.show(&v, other)
	p.showNotices(&v)
	p.strip.show(v.Strip)
	p.composer.show(&v, other)
	p.showMessages(&v)
}

func (p *Page) showNotices(v *vm.View) {
	text, remedy := "", ""
	if v.Notice != nil {
		text, remedy = v.Notice.Text, v.Notice.Remedy
	}
	p.notice.show(text, remedy)
	if v.Engine.Phase == "absent" {
		p.engine.show(v.Engine.Text, v.Engine.Remedy)
	} else {
		p.engine.show("", "")
	}
}

func (p *Page) showMessages(v *vm.View) {
	if len(v.Messages) == 0 && !v.Loading {
		p.middle.Select(0)
		return
	}
	p.middle.Select(1)
	var slots []*slot
	if v.Loading {
		text := p.t("chat.loading")
		slots = append(slots, &slot{guess: 20, build: func() fyne.CanvasObject { return kit.Muted(text).Centered() }})
	}
	if v.Older > 0 {
		if p.above == nil || p.older != v.Older {
			p.older = v.Older
			label := p.t("chat.older", "Count", v.Older)
			p.above = &slot{guess: 30, build: func() fyne.CanvasObject {
				return container.NewCenter(kit.Secondary(label, p.model.LoadOlder).WithIcon(theme.IconUp).Compact())
			}}
		}
		slots = append(slots, p.above)
	}
	for i := range v.Messages {
		slots = append(slots, p.rowsOf(&v.Messages[i], i == len(v.Messages)-1 && !v.Answering)...)
	}
	p.talk.set(slots)
}

// link asks before it opens an address that stands in an answer.
func (p *Page) link(address string) {
	kit.Confirm(p.env.Window, p.t("chat.link_title"), address, p.t("chat.link_open"), p.t("chat.cancel"), false, func() { p.env.OpenURL(address) })
}

// edit asks for another question in the place of one.
func (p *Page) edit(id thread.ID, text string) {
	e := newMultiEntry()
	e.SetText(text)
	e.SetMinRowsVisible(6)
	d := &kit.Dialog{Title: p.t("chat.edit_title"), Text: p.t("chat.edit_text"), Body: e, Width: 560}
	d.Buttons = []fyne.CanvasObject{
		kit.Secondary(p.t("chat.cancel"), d.Close),
		kit.Primary(p.t("chat.edit_send"), func() {
			if p.model.Edit(id, e.Text) {
				d.Close()
				p.talk.toEnd()
			}
		}),
	}
	d.Open(p.env.Window)
	p.env.Window.Canvas().Focus(e)
}

// rename asks for another title of the chat.
func (p *Page) rename() {
	id := p.view.Chat
	e := kit.NewField(p.view.Title, "", nil)
	d := &kit.Dialog{Title: p.t("chat.rename_title"), Body: e}
	done := func() {
		p.model.Rename(id, e.Text)
		d.Close()
	}
	e.OnSubmitted = func(string) { done() }
	d.Buttons = []fyne.CanvasObject{kit.Secondary(p.t("chat.cancel"), d.Close), kit.Primary(p.t("chat.save"), done)}
	d.Open(p.env.Window)
	p.env.Window.Canvas().Focus(e)
}

func (p *Page) export(f vm.ExportFormat) {
	p.model.Export(p.view.Chat, f, func(name string, data []byte, err error) {
		p.env.Do(func() {
			if err != nil {
				p.failed()
				return
			}
			p.save(name, func(w io.Writer) error {
				_, err := w.Write(data)
				return err
			})
		})
	})
}

// saveFile lets the user choose a place.
func (p *Page) saveFile(name string, write func(io.Writer) error) {
	d := dialog.NewFileSave(func(w fyne.URIWriteCloser, err error) {
		if w == nil && err == nil {
			return // not wanted any more
		}
		if err == nil {
			err = write(w)
			if e := w.Close(); err == nil {
				err = e
			}
		}
		if err != nil {
			p.failed()
		}
	}, p.env.Window)
	d.SetFileName(name)
	d.SetFilter(storage.NewExtensionFileFilter([]string{filepath.Ext(name)}))
	d.Show()
}

func (p *Page) failed() {
	d := &kit.Dialog{Title: p.t("chat.export_failed")}
	d.Buttons = []fyne.CanvasObject{kit.Primary(p.t("chat.close"), d.Close)}
	d.Open(p.env.Window)
}
