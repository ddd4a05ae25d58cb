package share

import (
	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/share"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/words"
)

// hero says whether this computer shares, with what the user can do about it.
type hero struct {
	words *words.Words
	card  *kit.Panel

	badge    *kit.Badge
	sentence *kit.Text
	detail   *kit.Text
	start    *kit.Button // share, or resume
	stop     *kit.Button
	pauses   fyne.CanvasObject
	resume   func()
	share    func()
}

func newHero(w *words.Words, m *vm.Model) *hero {
	h := &hero{
		words: w, badge: kit.NewBadge(kit.Plain, "", ""), sentence: kit.Sentence(""), detail: kit.Muted(""),
		resume: m.Resume, share: func() { m.Share(true) },
	}
	h.start = kit.Primary("", nil)
	h.stop = kit.Quiet(w.T("share.stop"), func() { m.Share(false) })
	pauses := []fyne.CanvasObject{kit.Caption(w.T("share.pause_for"))}
	for _, p := range []struct {
		id    string
		order localapi.PauseOrder
	}{
		{"share.pause_30", localapi.PauseOrder{Seconds: 1800}},
		{"share.pause_60", localapi.PauseOrder{Seconds: 3600}},
		{"share.pause_180", localapi.PauseOrder{Seconds: 3 * 3600}},
		{"share.pause_tomorrow", localapi.PauseOrder{Tomorrow: true}},
		{"share.pause_open", localapi.PauseOrder{UntilResumed: true}},
	} {
		pauses = append(pauses, kit.Secondary(w.T(p.id), func() { m.Pause(p.order) }).Compact())
	}
	h.pauses = kit.Wrapped(theme.GapS, pauses...)
	h.card = kit.Card(
		kit.Beside(theme.GapM, h.badge, kit.Spacer(), h.stop, h.start),
		kit.Column(2, h.sentence, h.detail),
		h.pauses,
	)
	return h
}

// looks of the states.
var looks = map[protocol.SharingState]struct {
	tone kit.Tone
	icon theme.Icon
	word string
}{
	protocol.SharingOn:      {kit.Good, theme.IconShare, "share.state_sharing"},
	protocol.SharingLeaving: {kit.Accent, theme.IconClock, "share.state_leaving"},
	protocol.SharingPaused:  {kit.Plain, theme.IconPause, "share.state_paused"},
	protocol.SharingOff:     {kit.Subtle, theme.IconDot, "share.state_off"},
}

// waits are reasons that are no pause.
var waits = map[protocol.SharingReason]bool{protocol.SharingStarting: true, protocol.SharingNoModel: true}

// broken are reasons that want the user.
var broken = map[protocol.SharingReason]bool{
	protocol.SharingFailed: true, protocol.SharingNoTracker: true, protocol.SharingOperator: true, protocol.SharingDisk: true,
}

func (h *hero) update(v *vm.View) {
	l, ok := looks[v.State]
	if !ok {
		l = looks[protocol.SharingOff]
	}
	switch {
	case broken[v.Reason]:
		l.tone, l.icon, l.word = kit.Warn, theme.IconWarn, "share.state_attention"
	case waits[v.Reason]:
		l.tone, l.icon, l.word = kit.Accent, theme.IconClock, "share.state_waiting"
	}
	h.badge.Set(l.tone, l.icon, h.words.T(l.word))
	h.sentence.Set(v.Sentence)
	h.detail.Set(v.Detail)
	kit.SetVisible(h.detail, v.Detail != "")
	switch {
	case v.Paused:
		h.start.Set(h.words.T("share.resume"), theme.IconPlay)
		h.start.OnTapped = h.resume
	case !v.On:
		h.start.Set(h.words.T("share.on"), theme.IconShare)
		h.start.OnTapped = h.share
	}
	kit.SetVisible(h.start, v.Paused || !v.On)
	kit.SetVisible(h.stop, v.On)
	kit.SetVisible(h.pauses, v.On && !v.Paused)
	h.start.SetEnabled(!v.Busy)
	h.stop.SetEnabled(!v.Busy)
}
