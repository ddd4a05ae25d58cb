package share

import (
	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/share"
	"neuron/engine/localapi"
	"neuron/internal/desktop/words"
)

// live lists the conversations that run through this computer.
type live struct {
	words *words.Words
	card  *kit.Panel
	list  *fyne.Container
	rows  []*liveRow
	more  *kit.Text
}

type liveRow struct {
	name, text *kit.Text
	box        fyne.CanvasObject
}

// mostLive bounds the list.
const mostLive = 12

func newLive(w *words.Words) *live {
	l := &live{words: w, list: kit.Column(theme.GapS), more: kit.Muted("")}
	l.card = kit.TitledCard(w.T("share.live_title"), nil, l.list, l.more)
	return l
}

func (l *live) update(v *vm.View, there bool) {
	kit.SetVisible(l.card, there && len(v.Sessions) > 0)
	list := v.Sessions[:min(len(v.Sessions), mostLive)]
	for len(l.rows) < len(list) {
		r := &liveRow{name: kit.Mono(""), text: kit.Line("").Cut()}
		r.box = kit.Beside(theme.GapM, r.name, r.text)
		l.rows = append(l.rows, r)
		l.list.Add(r.box)
	}
	for i, r := range l.rows {
		kit.SetVisible(r.box, i < len(list))
		if i < len(list) {
			r.name.Set(list[i].Name)
			r.text.Set(list[i].Text)
		}
	}
	kit.SetVisible(l.more, len(v.Sessions) > mostLive)
	l.more.Set(l.words.T("share.live_more", "Count", len(v.Sessions)-mostLive))
}

// host says what this computer is.
type host struct {
	words   *words.Words
	card    *kit.Panel
	text    *kit.Text
	speed   *kit.Text
	measure *kit.Button
}

func newHost(w *words.Words, m *vm.Model) *host {
	h := &host{words: w, text: kit.Sentence(""), speed: kit.Muted("")}
	h.measure = kit.Secondary(w.T("share.measure"), m.Measure).Compact()
	h.card = kit.TitledCard(w.T("share.host_title"), h.measure, h.text, h.speed)
	return h
}

func (h *host) update(v *vm.View) {
	text := v.Hardware
	if text == "" {
		text = h.words.T("share.host_unknown")
	}
	h.text.Set(text)
	h.speed.Set(v.Measured)
	kit.SetVisible(h.speed, v.Measured != "")
	label := h.words.T("share.measure")
	if v.Measuring {
		label = h.words.T("share.measuring")
	}
	h.measure.Set(label, "")
	h.measure.SetEnabled(!v.Measuring)
}

// notices are the health entries.
type notices struct {
	box  *fyne.Container
	rows []*kit.Notice
}

func newNotices() *notices { return &notices{box: kit.Column(theme.GapS)} }

// mostNotices bounds them; the diagnostics page has all.
const mostNotices = 4

func (n *notices) update(list []vm.Health, there bool) {
	list = list[:min(len(list), mostNotices)]
	for len(n.rows) < len(list) {
		r := kit.NewNotice(kit.Warn, "", "")
		n.rows = append(n.rows, r)
		n.box.Add(r)
	}
	for i, r := range n.rows {
		kit.SetVisible(r, i < len(list))
		if i < len(list) {
			tone := kit.Warn
			switch list[i].Severity {
			case localapi.SeverityError:
				tone = kit.Bad
			case localapi.SeverityInfo:
				tone = kit.Accent
			}
			r.Set(tone, list[i].Text, list[i].Remedy)
		}
	}
	kit.SetVisible(n.box, there && len(list) > 0)
}
