package settings

import (
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/internal/desktop/words"
)

// updatesCard says whether a newer version is there, and gets it.
type updatesCard struct {
	page  *Page
	words *words.Words
	card  fyne.CanvasObject

	row                                  *kit.Row
	check, fetch, install, news, dismiss *kit.Button
	auto, feed                           *kit.Row
	problem                              *kit.Notice
	begun                                *kit.Notice
	shown                                string // which parts are to be seen
}

func newUpdatesCard(p *Page) *updatesCard {
	w := p.words
	u := &updatesCard{page: p, words: w}
	u.check = kit.Secondary(w.T("settings.update_check"), p.updates.Check).Compact()
	u.fetch = kit.Primary(w.T("settings.update_fetch"), p.updates.Download).Compact()
	u.install = kit.Primary(w.T("settings.update_install"), u.ask).Compact()
	u.news = kit.Quiet(w.T("settings.update_news"), u.tell).Compact()
	u.dismiss = kit.Quiet(w.T("settings.update_dismiss"), u.hide).Compact()
	u.row = kit.NewRow(w.T("settings.update_state"), "–", kit.Beside(theme.GapXS, u.dismiss, u.news, u.check, u.fetch, u.install))
	u.problem, u.begun = kit.NewNotice(kit.Warn, "", ""), kit.NewNotice(kit.Accent, "", "")
	u.problem.Hide()
	u.begun.Hide()
	u.auto = p.toggle("updates.check", w.T("settings.update_auto"), w.T("settings.update_auto_text"), func(s *policy.Settings) *bool { return &s.Updates.Check })
	u.feed = p.text("updates.feed", w.T("settings.update_feed"), w.T("settings.update_feed_text"), w.T("settings.update_feed_own"), func(s *policy.Settings) *string { return &s.Updates.Feed })
	u.card = kit.TitledCard(w.T("settings.update_title"), nil, u.problem, u.begun, kit.Rows(u.row, u.auto, u.feed))
	return u
}

// update copies the model to the card.
func (u *updatesCard) update() {
	v := u.page.updates.View()
	s := v.Update
	if s == nil {
		s = &localapi.Update{}
	}
	u.row.SetExplanation(u.state(s))
	r := s.Release
	there := r != nil && r.Name != ""
	visible := map[fyne.CanvasObject]bool{
		u.check:   s.State != "" && s.State != localapi.UpdateUnsupported && s.State != localapi.UpdateDownloading,
		u.fetch:   there && s.State == localapi.UpdateAvailable,
		u.install: s.State == localapi.UpdateReady,
		u.news:    r != nil && (r.Page != "" || note(r, u.words.Language()) != ""),
		u.dismiss: r != nil && !r.Dismissed && s.State != localapi.UpdateDownloading,
	}
	err := v.Err
	if err == nil {
		err = s.Error
	}
	visible[u.problem], visible[u.begun] = err != nil, err == nil && v.Installing != nil
	if err != nil {
		text, remedy := u.words.Code(err.Code, err.Message)
		if log := err.Detail["log"]; log != "" { // of Neuron's own installer
			text, remedy = u.words.T("settings.update_failed", "File", log), err.Detail["said"]
		}
		u.problem.Set(kit.Warn, text, remedy)
	}
	if in := v.Installing; in != nil {
		text := u.words.T("settings.update_opened", "File", in.File)
		if in.Silent {
			text = u.words.T("settings.update_runs")
		}
		u.begun.Set(kit.Accent, text, in.Command)
	}
	shown := ""
	for _, o := range []fyne.CanvasObject{u.check, u.fetch, u.install, u.news, u.dismiss, u.begun, u.problem} {
		kit.SetVisible(o, visible[o])
		if visible[o] {
			shown += "+"
		} else {
			shown += "-"
		}
	}
	for _, b := range []*kit.Button{u.check, u.fetch, u.install, u.dismiss} {
		b.SetEnabled(!v.Busy)
	}
	if shown != u.shown {
		u.shown = shown
		u.page.frame.Arrange()
	}
}

// state says in a sentence how far the next version is.
func (u *updatesCard) state(s *localapi.Update) string {
	w := u.words
	newest := ""
	if r := s.Release; r != nil {
		newest = w.T("settings.update_newest", "Version", r.Version, "Now", s.Version)
	}
	switch s.State {
	case localapi.UpdateUnsupported:
		return w.T("settings.update_unsupported", "Now", s.Version)
	case localapi.UpdateOff:
		return w.T("settings.update_off", "Now", s.Version)
	case localapi.UpdateUnknown:
		return w.T("settings.update_unknown", "Now", s.Version)
	case localapi.UpdateCurrent:
		return w.T("settings.update_current", "Now", s.Version, "Time", w.Time(s.Checked))
	case localapi.UpdateAvailable:
		if s.Release.Name == "" {
			return newest + " " + w.T("settings.update_none")
		}
		return newest + " " + w.T("settings.update_size", "Size", w.Bytes(s.Release.Bytes))
	case localapi.UpdateDownloading:
		return newest + " " + w.T("settings.update_progress", "Done", w.Bytes(s.Done), "Size", w.Bytes(s.Release.Bytes))
	case localapi.UpdateReady:
		return newest + " " + w.T("settings.update_ready")
	}
	return "–"
}

// note is what is new in the user's language, else in English.
func note(r *localapi.Release, language string) string {
	if s := r.Notes[language]; s != "" {
		return s
	}
	return r.Notes["en"]
}

// release is the version that the card shows, nil for none.
func (u *updatesCard) release() *localapi.Release {
	if s := u.page.updates.View().Update; s != nil {
		return s.Release
	}
	return nil
}

// tell shows what is new.
func (u *updatesCard) tell() {
	r := u.release()
	if r == nil {
		return
	}
	w := u.words
	day := r.Date
	if t, err := time.ParseInLocation(time.DateOnly, r.Date, time.Local); err == nil {
		day = w.Day(t)
	}
	text := container.NewVScroll(kit.Sentence(note(r, w.Language())))
	text.SetMinSize(fyne.NewSize(0, 260))
	d := &kit.Dialog{Title: w.T("settings.update_news_title", "Version", r.Version), Text: day, Body: text, Width: 520}
	if r.Page != "" {
		d.Buttons = append(d.Buttons, kit.Secondary(w.T("settings.update_page"), func() { u.page.env.OpenURL(r.Page) }).WithIcon(theme.IconExtern))
	}
	d.Buttons = append(d.Buttons, kit.Primary(w.T("settings.close"), d.Close))
	d.Open(u.page.env.Window)
}

// ask asks before anything is installed: it ends what runs.
func (u *updatesCard) ask() {
	r := u.release()
	if r == nil {
		return
	}
	w := u.words
	kit.Confirm(u.page.env.Window, w.T("settings.update_ask_title", "Version", r.Version), w.T("settings.update_ask"),
		w.T("settings.update_install"), w.T("settings.cancel"), false, u.page.updates.Install)
}

func (u *updatesCard) hide() {
	if r := u.release(); r != nil {
		u.page.updates.Dismiss(r.Version)
	}
}
