package models

import (
	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/network"
	"neuron/internal/desktop/words"
)

// card is one model.
type card struct {
	words *words.Words
	panel *kit.Panel

	name, text      *kit.Text
	badge, private  *kit.Badge
	strip           *kit.Strip
	coverage, local *kit.Text
	fits            *kit.Text
	chat, hold      *kit.Button
	shown           vm.Entry
}

func (p *Page) newCard() *card {
	w := p.words
	c := &card{
		words: w, name: kit.Heading("").Cut(), text: kit.Muted(""), badge: kit.NewBadge(kit.Plain, "", ""),
		private: kit.NewBadge(kit.Plain, theme.IconLock, w.T("models.private")), strip: kit.NewStrip(nil),
		coverage: kit.Muted(""), local: kit.Muted("").SetTone(kit.Good), fits: kit.Muted(""),
	}
	c.chat = kit.Secondary(w.T("models.chat"), func() { p.env.Open("chat") }).Compact().WithIcon(theme.IconChat)
	c.hold = kit.Secondary(w.T("models.hold"), func() { p.model.Hold(c.shown.ID, c.shown.Name) }).Compact()
	c.panel = kit.Card(
		kit.Beside(theme.GapS, c.name, c.private, c.badge),
		c.text, c.strip, c.coverage, c.local, c.fits,
		kit.Wrapped(theme.GapS, c.chat, c.hold))
	return c
}

func (c *card) fill(m *vm.Entry) {
	c.shown = *m
	c.name.Set(m.Name)
	c.text.Set(m.Text)
	if m.Routable {
		c.badge.Set(kit.Good, theme.IconGood, c.words.T("models.ready"))
	} else {
		c.badge.Set(kit.Warn, theme.IconWarn, c.words.T("models.incomplete"))
	}
	kit.SetVisible(c.private, m.Private)
	cells := make([]kit.Cell, len(m.Replicas))
	for i, n := range m.Replicas {
		cells[i] = kit.Cell{Count: n, Mine: m.Local != nil && m.Local.First <= i && i < m.Local.Last}
	}
	c.strip.Set(cells)
	kit.SetVisible(c.strip, len(cells) > 0)
	c.coverage.Set(m.Coverage)
	c.local.Set(m.LocalText)
	kit.SetVisible(c.local, m.LocalText != "")
	c.fits.Set(m.Fits)
	kit.SetVisible(c.fits, m.Fits != "")
	kit.SetVisible(c.chat, m.Routable)
	kit.SetVisible(c.hold, m.Local == nil)
}
