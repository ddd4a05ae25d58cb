package shell

import (
	"time"

	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

// patience is how long the engine may be away before the banner says so: a
// window that opens beside a starting engine shows nothing.
const patience = 1500 * time.Millisecond

// banner says above every page that the engine is not there, and what to do.
type banner struct {
	env    *page.Env
	notice *kit.Notice
	button *kit.Button
	box    *fyne.Container
}

func newBanner(env *page.Env) *banner {
	b := &banner{env: env, button: kit.Secondary(env.Words.T("shell.start"), env.Link.Retry).Compact()}
	b.notice = kit.NewNotice(kit.Warn, "", "", b.button)
	b.box = kit.Inset(theme.GapXXL, theme.GapM, kit.Narrow(theme.Readable-2*theme.GapXXL, b.notice))
	b.box.Hide()
	return b
}

// show says whether its visibility has changed.
func (b *banner) show(state link.State) bool {
	text, remedy, button := bannerOf(state, b.env.Words, b.env.Now(), b.box.Visible())
	if text == "" {
		was := b.box.Visible()
		b.box.Hide()
		return was
	}
	tone := kit.Warn
	if state.Phase == link.Starting && state.Err == nil {
		tone = kit.Accent
	}
	b.notice.Set(tone, text, remedy)
	b.button.Set(button, "")
	b.button.Hidden = button == ""
	was := !b.box.Visible()
	b.box.Show()
	return was
}

// bannerOf is what there is to say: text "" is nothing, button "" none. One that
// is shown stays until there is an engine, so that who asks for one sees that it
// comes.
func bannerOf(state link.State, w *words.Words, now time.Time, shown bool) (text, remedy, button string) {
	if state.Phase == link.Connected {
		return "", "", ""
	}
	if state.Err != nil {
		text, remedy = w.Code(state.Err.Code, state.Err.Message)
		if state.Phase == link.Absent {
			return w.T("shell.engine_failed"), text + " " + remedy, w.T("shell.retry")
		}
	}
	switch {
	case state.Phase == link.Absent:
		return w.T("shell.engine_absent"), w.T("shell.engine_absent_remedy"), w.T("shell.start")
	case !shown && now.Sub(state.Since) < patience:
		return "", "", ""
	case state.Phase == link.Lost:
		return w.T("shell.engine_lost"), w.T("shell.engine_lost_remedy"), w.T("shell.retry")
	}
	return w.T("shell.engine_starting"), "", ""
}
