package settings

import (
	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/engine/policy"
)

// networkCards are the way to the network, and what of it stays on this
// computer.
func (p *Page) networkCards() []fyne.CanvasObject {
	w := p.words
	return cards(
		kit.TitledCard(w.T("settings.network_title"), nil, kit.Rows(
			p.text("tracker", w.T("settings.tracker"), w.T("settings.tracker_text"), "https://", func(s *policy.Settings) *string { return &s.Tracker }),
			p.text("proxy", w.T("settings.proxy"), w.T("settings.proxy_text"), w.T("settings.proxy_system"), func(s *policy.Settings) *string { return &s.Proxy }),
		)),
		kit.TitledCard(w.T("settings.privacy_title"), nil,
			kit.Sentence(w.T("settings.privacy_text")),
			kit.Divider(),
			p.toggle("snapshots", w.T("settings.snapshots"), w.T("settings.snapshots_text"), func(s *policy.Settings) *bool { return &s.Snapshots })),
	)
}
