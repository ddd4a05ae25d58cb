// Package earnings is the page about credit: what there is, what came in by day,
// model and layers, the lines of the account, and both as files.
//
// Its state and logic are in app/viewmodel/earnings.
package earnings

import (
	"bytes"
	"image/png"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/dialog"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/earnings"
	"neuron/engine/localapi"
	"neuron/internal/desktop/words"
)

// Page is the earnings page.
type Page struct {
	env   *page.Env
	words *words.Words
	model *vm.Model

	content *kit.Page
	state   *kit.One
	failed  *kit.Notice
	stale   *kit.Notice // beside what is there
	frozen  *kit.Notice
	file    *kit.Notice // what went wrong with a file
	tiles   [4]*kit.StatTile
	chart   *chartCard
	models  *parts
	shards  *parts
	lines   *lines
	asked   bool // for the newest state, since the page is shown
	shown   page.Following
}

var _ page.Page = (*Page)(nil)

// New makes the page.
func New(env *page.Env) *Page {
	return &Page{env: env, words: env.Words, model: vm.New(vm.Options{
		Engine: page.Engine(env.Link, func(c *localapi.Client) vm.Engine { return c }),
		Words:  env.Words, Now: env.Now,
	})}
}

// Name implements page.Page, like the methods below.
func (p *Page) Name() string { return "earnings" }

// Title is the page's name in the user's language.
func (p *Page) Title() string { return p.words.T("earnings.title") }

// Icon is drawn in the navigation.
func (p *Page) Icon() fyne.Resource { return theme.IconEarnings.Resource(theme.Muted) }

// Content builds the page when it is first asked for.
func (p *Page) Content() fyne.CanvasObject {
	if p.content == nil {
		p.build()
	}
	return p.content
}

func (p *Page) build() {
	w := p.words
	retry := func() *kit.Button { return kit.Secondary(w.T("earnings.retry"), p.reload).Compact() }
	p.failed, p.stale = kit.NewNotice(kit.Warn, "", "", retry()), kit.NewNotice(kit.Warn, "", "", retry())
	p.frozen = kit.NewNotice(kit.Bad, "", w.T("earnings.frozen_text"))
	p.file = kit.NewNotice(kit.Warn, "", "")
	for i, id := range []string{"earnings.available", "earnings.pending", "earnings.today", "earnings.total"} {
		p.tiles[i] = kit.NewStatTile(w.T(id), "", w.T(id+"_text"))
	}
	p.chart = newChartCard(w, p.model, p.savePicture)
	p.models, p.shards = newParts(w.T("earnings.by_model")), newParts(w.T("earnings.by_shard"))
	p.lines = newLines(w, p.model)
	p.state = kit.NewOne(
		kit.NewLoading(w.T("earnings.loading")),
		p.failed,
		kit.Card(kit.Empty(theme.IconEarnings, w.T("earnings.empty_title"), w.T("earnings.empty_text"), kit.Primary(w.T("earnings.share"), func() { p.env.Open("share") }))),
		kit.Column(theme.GapL, p.stale, p.frozen,
			kit.Tiles(150, theme.GapM, p.tiles[0], p.tiles[1], p.tiles[2], p.tiles[3]),
			p.chart.card, p.models.card, p.shards.card, p.lines.card))
	p.content = kit.NewPage(w.T("earnings.title"), w.T("earnings.subtitle"), p.file, p.state)
	p.content.SetActions(kit.Secondary(w.T("earnings.refresh"), p.reload).WithIcon(theme.IconRefresh))
	p.update()
}

// reload starts an engine first, where none runs; connected then asks again.
func (p *Page) reload() {
	p.env.Link.Retry()
	p.asked = p.env.Link.Client() != nil
	p.model.Load()
}

// Show asks for the newest state.
func (p *Page) Show() {
	p.Content()
	p.asked = false
	p.shown.Link(p.env, p.connected)
	p.shown.Model(p.env, p.model.Changed(), p.update)
}

// connected asks once the engine is there; before, the page says that it is not.
func (p *Page) connected() {
	there := p.env.Link.Client() != nil
	if there && !p.asked || !there && p.model.View().Stage == vm.Loading && !p.model.View().Loading {
		p.asked = there
		p.model.Load()
	}
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
	if v.Err != nil {
		text, remedy := p.words.Code(v.Err.Code, v.Err.Message)
		p.failed.Set(kit.Warn, text, remedy)
		p.stale.Set(kit.Warn, text, remedy)
	}
	kit.SetVisible(p.stale, v.Err != nil)
	kit.SetVisible(p.frozen, v.Frozen != "")
	p.frozen.Set(kit.Bad, v.Frozen, p.words.T("earnings.frozen_text"))
	kit.SetVisible(p.file, v.FileErr != nil)
	if v.FileErr != nil {
		text, remedy := p.words.Code(v.FileErr.Code, v.FileErr.Message)
		p.file.Set(kit.Warn, text, remedy)
	}
	for i, s := range []string{v.Available, v.Pending, v.Today, v.Total} {
		p.tiles[i].Set(s, p.words.T([]string{"earnings.available_text", "earnings.pending_text", "earnings.today_text", "earnings.total_text"}[i]))
	}
	p.chart.update(&v)
	p.models.update(v.Models)
	p.shards.update(v.Shards)
	p.lines.update(&v)
	p.state.Select(int(v.Stage))
	if f := v.File; f != nil {
		p.model.Taken()
		p.save(f.Name, f.Data)
	}
	p.content.Arrange()
}

// save asks where a file shall be, and writes it.
func (p *Page) save(name string, data []byte) {
	d := dialog.NewFileSave(func(out fyne.URIWriteCloser, err error) {
		if out == nil {
			if err != nil {
				p.model.SaveFailed(err)
			}
			return // nothing was chosen
		}
		_, err = out.Write(data)
		if closed := out.Close(); err == nil {
			err = closed
		}
		if err != nil {
			p.model.SaveFailed(err)
		}
	}, p.env.Window)
	d.SetFileName(name)
	d.Show()
}

// savePicture saves the chart as it would be on a wide page.
func (p *Page) savePicture() {
	var b bytes.Buffer
	if err := png.Encode(&b, p.chart.chart.Image(1200, 480)); err != nil {
		p.model.SaveFailed(err)
		return
	}
	p.save("neuron-earnings-"+p.env.Now().Format("2006-01-02")+".png", b.Bytes())
}
