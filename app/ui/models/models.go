// Package models is the page with the models of the network: what each is, which
// layers are held by how many computers, and whether it can answer now.
//
// Its state and logic are in app/viewmodel/network.
package models

import (
	"path/filepath"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/dialog"
	"fyne.io/fyne/v2/storage"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/network"
	"neuron/engine/localapi"
	"neuron/internal/desktop/words"
)

// Page is the models page.
type Page struct {
	env   *page.Env
	words *words.Words
	model *vm.Model

	content *kit.Page
	search  *kit.Field
	state   *kit.One
	fault   *kit.Notice // the network does not answer
	stale   *kit.Notice // it did, lately
	said    *kit.Notice // what came of an order
	list    *fyne.Container
	nothing *kit.Text
	cards   []*card
	shown   page.Following
}

var _ page.Page = (*Page)(nil)

// New makes the page.
func New(env *page.Env) *Page {
	return &Page{env: env, words: env.Words, model: vm.New(vm.Options{
		Engine: page.Engine(env.Link, func(c *localapi.Client) vm.Engine { return c }),
		State:  env.Link.State, Words: env.Words, Now: env.Now,
	})}
}

// Name implements page.Page, like the methods below.
func (p *Page) Name() string { return "models" }

// Title is the page's name in the user's language.
func (p *Page) Title() string { return p.words.T("models.title") }

// Icon is drawn in the navigation.
func (p *Page) Icon() fyne.Resource { return theme.IconModels.Resource(theme.Muted) }

// Content builds the page when it is first asked for.
func (p *Page) Content() fyne.CanvasObject {
	if p.content == nil {
		p.build()
	}
	return p.content
}

func (p *Page) build() {
	w := p.words
	p.fault = kit.NewNotice(kit.Warn, "", "", kit.Secondary(w.T("models.settings"), func() { p.env.Open("settings") }).Compact())
	p.stale, p.said = kit.NewNotice(kit.Warn, "", ""), kit.NewNotice(kit.Good, "", "")
	p.list, p.nothing = kit.Column(theme.GapL), kit.Muted("")
	p.search = kit.NewField("", w.T("models.search"), nil)
	p.search.OnChanged = p.model.Filter
	p.state = kit.NewOne(
		kit.NewLoading(w.T("models.loading")),
		kit.Card(kit.Failed(w.T("models.absent_title"), w.T("models.absent_text"), kit.Primary(w.T("models.start"), p.env.Link.Retry))),
		p.fault,
		kit.Column(theme.GapL, p.stale, kit.Fixed(260, p.search), p.nothing, p.list))
	p.content = kit.NewPage(w.T("models.title"), w.T("models.subtitle"), p.said, p.state)
	p.content.SetActions(kit.Secondary(w.T("models.add"), p.add).WithIcon(theme.IconPlus))
	p.update()
}

// add asks for a model file of this computer.
func (p *Page) add() {
	d := dialog.NewFileOpen(func(f fyne.URIReadCloser, err error) {
		if err != nil || f == nil {
			return // nothing was chosen
		}
		path := filepath.FromSlash(f.URI().Path())
		f.Close()
		p.model.Hold(path, filepath.Base(path))
	}, p.env.Window)
	d.SetFilter(storage.NewExtensionFileFilter([]string{".gguf"}))
	d.Show()
}

// Show follows the network.
func (p *Page) Show() {
	p.Content()
	p.model.Follow(vm.Plans)
	p.shown.Link(p.env, p.update)
	p.shown.Model(p.env, p.model.Changed(), p.update)
}

// Hide stops following.
func (p *Page) Hide() {
	p.shown.Stop()
	p.model.Rest()
}

// Close ends the model.
func (p *Page) Close() { p.model.Close() }

// update copies the model to the screen.
func (p *Page) update() {
	v := p.model.View()
	w := p.words
	kit.SetVisible(p.stale, v.Stage == vm.Ready && v.Err != nil)
	if v.Err != nil {
		text, remedy := w.Code(v.Err.Code, v.Err.Message)
		p.fault.Set(kit.Warn, text, remedy)
		p.stale.Set(kit.Warn, text, w.T("models.stale", "Time", v.Asked))
	}
	kit.SetVisible(p.said, v.Problem != nil || v.Held != "")
	switch {
	case v.Problem != nil:
		text, remedy := w.Code(v.Problem.Code, v.Problem.Message)
		p.said.Set(kit.Warn, text, remedy)
	case v.Held != "":
		p.said.Set(kit.Good, w.T("models.held", "Name", v.Held), w.T("models.held_text"))
	}
	switch {
	case len(v.Models) > 0:
		p.nothing.Set("")
	case v.Filtered:
		p.nothing.Set(w.T("models.nothing_found"))
	default:
		p.nothing.Set(w.T("models.empty"))
	}
	kit.SetVisible(p.nothing, len(v.Models) == 0)
	for len(p.cards) < len(v.Models) {
		c := p.newCard()
		p.cards = append(p.cards, c)
		p.list.Add(c.panel)
	}
	for i, c := range p.cards {
		kit.SetVisible(c.panel, i < len(v.Models))
		if i < len(v.Models) {
			c.fill(&v.Models[i])
		}
	}
	p.state.Select(int(v.Stage))
	p.content.Arrange()
}
