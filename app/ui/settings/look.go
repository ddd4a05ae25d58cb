package settings

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	"neuron/app/viewmodel/login"
	"neuron/engine/protocol"
	"neuron/internal/desktop/prefs"
	"neuron/internal/desktop/words"
)

// scales are the sizes that can be chosen, 1 is the system's.
var scales = []float64{0.75, 0.9, 1, 1.15, 1.3, 1.5, 2}

// windowCards are about the window and the start; they need no engine.
func (p *Page) windowCards() []fyne.CanvasObject {
	w := p.words
	now := p.env.Prefs.Get()

	reopen := kit.NewNotice(kit.Accent, w.T("settings.reopen_text"), "", kit.Secondary(w.T("settings.reopen"), func() { p.env.Reopen() }).Compact())
	reopen.Hide()
	problem := kit.NewNotice(kit.Bad, "", "")
	problem.Hide()
	set := func(again bool, f func(*prefs.Prefs)) {
		if err := p.env.Prefs.Update(f); err != nil {
			problem.Set(kit.Bad, w.T("settings.prefs_failed"), err.Error())
			problem.Show()
		} else {
			problem.Hide()
		}
		if again {
			reopen.Show()
		}
		p.frame.Arrange()
	}

	modes := theme.Modes()
	chosen := 0
	for i, m := range modes {
		if string(m) == now.Theme {
			chosen = i
		}
	}
	look := kit.NewSegmented([]string{w.T("settings.theme_system"), w.T("settings.theme_dark"), w.T("settings.theme_light")}, chosen,
		func(i int) { set(false, func(pr *prefs.Prefs) { pr.Theme = string(modes[i]) }) })

	tags, names, language := []string{"system"}, []string{w.T("settings.language_system")}, 0
	for i, l := range words.Languages() {
		tags, names = append(tags, l.Tag), append(names, l.Name)
		if l.Tag == now.Language {
			language = i + 1
		}
	}
	var lang *widget.Select
	lang, langBox := kit.NewSelect(200, names, language, func(i int) { set(true, func(pr *prefs.Prefs) { pr.Language = tags[i] }) })
	lang.Alignment = fyne.TextAlignLeading

	sizes, size := make([]string, len(scales)), -1
	for i, s := range scales {
		sizes[i] = w.Percent(s)
		if s == now.Scale {
			size = i
		}
	}
	_, sizeBox := kit.NewSelect(200, sizes, size, func(i int) { set(true, func(pr *prefs.Prefs) { pr.Scale = scales[i] }) })

	pref := func(label, text string, at func(*prefs.Prefs) *bool) *kit.Row {
		on := now
		return kit.NewRow(label, text, kit.NewToggle(*at(&on), func(v bool) { set(false, func(pr *prefs.Prefs) { *at(pr) = v }) }))
	}
	login := p.login(problem)
	keep := pref(w.T("settings.keep_running"), w.T("settings.keep_running_text"), func(pr *prefs.Prefs) *bool {
		pr.Asked["close"] = true // the question at the first closing is answered
		return &pr.HideOnClose
	})

	return cards(reopen, problem,
		kit.TitledCard(w.T("settings.look_title"), nil, kit.Rows(
			kit.NewRow(w.T("settings.theme"), "", look),
			kit.NewRow(w.T("settings.language"), "", langBox),
			kit.NewRow(w.T("settings.scale"), w.T("settings.scale_text"), sizeBox),
		)),
		kit.TitledCard(w.T("settings.start_title"), nil, kit.Rows(
			login,
			keep,
			pref(w.T("settings.notify"), w.T("settings.notify_text"), func(pr *prefs.Prefs) *bool { return &pr.Notify }),
		)))
}

// login is the row for the start at login. What the system says counts, not what
// was chosen here.
func (p *Page) login(problem *kit.Notice) *kit.Row {
	w := p.words
	s := login.New(p.env.Data)
	t := kit.NewToggle(false, nil)
	row := kit.NewRow(w.T("settings.login"), w.T("settings.login_text"), t)
	show := func() {
		on, err := s.On()
		t.Set(on)
		t.SetEnabled(err == nil)
		if err != nil {
			e := protocol.AsError(err)
			text, _ := w.Code(e.Code, e.Message)
			row.SetProblem(text)
		}
	}
	t.OnChanged = func(on bool) {
		if err := s.Set(on); err != nil {
			e := protocol.AsError(err)
			text, remedy := w.Code(e.Code, e.Message)
			problem.Set(kit.Warn, text, remedy)
			problem.Show()
			p.frame.Arrange()
		}
		show()
	}
	show()
	return row
}
