package settings

import (
	"slices"
	"strings"

	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/settings"
	"neuron/engine/policy"
)

// sharingCards say when to share.
func (p *Page) sharingCards() []fyne.CanvasObject {
	w := p.words
	minutes := p.count("rules.idle_minutes", w.T("settings.idle_minutes"), "", w.T("settings.minutes"), "",
		func(s *policy.Settings) *int { return &s.Rules.IdleMinutes })
	rules := kit.TitledCard(w.T("settings.when_title"), nil, kit.Rows(
		p.toggle("share", w.T("settings.share"), w.T("settings.share_text"), func(s *policy.Settings) *bool { return &s.Share }),
		p.toggle("rules.only_idle", w.T("settings.only_idle"), w.T("settings.only_idle_text"), func(s *policy.Settings) *bool { return &s.Rules.OnlyIdle }),
		minutes,
		p.toggle("rules.on_battery", w.T("settings.on_battery"), w.T("settings.on_battery_text"), func(s *policy.Settings) *bool { return &s.Rules.OnBattery }),
		p.toggle("rules.on_metered", w.T("settings.on_metered"), w.T("settings.on_metered_text"), func(s *policy.Settings) *bool { return &s.Rules.OnMetered }),
		p.toggle("rules.full_screen", w.T("settings.full_screen"), w.T("settings.full_screen_text"), func(s *policy.Settings) *bool { return &s.Rules.FullScreen }),
		p.count("rules.busy_percent", w.T("settings.busy"), w.T("settings.busy_text"), "%", w.T("settings.never"), func(s *policy.Settings) *int { return &s.Rules.BusyPercent }),
		p.apps(),
	))
	return cards(rules, p.schedule())
}

// apps is the list of programs that pause sharing.
func (p *Page) apps() *kit.Row {
	w := p.words
	label := w.T("settings.apps")
	f := kit.NewField("", w.T("settings.apps_empty"), func(text string) {
		list := []string{}
		for name := range strings.SplitSeq(text, ",") {
			if name = strings.TrimSpace(name); name != "" && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
		p.model.Change(label, func(s *policy.Settings) { s.Rules.Apps = list })
	})
	return p.keep("rules.apps", kit.NewRow(label, w.T("settings.apps_text"), kit.Fixed(300, f)),
		func(s *policy.Settings, _ *vm.View) { f.Set(strings.Join(s.Rules.Apps, ", ")) })
}

// schedule is the card with the hours of the week.
func (p *Page) schedule() fyne.CanvasObject {
	w := p.words
	label := w.T("settings.schedule")
	on := kit.NewToggle(false, func(on bool) { p.model.Change(label, func(s *policy.Settings) { s.Schedule.On = on }) })
	row := p.keep("schedule.on", kit.NewRow(label, w.T("settings.schedule_text"), on), func(s *policy.Settings, _ *vm.View) { on.Set(s.Schedule.On) })
	days := [7]string{
		w.T("settings.day_mon"), w.T("settings.day_tue"), w.T("settings.day_wed"), w.T("settings.day_thu"),
		w.T("settings.day_fri"), w.T("settings.day_sat"), w.T("settings.day_sun"),
	}
	grid := newGrid(days, func(hours [7]uint32) {
		p.model.Change(label, func(s *policy.Settings) { s.Schedule.Hours = hours })
	})
	summary := kit.Caption("")
	preset := func(id string, hours [7]uint32) *kit.Button {
		return kit.Quiet(w.T(id), func() {
			p.model.Change(label, func(s *policy.Settings) { s.Schedule.Hours, s.Schedule.On = hours, true })
		}).Compact()
	}
	const all, night, day = 1<<24 - 1, 1<<24 - 1<<22 | 1<<7 - 1, 1<<22 - 1<<7
	week := func(work, rest uint32) (h [7]uint32) {
		for i := range h {
			h[i] = work
			if i > 4 {
				h[i] = rest
			}
		}
		return h
	}
	presets := kit.Beside(theme.GapXS, preset("settings.hours_nights", week(night, night)), preset("settings.hours_nights_weekend", week(night, all)),
		preset("settings.hours_days", week(day, day)), preset("settings.hours_all", week(all, all)))
	p.copies = append(p.copies, func(s *policy.Settings, _ *vm.View) {
		grid.set(s.Schedule.Hours)
		grid.enable(s.Schedule.On)
		summary.Set(w.T("settings.hours_count", "Count", grid.count()))
	})
	return kit.Card(row, grid, kit.Beside(theme.GapM, summary, kit.Spacer(), presets))
}
