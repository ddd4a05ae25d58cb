// Package wizard shows the first-run questions in the place of the pages. Its
// state and logic are in app/viewmodel/wizard.
package wizard

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	"neuron/app/viewmodel/login"
	vm "neuron/app/viewmodel/wizard"
	"neuron/engine/localapi"
	"neuron/internal/desktop/words"
)

// width is that of the questions.
const width = 620

// Page is the first-run questions.
type Page struct {
	env   *page.Env
	words *words.Words
	model *vm.Model
	done  func()

	content fyne.CanvasObject
	steps   *kit.One
	dots    *kit.Text
	problem *kit.Notice
	back    *kit.Button
	next    *kit.Button
	skip    *kit.Button
	rules   fyne.CanvasObject // shown to those who share
	address *kit.Field
	found   *kit.Badge // what came of the check
	copies  []func(v *vm.View)
	stop    func()
	over    bool
}

var _ page.Page = (*Page)(nil)

// New makes the page; done is called once on the UI goroutine when the questions
// are answered or skipped.
func New(env *page.Env, done func()) *Page {
	model := vm.New(page.Engine(env.Link, func(c *localapi.Client) vm.Engine { return c }), login.New(env.Data), vm.Ask)
	return newPage(env, model, done)
}

func newPage(env *page.Env, model *vm.Model, done func()) *Page {
	return &Page{env: env, words: env.Words, model: model, done: done}
}

// Name implements page.Page, like the methods below.
func (p *Page) Name() string { return "wizard" }

// Title is the page's name in the user's language.
func (p *Page) Title() string { return p.words.T("wizard.title") }

// Icon is of no use: the questions are in no navigation.
func (p *Page) Icon() fyne.Resource { return theme.IconNeuron.Resource(theme.Muted) }

// Content builds the page when it is first asked for.
func (p *Page) Content() fyne.CanvasObject {
	if p.content == nil {
		p.build()
	}
	return p.content
}

func (p *Page) build() {
	w := p.words
	p.dots = kit.Caption("")
	p.problem = kit.NewNotice(kit.Warn, "", "")
	p.problem.Hide()
	p.back = kit.Secondary(w.T("wizard.back"), p.model.Back)
	p.next = kit.Primary(w.T("wizard.start"), p.forward)
	p.skip = kit.Quiet(w.T("wizard.skip"), p.model.Skip)
	p.steps = kit.NewOne(p.welcome(), p.computer(), p.sharing(), p.network(), p.last())
	foot := kit.Beside(theme.GapS, p.skip, kit.Spacer(), p.dots, kit.Fixed(8, kit.Spacer()), p.back, p.next)
	body := kit.Narrow(width, kit.Inset(theme.GapXL, theme.GapXXL, kit.Column(theme.GapL, p.steps, p.problem)))
	bar := kit.NewPanel(theme.Rail, theme.Border, 0, kit.Narrow(width, kit.Inset(theme.GapXL, theme.GapL, foot)))
	p.content = container.NewBorder(nil, bar, nil, nil, container.NewVScroll(body))
}

func (p *Page) forward() {
	if p.model.View().Step == vm.Last {
		p.model.Finish()
		return
	}
	p.model.Next()
}

// Show begins to follow the model.
func (p *Page) Show() {
	p.Content()
	p.stop = page.Follow(p.env.Do, p.model.Changed(), p.update)
	p.env.Window.Canvas().Focus(p.next)
}

// Hide stops following.
func (p *Page) Hide() {
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

// Close ends the model.
func (p *Page) Close() { p.model.Close() }

func (p *Page) update() {
	if p.over {
		return
	}
	v := p.model.View()
	if v.Done {
		p.over = true
		p.done()
		return
	}
	w := p.words
	if int(v.Step) != p.steps.Shown() {
		p.steps.Select(int(v.Step))
		p.content.Refresh()
	}
	for _, f := range p.copies {
		f(&v)
	}
	p.dots.Set(w.T("wizard.step", "Step", int(v.Step)+1, "Steps", vm.Steps))
	p.back.Hidden = v.Step == vm.Welcome
	label := w.T("wizard.next")
	switch v.Step {
	case vm.Welcome:
		label = w.T("wizard.start")
	case vm.Last:
		label = w.T("wizard.finish")
	}
	p.next.Set(label, "")
	p.next.SetEnabled(!v.Saving)
	p.skip.SetEnabled(!v.Saving)
	if hidden := v.Err == nil; hidden != p.problem.Hidden {
		p.problem.Hidden = hidden
		p.content.Refresh()
	}
	if v.Err != nil {
		text, remedy := w.Code(v.Err.Code, v.Err.Message)
		p.problem.Set(kit.Warn, text, remedy)
	}
}
