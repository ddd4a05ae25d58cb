package settings

import (
	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/settings"
	"neuron/internal/desktop/words"
)

// snack says below the page that a change was saved, and takes it back.
type snack struct {
	words   *words.Words
	notice  *kit.Notice
	undo    *kit.Button
	box     *fyne.Container
	arrange func() // lays the page out anew
	said    string // the change that the user has seen and left behind
	last    string
}

func newSnack(w *words.Words, undo, arrange func()) *snack {
	s := &snack{words: w, arrange: arrange}
	s.undo = kit.Secondary(w.T("settings.undo"), undo).Compact()
	s.notice = kit.NewNotice(kit.Good, "", "", s.undo)
	s.box = kit.Inset(theme.GapXXL, theme.GapM, kit.Narrow(theme.Readable-2*theme.GapXXL, s.notice))
	s.box.Hide()
	return s
}

// show says what came of the last change. A problem that stands beside its field
// is not said twice.
func (s *snack) show(v vm.View, rows map[string]*kit.Row) {
	tone, text, remedy := kit.Good, "", ""
	switch {
	case v.Busy:
		return
	case v.Problem != nil && rows[v.Problem.Param] == nil:
		tone = kit.Warn
		text, remedy = s.words.Code(v.Problem.Code, v.Problem.Message)
	case v.Saved != "":
		text = s.words.T("settings.saved", "Name", v.Saved)
		if v.Reloaded {
			remedy = s.words.T("settings.reloaded")
		}
	}
	key := text + remedy
	if key == s.said {
		return
	}
	s.last = key
	s.said = ""
	s.notice.Set(tone, text, remedy)
	s.undo.Hidden = !v.Undo
	s.visible(text != "")
}

func (s *snack) visible(on bool) {
	if s.box.Hidden == on {
		s.box.Hidden = !on
		s.arrange()
	}
}

// hide leaves the last change behind.
func (s *snack) hide() {
	s.said = s.last
	s.visible(false)
}
