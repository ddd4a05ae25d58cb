// Package network is the page about the network: the connection, how large it
// is, the ways of this computer's own conversations, and the access for other
// programs.
//
// Its state and logic are in app/viewmodel/network.
package network

import (
	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/network"
	"neuron/engine/localapi"
	"neuron/internal/desktop/words"
)

// Page is the network page.
type Page struct {
	env   *page.Env
	words *words.Words
	model *vm.Model

	content *kit.Page
	waiting *kit.Loading
	absent  fyne.CanvasObject
	problem *kit.Notice
	link    *connection
	tiles   [4]*kit.StatTile
	figures fyne.CanvasObject
	routes  *routes
	access  *access
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
func (p *Page) Name() string { return "network" }

// Title is the page's name in the user's language.
func (p *Page) Title() string { return p.words.T("network.title") }

// Icon is drawn in the navigation.
func (p *Page) Icon() fyne.Resource { return theme.IconNetwork.Resource(theme.Muted) }

// Content builds the page when it is first asked for.
func (p *Page) Content() fyne.CanvasObject {
	if p.content == nil {
		p.build()
	}
	return p.content
}

func (p *Page) build() {
	w := p.words
	p.waiting = kit.NewLoading(w.T("network.loading"))
	p.absent = kit.Card(kit.Failed(w.T("network.absent_title"), w.T("network.absent_text"), kit.Primary(w.T("network.start"), p.env.Link.Retry)))
	p.problem = kit.NewNotice(kit.Warn, "", "")
	p.link = newConnection(w, p.env)
	for i, id := range []string{"network.nodes", "network.sessions", "network.answering", "network.asked"} {
		p.tiles[i] = kit.NewStatTile(w.T(id), "", "")
	}
	p.figures = kit.Tiles(150, theme.GapM, p.tiles[0], p.tiles[1], p.tiles[2], p.tiles[3])
	p.routes = newRoutes(w, func() { p.env.Open("chat") })
	p.access = newAccess(w)
	p.content = kit.NewPage(w.T("network.title"), w.T("network.subtitle"),
		p.waiting, p.absent, p.problem, p.link.card, p.figures, p.routes.card, p.access.card)
	p.update()
}

// Show follows the network.
func (p *Page) Show() {
	p.Content()
	p.model.Follow(vm.Routes)
	p.shown.Link(p.env, p.update)
	p.shown.Model(p.env, p.model.Changed(), p.update)
}

// Hide stops following.
func (p *Page) Hide() {
	p.shown.Stop()
	p.model.Rest()
	p.access.hide()
}

// Close ends the model.
func (p *Page) Close() { p.model.Close() }

// update copies the model to the screen.
func (p *Page) update() {
	v := p.model.View()
	there := v.Stage != vm.Absent
	kit.SetVisible(p.waiting, v.Stage == vm.Loading)
	kit.SetVisible(p.absent, !there)
	kit.SetVisible(p.problem, there && v.Err != nil)
	if v.Err != nil {
		text, remedy := p.words.Code(v.Err.Code, v.Err.Message)
		p.problem.Set(kit.Warn, text, remedy)
	}
	kit.SetVisible(p.link.card, there)
	p.link.update(&v)
	kit.SetVisible(p.figures, v.Stage == vm.Ready)
	for i, x := range []string{v.Nodes, v.Sessions, v.Answering, v.Asked} {
		p.tiles[i].Set(x, "")
	}
	kit.SetVisible(p.routes.card, there)
	p.routes.update(v.Routes)
	kit.SetVisible(p.access.card, there && v.Access != nil)
	p.access.update(v.Access)
	p.content.Arrange()
}
