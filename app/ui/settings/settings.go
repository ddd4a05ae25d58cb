// Package settings is the settings page: when and how much to share, the
// network, the owner key and its computers, API keys, and the window itself.
// Each change is saved at once and can be taken back.
//
// Its state and logic are in app/viewmodel/settings.
package settings

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/settings"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

// Page is the settings page.
type Page struct {
	env   *page.Env
	words *words.Words

	model *vm.Model
	owner *vm.Owner
	keys  *vm.Keys

	updates *vm.Updates

	content fyne.CanvasObject
	frame   *kit.Page
	tabs    *kit.Segmented
	cards   [][]fyne.CanvasObject // by tab
	state   *kit.One              // waiting, absent, failed, ready
	failed  *kit.Notice
	snack   *snack

	// copies take the settings to the controls, rows are those that can show a
	// problem, by the field's name.
	copies []func(s *policy.Settings, v *vm.View)
	rows   map[string]*kit.Row

	account *accountCard
	apiKeys *keysCard
	newer   *updatesCard
	shown   page.Following
	there   bool // an engine answered when it was looked last
}

var _ page.Page = (*Page)(nil)

// The tabs in their order.
const (
	tabSharing = iota
	tabLimits
	tabNetwork
	tabAccount
	tabWindow
)

// New makes the page.
func New(env *page.Env) *Page {
	p := &Page{env: env, words: env.Words, rows: make(map[string]*kit.Row)}
	p.model = vm.New(page.Engine(env.Link, func(c *localapi.Client) vm.Engine { return c }))
	p.owner = vm.NewOwner(page.Engine(env.Link, func(c *localapi.Client) vm.OwnerEngine { return c }))
	p.keys = vm.NewKeys(page.Engine(env.Link, func(c *localapi.Client) vm.KeysEngine { return c }))
	p.updates = vm.NewUpdates(page.Engine(env.Link, func(c *localapi.Client) vm.UpdatesEngine { return c }))
	return p
}

// Name implements page.Page, like the methods below.
func (p *Page) Name() string { return "settings" }

// Title is the page's name in the user's language.
func (p *Page) Title() string { return p.words.T("settings.title") }

// Icon is drawn in the navigation.
func (p *Page) Icon() fyne.Resource { return theme.IconSettings.Resource(theme.Muted) }

// Content builds the page when it is first asked for.
func (p *Page) Content() fyne.CanvasObject {
	if p.content == nil {
		p.build()
	}
	return p.content
}

func (p *Page) build() {
	w := p.words
	p.account = newAccountCard(p)
	p.apiKeys = newKeysCard(p)
	p.newer = newUpdatesCard(p)
	p.cards = [][]fyne.CanvasObject{
		tabSharing: p.sharingCards(),
		tabLimits:  p.limitCards(),
		tabNetwork: append(p.networkCards(), p.newer.card),
		tabAccount: append(p.account.cards, p.apiKeys.card),
		tabWindow:  p.windowCards(),
	}
	p.tabs = kit.NewSegmented([]string{
		w.T("settings.tab_sharing"), w.T("settings.tab_limits"), w.T("settings.tab_network"), w.T("settings.tab_account"), w.T("settings.tab_window"),
	}, tabSharing, func(i int) { p.show(i) })
	p.failed = kit.NewNotice(kit.Warn, "", "", kit.Secondary(w.T("settings.retry"), p.again).Compact())
	loading := kit.NewLoading(w.T("settings.loading"))
	absent := kit.Card(kit.Failed(w.T("settings.absent_title"), w.T("settings.absent_text"),
		kit.Secondary(w.T("settings.retry"), p.again)))
	p.state = kit.NewOne(loading, absent, p.failed, kit.Column(theme.GapL))
	p.frame = kit.NewPage(w.T("settings.title"), w.T("settings.subtitle"))
	p.snack = newSnack(w, p.model.Undo, func() { p.content.Refresh() })
	p.content = container.NewBorder(nil, p.snack.box, nil, nil, p.frame)
	p.show(tabSharing)
}

