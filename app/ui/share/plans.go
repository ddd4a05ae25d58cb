package share

import (
	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/share"
	"neuron/internal/desktop/words"
)

// plans is the choice of what to hold.
type plans struct {
	words *words.Words
	model *vm.Model
	done  func()
	card  *kit.Panel
	state *kit.One
	fault *kit.Text
	list  *fyne.Container
	shown []vm.Plan
}

// The states of the choice.
const (
	plansLoading = iota
	plansFailed
	plansList
)

func newPlans(w *words.Words, m *vm.Model, retry, done func()) *plans {
	p := &plans{words: w, model: m, done: done, fault: kit.Sentence(""), list: kit.Column(theme.GapL)}
	p.state = kit.NewOne(kit.NewLoading(w.T("share.plans_loading")),
		kit.Column(theme.GapM, p.fault, kit.Beside(theme.GapS, kit.Secondary(w.T("share.retry"), retry).Compact())), p.list)
	p.card = kit.TitledCard(w.T("share.plans_title"), kit.Quiet(w.T("share.close"), done).Compact(),
		kit.Muted(w.T("share.plans_text")),
		kit.Beside(theme.GapS, kit.Primary(w.T("share.plans_auto"), func() { p.hold("", "") })),
		kit.Divider(), p.state)
	return p
}

func (p *plans) hold(model, layers string) {
	p.model.Hold(model, layers)
	p.done()
}

func (p *plans) update(v *vm.View) {
	switch {
	case v.Planning:
		p.state.Select(plansLoading)
	case v.PlanErr != nil:
		text, remedy := p.words.Code(v.PlanErr.Code, v.PlanErr.Message)
		p.fault.Set(text + " " + remedy)
		p.state.Select(plansFailed)
	default:
		p.fill(v.Plans)
		p.state.Select(plansList)
	}
}

// fill builds the list when it is another one.
func (p *plans) fill(list []vm.Plan) {
	if same(p.shown, list) {
		return
	}
	p.shown = list
	p.list.RemoveAll()
	for _, x := range list {
		rows := []fyne.CanvasObject{kit.Strong(x.Name).Cut()}
		if x.Text != "" {
			rows = append(rows, kit.Muted(x.Text))
		}
		for _, r := range x.Ranges {
			rows = append(rows, kit.NewRow(r.Title, r.Text, kit.Secondary(p.words.T("share.hold"), func() { p.hold(x.Model, r.Layers) }).Compact()))
		}
		p.list.Add(kit.Column(theme.GapS, rows...))
	}
	if len(list) == 0 {
		p.list.Add(kit.Muted(p.words.T("share.plans_none")))
	}
}

func same(a, b []vm.Plan) bool {
	if a == nil || len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Model != b[i].Model || a[i].Text != b[i].Text || len(a[i].Ranges) != len(b[i].Ranges) {
			return false
		}
		for j := range a[i].Ranges {
			if a[i].Ranges[j] != b[i].Ranges[j] {
				return false
			}
		}
	}
	return true
}
