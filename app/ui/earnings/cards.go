package earnings

import (
	"fyne.io/fyne/v2"

	"neuron/app/ui/chart"
	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/earnings"
	"neuron/internal/desktop/words"
)

// chartCard is the chart with the choice of what a bar stands for.
type chartCard struct {
	card   *kit.Panel
	chart  *chart.Chart
	said   *kit.Text
	groups *kit.Segmented
	bars   []vm.Bar
	hint   string // while no bar is chosen
}

func newChartCard(w *words.Words, m *vm.Model, picture func()) *chartCard {
	c := &chartCard{said: kit.Muted("")}
	c.chart = chart.New(220, func(v float64) string { return w.Credits(int64(v * 1e6)) })
	c.chart.OnChosen = c.say
	c.groups = kit.NewSegmented([]string{w.T("earnings.days"), w.T("earnings.weeks"), w.T("earnings.months")}, 0, func(i int) { m.Group(vm.Grouping(i)) })
	c.card = kit.TitledCard(w.T("earnings.chart"), c.groups, c.chart, c.said,
		kit.Wrapped(theme.GapS,
			kit.Quiet(w.T("earnings.csv"), m.ExportEarnings).Compact().WithIcon(theme.IconSave),
			kit.Quiet(w.T("earnings.png"), picture).Compact().WithIcon(theme.IconSave)))
	return c
}

func (c *chartCard) say(i int) {
	if i < 0 || i >= len(c.bars) {
		c.said.Set(c.hint)
		return
	}
	c.said.Set(c.bars[i].Text)
}

func (c *chartCard) update(v *vm.View) {
	c.bars, c.hint = v.Bars, v.Hint
	list := make([]chart.Bar, len(v.Bars))
	for i, b := range v.Bars {
		list[i] = chart.Bar{Label: b.Label, Value: b.Value, Text: b.Text}
	}
	c.chart.Set(list)
	c.groups.Set(int(v.Grouping))
	c.say(c.chart.Chosen())
}

// parts is what came in by one criterion.
type parts struct {
	card *kit.Panel
	list *fyne.Container
	rows []*part
}

type part struct {
	text  *kit.Text
	meter *kit.Meter
	box   fyne.CanvasObject
}

func newParts(title string) *parts {
	p := &parts{list: kit.Column(theme.GapM)}
	p.card = kit.TitledCard(title, nil, p.list)
	return p
}

func (p *parts) update(list []vm.Part) {
	kit.SetVisible(p.card, len(list) > 0)
	for len(p.rows) < len(list) {
		r := &part{text: kit.Caption(""), meter: kit.NewMeter("", 0, "")}
		r.box = kit.Column(theme.GapXS, r.meter, r.text)
		p.rows = append(p.rows, r)
		p.list.Add(r.box)
	}
	for i, r := range p.rows {
		kit.SetVisible(r.box, i < len(list))
		if i < len(list) {
			r.meter.SetLabel(list[i].Name)
			r.meter.Set(list[i].Share, list[i].Amount)
			r.text.Set(list[i].Text)
		}
	}
}

// lines are those of the account.
type lines struct {
	card *kit.Panel
	list *fyne.Container
	more *kit.Button
	rows []*line
}

type line struct {
	when, what, about, amount *kit.Text
	box                       fyne.CanvasObject
}

func newLines(w *words.Words, m *vm.Model) *lines {
	l := &lines{list: kit.Rows()}
	l.more = kit.Secondary(w.T("earnings.more"), m.More).Compact()
	l.card = kit.TitledCard(w.T("earnings.lines"), kit.Quiet(w.T("earnings.csv"), m.ExportStatement).Compact().WithIcon(theme.IconSave),
		l.list, kit.Wrapped(theme.GapS, l.more))
	return l
}

func (l *lines) update(v *vm.View) {
	kit.SetVisible(l.card, len(v.Lines) > 0)
	for len(l.rows) < len(v.Lines) {
		r := &line{when: kit.Caption(""), what: kit.Line("").Cut(), about: kit.Caption("").Cut(), amount: kit.Strong("").Trailing()}
		r.box = kit.Beside(theme.GapM, kit.Fixed(120, r.when), kit.Grow(kit.Column(2, r.what, r.about)), r.amount)
		l.rows = append(l.rows, r)
		l.list.Add(r.box)
	}
	for i, r := range l.rows {
		kit.SetVisible(r.box, i < len(v.Lines))
		if i < len(v.Lines) {
			x := &v.Lines[i]
			r.when.Set(x.When)
			r.what.Set(x.What)
			r.about.Set(x.About)
			kit.SetVisible(r.about, x.About != "")
			r.amount.Set(x.Amount)
			tone := kit.Good
			if x.Out {
				tone = kit.Subtle
			}
			r.amount.SetTone(tone)
		}
	}
	kit.SetVisible(l.more, v.More)
	l.more.SetEnabled(!v.LoadingMore)
}
