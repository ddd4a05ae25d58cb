// Package share is the share page: whether this computer shares and why not,
// what it holds and does, and what it could hold.
//
// Its state and logic are in app/viewmodel/share.
package share

import (
	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/share"
	"neuron/engine/localapi"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

// Page is the share page.
type Page struct {
	env   *page.Env
	words *words.Words
	model *vm.Model

	content *kit.Page
	waiting *kit.Loading
	absent  fyne.CanvasObject
	problem *kit.Notice
	hero    *hero
	tiles   [4]*kit.StatTile
	figures fyne.CanvasObject
	holds   *holds
	plans   *plans
	live    *live
	host    *host
	health  *notices
	shown   page.Following
	phase   link.Phase // when it was looked last
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
func (p *Page) Name() string { return "share" }

// Title is the page's name in the user's language.
func (p *Page) Title() string { return p.words.T("share.title") }

// Icon is drawn in the navigation.
func (p *Page) Icon() fyne.Resource { return theme.IconShare.Resource(theme.Muted) }

// Content builds the page when it is first asked for.
func (p *Page) Content() fyne.CanvasObject {
	if p.content == nil {
		p.build()
	}
	return p.content
}

func (p *Page) build() {
	w := p.words
	p.waiting = kit.NewLoading(w.T("share.waiting"))
	p.absent = kit.Card(kit.Failed(w.T("share.absent_title"), w.T("share.absent_text"), kit.Primary(w.T("share.start"), p.env.Link.Retry)))
	p.problem = kit.NewNotice(kit.Warn, "", "")
	p.hero = newHero(w, p.model)
	for i, id := range []string{"share.speed", "share.tokens", "share.credit", "share.transfer"} {
		p.tiles[i] = kit.NewStatTile(w.T(id), "", "")
	}
	p.figures = kit.Tiles(150, theme.GapM, p.tiles[0], p.tiles[1], p.tiles[2], p.tiles[3])
	p.plans = newPlans(w, p.model, p.retryPlans, p.closePlans)
	p.holds = newHolds(w, p.openPlans)
	p.live = newLive(w)
	p.host = newHost(w, p.model)
	p.health = newNotices()
	p.content = kit.NewPage(w.T("share.title"), w.T("share.subtitle"),
		p.waiting, p.absent, p.problem, p.health.box, p.hero.card, p.figures, p.holds.card, p.plans.card, p.live.card, p.host.card)
	p.plans.card.Hide()
	p.update()
}

func (p *Page) openPlans() {
	p.model.Plan()
	p.plans.card.Show()
	p.update()
	p.content.ScrollTo(p.plans.card)
}

// retryPlans starts an engine first, where none runs; update then asks again.
func (p *Page) retryPlans() {
	p.env.Link.Retry()
	p.model.Plan()
}

func (p *Page) closePlans() {
	p.plans.card.Hide()
	p.update()
}

// Show reads what this computer is, and follows the engine.
func (p *Page) Show() {
	p.Content()
	p.model.Load()
	p.shown.Link(p.env, p.update)
	p.shown.Model(p.env, p.model.Changed(), p.update)
}

// Hide stops following.
func (p *Page) Hide() {
	p.shown.Stop()
}

// Close ends the model.
func (p *Page) Close() { p.model.Close() }

// update copies the model to the screen.
func (p *Page) update() {
	v := p.model.View()
	if v.Phase == link.Connected && p.phase != link.Connected && v.PlanErr != nil && p.plans.card.Visible() {
		p.model.Plan() // nobody was there to be asked
	}
	p.phase = v.Phase
	there := v.Phase == link.Connected || v.Phase == link.Lost // what was seen last stays while it is looked for
	kit.SetVisible(p.waiting, v.Phase == link.Starting)
	kit.SetVisible(p.absent, v.Phase == link.Absent)
	for _, o := range []fyne.CanvasObject{p.hero.card, p.figures, p.holds.card, p.host.card} {
		kit.SetVisible(o, there)
	}
	kit.SetVisible(p.problem, v.Problem != nil && there)
	if v.Problem != nil {
		text, remedy := p.words.Code(v.Problem.Code, v.Problem.Message)
		p.problem.Set(kit.Warn, text, remedy)
	}
	p.hero.update(&v)
	for i, f := range []vm.Figure{v.Speed, v.Tokens, v.Credit, v.Transfer} {
		p.tiles[i].Set(f.Value, f.Detail)
	}
	p.holds.update(&v)
	p.plans.update(&v)
	p.live.update(&v, there)
	p.host.update(&v)
	p.health.update(v.Health, there)
	p.content.Arrange()
}
