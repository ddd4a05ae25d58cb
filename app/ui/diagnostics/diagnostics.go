// Package diagnostics is the page for when something is wrong: what the engine
// complains about and the way out, its processes, its log, a report to copy, and
// a new start.
//
// Its state and logic are in app/viewmodel/diagnostics.
package diagnostics

import (
	"net/url"
	"path/filepath"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/diagnostics"
	"neuron/engine/localapi"
	"neuron/internal/desktop/words"
)

// Page is the diagnostics page.
type Page struct {
	env   *page.Env
	words *words.Words
	model *vm.Model

	content fyne.CanvasObject
	tabs    *kit.Segmented
	health  *health
	logs    *logs
	problem *kit.Notice
	shown   page.Following
}

var _ page.Page = (*Page)(nil)

// New makes the page.
func New(env *page.Env) *Page {
	return &Page{env: env, words: env.Words, model: vm.New(page.Engine(env.Link, func(c *localapi.Client) vm.Engine { return c }))}
}

// Name implements page.Page, like the methods below.
func (p *Page) Name() string { return "diagnostics" }

// Title is the page's name in the user's language.
func (p *Page) Title() string { return p.words.T("diagnostics.title") }

// Icon is drawn in the navigation.
func (p *Page) Icon() fyne.Resource { return theme.IconDiagnostics.Resource(theme.Muted) }

// Content builds the page when it is first asked for.
func (p *Page) Content() fyne.CanvasObject {
	if p.content == nil {
		p.build()
	}
	return p.content
}

func (p *Page) build() {
	w := p.words
	p.problem = kit.NewNotice(kit.Warn, "", "")
	p.problem.Hide()
	p.health = newHealth(w, p.problem)
	p.health.frame.SetActions(
		kit.Secondary(w.T("diagnostics.folder"), p.openFolder).WithIcon(theme.IconFolder),
		kit.Secondary(w.T("diagnostics.restart"), p.askRestart).WithIcon(theme.IconRefresh),
		kit.Primary(w.T("diagnostics.report"), p.model.Report).WithIcon(theme.IconCopy))
	p.logs = newLogs(w, p.model, p.env.Window)
	p.tabs = kit.NewSegmented([]string{w.T("diagnostics.tab_health"), w.T("diagnostics.tab_logs")}, 0, p.show)
	p.health.tabs.Objects = []fyne.CanvasObject{p.tabs}
	p.content = container.NewStack(p.health.frame, p.logs.box)
	p.logs.box.Hide()
}

// show opens a tab; the log needs the whole height.
func (p *Page) show(tab int) {
	p.tabs.Set(tab)
	if tab == 1 {
		p.health.tabs.Objects = nil
		p.logs.tabs.Objects = []fyne.CanvasObject{p.tabs}
		p.health.frame.Hide()
		p.logs.box.Show()
	} else {
		p.logs.tabs.Objects = nil
		p.health.tabs.Objects = []fyne.CanvasObject{p.tabs}
		p.logs.box.Hide()
		p.health.frame.Show()
	}
	p.content.Refresh()
}

// Show begins to read.
func (p *Page) Show() {
	p.Content()
	p.model.Follow()
	p.shown.Link(p.env, p.updateHealth)
	p.shown.Model(p.env, p.model.Changed(), p.update)
}

// Hide stops reading.
func (p *Page) Hide() {
	p.shown.Stop()
	p.model.Rest()
}

// Close ends the model.
func (p *Page) Close() { p.model.Close() }

func (p *Page) updateHealth() { p.health.update(p.env.Link.State(), p.env.Now()) }

func (p *Page) update() {
	v := p.model.View()
	p.logs.update(v)
	err := v.ReportErr
	if err == nil {
		err = v.RestartErr
	}
	was := p.problem.Hidden
	p.problem.Hidden = err == nil
	if err != nil {
		text, remedy := p.words.Code(err.Code, err.Message)
		p.problem.Set(kit.Warn, text, remedy)
	}
	if was != p.problem.Hidden {
		p.health.frame.Arrange()
	}
	if v.Report != "" {
		p.model.Taken()
		p.showReport(v.Report)
	}
}

// showReport has copied the report and says so.
func (p *Page) showReport(text string) {
	w := p.words
	fyne.CurrentApp().Clipboard().SetContent(text)
	preview := container.NewVScroll(kit.NewCode("", head(text), "", ""))
	preview.SetMinSize(fyne.NewSize(480, 260))
	d := &kit.Dialog{Title: w.T("diagnostics.report_title"), Text: w.T("diagnostics.report_text"), Width: 560, Body: preview}
	d.Buttons = []fyne.CanvasObject{kit.Primary(w.T("diagnostics.done"), d.Close)}
	d.Open(p.env.Window)
}

// head is the part of a report that a preview shows: long texts are slow to
// break.
func head(text string) string {
	const most = 3000
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

func (p *Page) askRestart() {
	w := p.words
	kit.Confirm(p.env.Window, w.T("diagnostics.restart_title"), w.T("diagnostics.restart_text"), w.T("diagnostics.restart"), w.T("diagnostics.cancel"), false,
		func() { p.model.Restart(p.env.Link.Retry) })
}

func (p *Page) openFolder() {
	path := filepath.ToSlash(p.env.Data)
	if path == "" || path[0] != '/' {
		path = "/" + path // a drive letter
	}
	p.env.OpenURL((&url.URL{Scheme: "file", Path: path}).String())
}