// show opens a tab. What belongs to the window works without an engine.
func (p *Page) show(tab int) {
	p.snack.hide()
	p.tabs.Set(tab)
	p.arrange()
	p.frame.ScrollToTop()
	if tab == tabAccount {
		p.owner.Load()
		p.keys.Load()
	}
}

// arrange puts what is to be seen onto the page.
func (p *Page) arrange() {
	tab := p.tabs.Selected()
	head := container.NewHBox(p.tabs)
	if tab == tabWindow || p.model.View().Stage == vm.Ready {
		p.frame.SetCards(append([]fyne.CanvasObject{head}, p.cards[tab]...)...)
		return
	}
	p.frame.SetCards(head, p.state)
}

// load reads everything anew.
func (p *Page) load() {
	p.model.Load()
	if p.tabs.Selected() == tabAccount {
		p.owner.Load()
		p.keys.Load()
	}
}

// again is Try again: where no engine runs, one is started first, and everything
// is read when it is there.
func (p *Page) again() {
	p.env.Link.Retry()
	p.load()
}

// follow sees the engine come and go. What was asked for while none ran has
// failed.
func (p *Page) follow() {
	there := p.env.Link.Client() != nil
	if there && !p.there {
		p.load()
	}
	p.there = there
	p.update()
}

// stage is the model's, but for an engine that is on its way.
func (p *Page) stage(v *vm.View) vm.Stage {
	if v.Stage == vm.Absent && p.env.Link.State().Phase != link.Absent {
		return vm.Loading
	}
	return v.Stage
}

// Show reads everything anew and follows it.
func (p *Page) Show() {
	p.Content()
	p.there = p.env.Link.Client() != nil
	p.load()
	p.shown.Link(p.env, p.follow)
	p.shown.Model(p.env, p.model.Changed(), p.update)
	p.shown.Model(p.env, p.owner.Changed(), p.account.update)
	p.shown.Model(p.env, p.keys.Changed(), p.apiKeys.update)
	p.shown.Model(p.env, p.updates.Changed(), p.newer.update)
	p.updates.Follow()
}

// Hide stops following.
func (p *Page) Hide() {
	p.shown.Stop()
	p.updates.Rest()
	p.snack.hide()
}

// Close ends the models.
func (p *Page) Close() {
	p.model.Close()
	p.owner.Close()
	p.keys.Close()
	p.updates.Close()
}

// update copies the engine's settings to the controls.
func (p *Page) update() {
	v := p.model.View()
	shown := p.state.Shown()
	switch v.Stage {
	case vm.Ready:
		for _, f := range p.copies {
			f(&v.Settings, &v)
		}
	case vm.Failed:
		text, remedy := p.words.Code(v.Err.Code, v.Err.Message)
		p.failed.Set(kit.Warn, text, remedy)
	}
	p.problem(v.Problem)
	p.snack.show(v, p.rows)
	if stage := int(p.stage(&v)); stage != shown {
		p.state.Select(stage)
		p.arrange()
	}
}

// problem shows what is wrong with a value beside it.
func (p *Page) problem(e *protocol.Error) {
	for name, r := range p.rows {
		text := ""
		if e != nil && e.Param == name {
			text = p.fieldProblem(name, e)
		}
		r.SetProblem(text)
	}
}

// fieldProblem says in the user's language what a field takes.
func (p *Page) fieldProblem(name string, e *protocol.Error) string {
	w := p.words
	switch name {
	case "rules.idle_minutes":
		return w.T("settings.bad_minutes", "Most", policy.MaxIdleMinutes)
	case "rules.busy_percent":
		return w.T("settings.bad_percent", "Least", policy.MinBusyPercent)
	case "tracker", "proxy", "updates.feed":
		return w.T("settings.bad_address")
	case "limits.memory_bytes":
		return w.T("settings.bad_least", "Least", w.Memory(policy.MinMemory))
	case "limits.disk_bytes":
		return w.T("settings.bad_least", "Least", w.Bytes(policy.MinDisk))
	case "limits.day_bytes":
		return w.T("settings.bad_least", "Least", w.Bytes(policy.MinDay))
	case "limits.up_rate", "limits.down_rate":
		return w.T("settings.bad_least", "Least", w.Rate(policy.MinRate))
	}
	text, _ := w.Code(e.Code, e.Message)
	return text
}
