package settings

import (
	"math"
	"strings"

	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	vm "neuron/app/viewmodel/settings"
	"neuron/engine/policy"
)

// keep adds a row and what takes the settings to its control.
func (p *Page) keep(field string, r *kit.Row, take func(s *policy.Settings, v *vm.View)) *kit.Row {
	p.rows[field] = r
	p.copies = append(p.copies, take)
	return r
}

// toggle is a row with a switch. at gives the place of the value.
func (p *Page) toggle(field, label, explanation string, at func(s *policy.Settings) *bool) *kit.Row {
	t := kit.NewToggle(false, nil)
	t.OnChanged = func(on bool) { p.model.Change(label, func(s *policy.Settings) { *at(s) = on }) }
	return p.keep(field, kit.NewRow(label, explanation, t), func(s *policy.Settings, _ *vm.View) { t.Set(*at(s)) })
}

// number is a row with a number: unit is its name, times what one of it is.
// empty is what stands there for 0, "" when 0 is shown as such.
func (p *Page) number(field, label, explanation, unit, empty string, times float64, at func(s *policy.Settings) *int64) *kit.Row {
	var n *kit.NumberField
	var r *kit.Row
	n = kit.NewNumberField(0, unit, empty, func(v float64) {
		p.model.Change(label, func(s *policy.Settings) { *at(s) = int64(math.Round(v * times)) })
	}, func(string) { r.SetProblem(p.words.T("settings.bad_number")) })
	r = kit.NewRow(label, explanation, n)
	return p.keep(field, r, func(s *policy.Settings, _ *vm.View) { n.Set(math.Round(float64(*at(s))/times*10) / 10) })
}

// count is number for a plain int.
func (p *Page) count(field, label, explanation, unit, empty string, at func(s *policy.Settings) *int) *kit.Row {
	var n *kit.NumberField
	var r *kit.Row
	n = kit.NewNumberField(0, unit, empty, func(v float64) {
		p.model.Change(label, func(s *policy.Settings) { *at(s) = int(v) })
	}, func(string) { r.SetProblem(p.words.T("settings.bad_number")) })
	r = kit.NewRow(label, explanation, n)
	return p.keep(field, r, func(s *policy.Settings, _ *vm.View) { n.Set(float64(*at(s))) })
}

// text is a row with a line of text.
func (p *Page) text(field, label, explanation, empty string, at func(s *policy.Settings) *string) *kit.Row {
	f := kit.NewField("", empty, func(text string) {
		p.model.Change(label, func(s *policy.Settings) { *at(s) = strings.TrimSpace(text) })
	})
	return p.keep(field, kit.NewRow(label, explanation, kit.Fixed(300, f)), func(s *policy.Settings, _ *vm.View) { f.Set(*at(s)) })
}

func cards(objects ...fyne.CanvasObject) []fyne.CanvasObject { return objects }
