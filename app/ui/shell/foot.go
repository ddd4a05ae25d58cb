package shell

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

// foot is the line at the rail's foot: whether this computer shares, or why not.
type foot struct {
	widget.BaseWidget

	env    *page.Env
	tapped func()
	image  *kit.Image
	word   *kit.Text
	text   *kit.Text
	narrow bool
	panel  *kit.Panel
}

var (
	_ fyne.Tappable      = (*foot)(nil)
	_ desktop.Cursorable = (*foot)(nil)
)

func newFoot(env *page.Env, tapped func()) *foot {
	f := &foot{
		env: env, tapped: tapped, image: kit.NewImage(theme.IconDot, kit.Subtle, 18),
		word: kit.Strong("").Cut(), text: kit.Muted(""),
	}
	f.panel = kit.NewPanel(theme.Surface, theme.Border, 10,
		kit.Inset(theme.GapM, 10, kit.Column(theme.GapXS, kit.Beside(theme.GapS, f.image, f.word), f.text)))
	f.ExtendBaseWidget(f)
	return f
}

func (f *foot) Tapped(*fyne.PointEvent) { f.tapped() }
func (f *foot) Cursor() desktop.Cursor  { return desktop.PointerCursor }

func (f *foot) setNarrow(narrow bool) {
	f.narrow = narrow
	f.word.Hidden, f.text.Hidden = narrow, narrow
}

// heightFor is what the foot needs with a width.
func (f *foot) heightFor(w float32) float32 {
	f.panel.Resize(fyne.NewSize(w, f.panel.MinSize().Height))
	return f.panel.MinSize().Height
}

// show says it, and reports whether it may need another height.
func (f *foot) show(state link.State) bool {
	l := lineOf(state, f.env.Words, func(s *localapi.Sharing) string { return f.env.Words.Reason(s.Reason, s.Until, f.env.Now()) })
	f.image.Set(l.icon, l.tone)
	f.word.Set(l.word)
	if f.text.Text() == l.text {
		return false
	}
	f.text.Set(l.text)
	return true
}

func (f *foot) CreateRenderer() fyne.WidgetRenderer {
	return widget.NewSimpleRenderer(f.panel)
}

// line is what the foot says.
type line struct {
	icon       theme.Icon
	tone       kit.Tone
	word, text string
}

// lineOf is what there is to say about a state of the engine.
func lineOf(state link.State, w *words.Words, reason func(*localapi.Sharing) string) line {
	if state.Phase != link.Connected {
		if state.Phase == link.Starting {
			return line{theme.IconRefresh, kit.Subtle, w.T("shell.state_starting"), w.T("shell.engine_starting")}
		}
		return line{theme.IconWarn, kit.Warn, w.T("shell.state_absent"), w.T("shell.engine_absent")}
	}
	p := state.Event.Status.Policy
	if p == nil { // an engine without a desktop
		if state.Event.Status.Sharing {
			return line{theme.IconShare, kit.Good, w.T("shell.state_sharing"), ""}
		}
		return line{theme.IconDot, kit.Subtle, w.T("shell.state_off"), ""}
	}
	text := reason(p)
	switch p.State {
	case protocol.SharingOn:
		if work := state.Event.Status.Work; work != nil && work.Sessions > 0 {
			text = w.T("shell.sessions", "Count", work.Sessions)
		}
		return line{theme.IconShare, kit.Good, w.T("shell.state_sharing"), text}
	case protocol.SharingLeaving:
		return line{theme.IconClock, kit.Accent, w.T("shell.state_leaving"), text}
	case protocol.SharingOff:
		return line{theme.IconDot, kit.Subtle, w.T("shell.state_off"), text}
	}
	switch p.Reason {
	case protocol.SharingFailed, protocol.SharingNoTracker, protocol.SharingDisk, protocol.SharingOperator:
		return line{theme.IconWarn, kit.Warn, w.T("shell.state_attention"), text}
	case protocol.SharingStarting, protocol.SharingNoModel:
		return line{theme.IconClock, kit.Accent, w.T("shell.state_waiting"), text}
	}
	return line{theme.IconPause, kit.Plain, w.T("shell.state_paused"), text}
}
