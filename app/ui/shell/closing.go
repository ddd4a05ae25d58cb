package shell

import (
	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/internal/desktop/prefs"
)

// askedClose is the name of the question in the preferences.
const askedClose = "close"

// close is what the window's close button and Control+W do: the window goes, and
// Neuron stays or goes as the user has chosen. It asks once.
func (s *Shell) close() {
	p := s.env.Prefs.Get()
	switch {
	case !p.Asked[askedClose]:
		s.askClose()
	case p.HideOnClose:
		s.leave()
	default:
		s.quit()
	}
}

// RequestClose is for the window's close intercept.
func (s *Shell) RequestClose() { s.close() }

func (s *Shell) askClose() {
	w := s.env.Words
	d := &kit.Dialog{Title: w.T("shell.close_title"), Text: w.T("shell.close_text")}
	choose := func(stay bool, then func()) func() {
		return func() {
			d.Close()
			if err := s.env.Prefs.Update(func(p *prefs.Prefs) { p.HideOnClose = stay; p.Asked[askedClose] = true }); err != nil {
				s.logger.Warn("the answer is not remembered", "error", err)
			}
			then()
		}
	}
	stay := kit.Primary(w.T("shell.close_stay"), choose(true, s.leave))
	d.Buttons, d.First = []fyne.CanvasObject{kit.Secondary(w.T("shell.close_quit"), choose(false, s.quit)), stay}, stay
	d.Open(s.env.Window)
}
