package network

import (
	"strings"

	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/network"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/words"
)

// connection is the way to the tracker.
type connection struct {
	words  *words.Words
	card   *kit.Panel
	badge  *kit.Badge
	name   *kit.Text
	text   *kit.Text
	url    *kit.Text
	status *kit.Button
	at     string
}

func newConnection(w *words.Words, env *page.Env) *connection {
	c := &connection{words: w, badge: kit.NewBadge(kit.Plain, "", ""), name: kit.Strong("").Cut(), text: kit.Sentence(""), url: kit.Mono("").Cut()}
	c.status = kit.Secondary(w.T("network.status_page"), func() { env.OpenURL(c.at) }).Compact().WithIcon(theme.IconExtern)
	c.card = kit.TitledCard(w.T("network.connection"), c.badge, c.name, c.text, c.url,
		kit.Wrapped(theme.GapS, c.status, kit.Quiet(w.T("network.change"), func() { env.Open("settings") }).Compact()))
	return c
}

func (c *connection) update(v *vm.View) {
	x := v.Connection
	if x.Connected {
		c.badge.Set(kit.Good, theme.IconGood, c.words.T("network.online"))
	} else {
		c.badge.Set(kit.Warn, theme.IconWarn, c.words.T("network.offline"))
	}
	c.name.Set(x.Name)
	kit.SetVisible(c.name, x.Name != "")
	c.text.Set(x.Text)
	c.url.Set(x.URL)
	c.at = x.URL
	kit.SetVisible(c.url, x.URL != "")
	kit.SetVisible(c.status, x.URL != "")
}

// routes are the ways of this computer's conversations.
type routes struct {
	words *words.Words
	card  *kit.Panel
	list  *fyne.Container
	empty fyne.CanvasObject
	rows  []*route
}

type route struct {
	name, text, fault *kit.Text
	badge             *kit.Badge
	hops              *fyne.Container
	pills             []*kit.Badge
	box               fyne.CanvasObject
}

func newRoutes(w *words.Words, chat func()) *routes {
	r := &routes{words: w, list: kit.Column(theme.GapL)}
	r.empty = kit.Empty(theme.IconChat, w.T("network.routes_none"), w.T("network.routes_none_text"), kit.Secondary(w.T("network.chat"), chat))
	r.card = kit.TitledCard(w.T("network.routes"), nil, r.empty, r.list)
	return r
}

func newRoute() *route {
	x := &route{name: kit.Strong("").Cut(), text: kit.Muted(""), fault: kit.Muted("").SetTone(kit.Bad), badge: kit.NewBadge(kit.Plain, "", ""), hops: kit.Wrapped(theme.GapS)}
	x.box = kit.Column(theme.GapS, kit.Beside(theme.GapM, x.name, x.badge), x.hops, x.text, x.fault)
	return x
}

// phases are what people see of them.
var phases = map[protocol.Phase]struct {
	tone kit.Tone
	icon theme.Icon
	word string
}{
	protocol.PhaseQueued:  {kit.Plain, theme.IconClock, "network.phase_queued"},
	protocol.PhaseRouting: {kit.Accent, theme.IconNetwork, "network.phase_routing"},
	protocol.PhaseOpening: {kit.Accent, theme.IconNetwork, "network.phase_opening"},
	protocol.PhasePrefill: {kit.Accent, theme.IconEye, "network.phase_prefill"},
	protocol.PhaseDecode:  {kit.Accent, theme.IconEdit, "network.phase_decode"},
	protocol.PhaseDone:    {kit.Good, theme.IconGood, "network.phase_done"},
	protocol.PhaseFailed:  {kit.Bad, theme.IconBad, "network.phase_failed"},
}

func (r *routes) update(list []vm.Route) {
	kit.SetVisible(r.empty, len(list) == 0)
	for len(r.rows) < len(list) {
		x := newRoute()
		r.rows = append(r.rows, x)
		r.list.Add(x.box)
	}
	for i, x := range r.rows {
		kit.SetVisible(x.box, i < len(list))
		if i < len(list) {
			r.fill(x, &list[i])
		}
	}
}

func (r *routes) fill(x *route, v *vm.Route) {
	x.name.Set(v.Model + "  " + v.Name)
	x.text.Set(v.Text)
	if p, ok := phases[v.Phase]; ok {
		x.badge.Set(p.tone, p.icon, r.words.T(p.word))
	} else {
		x.badge.Set(kit.Plain, "", string(v.Phase)) // of a later version
	}
	kit.SetVisible(x.fault, v.Err != nil)
	if v.Err != nil {
		text, _ := r.words.Code(v.Err.Code, v.Err.Message)
		x.fault.Set(text)
	}
	for len(x.pills) < len(v.Hops) {
		b := kit.NewBadge(kit.Plain, "", "")
		x.pills = append(x.pills, b)
		x.hops.Add(b)
	}
	for i, b := range x.pills {
		kit.SetVisible(b, i < len(v.Hops))
		if i < len(v.Hops) {
			h := v.Hops[i]
			word := h.Layers + "  " + h.Node
			if h.Time != "" {
				word += "  " + h.Time
			}
			switch h.Health {
			case protocol.HealthLost:
				b.Set(kit.Bad, theme.IconBad, word)
			case protocol.HealthSlow:
				b.Set(kit.Warn, theme.IconClock, word)
			default:
				b.Set(kit.Plain, theme.IconCPU, word)
			}
		}
	}
	kit.SetVisible(x.hops, len(v.Hops) > 0)
}

// access is how other programs reach the API of this computer.
type access struct {
	words *words.Words
	card  *kit.Panel
	url   *kit.Code
	key   *kit.Code
	curl  *kit.Code
	eye   *kit.Button
	open  bool // the key is shown
	now   localapi.Access
}

func newAccess(w *words.Words) *access {
	a := &access{words: w}
	copied, done := w.T("network.copy"), w.T("network.copied")
	a.url = kit.NewCode(w.T("network.access_url"), "", copied, done)
	a.key = kit.NewCode(w.T("network.access_key"), "", "", "")
	a.curl = kit.NewCode("curl", "", "", "")
	a.eye = kit.Secondary("", a.toggle).Compact().WithIcon(theme.IconEye)
	a.card = kit.TitledCard(w.T("network.access"), nil, kit.Muted(w.T("network.access_text")), a.url, a.key, a.curl,
		kit.Wrapped(theme.GapS, a.eye, kit.CopyButton(w.T("network.copy_key"), done, func() string { return a.now.Key }).Compact(),
			kit.CopyButton(w.T("network.copy_curl"), done, func() string { return a.example(a.now.Key) }).Compact()))
	return a
}

func (a *access) toggle() {
	a.open = !a.open
	a.fill()
}

// hide covers the key when the page is left.
func (a *access) hide() {
	a.open = false
	a.fill()
}

func (a *access) update(x *localapi.Access) {
	if x != nil && *x != a.now {
		a.now = *x
	}
	a.fill()
}

func (a *access) fill() {
	key, label := strings.Repeat("•", 12), a.words.T("network.show_key")
	if a.open {
		key, label = a.now.Key, a.words.T("network.hide_key")
	}
	a.url.Set(a.now.URL)
	a.key.Set(key)
	a.curl.Set(a.example(key))
	a.eye.Set(label, theme.IconEye)
}

func (a *access) example(key string) string {
	return "curl " + a.now.URL + "/models \\\n  -H 'Authorization: Bearer " + key + "'"
}
