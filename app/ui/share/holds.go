package share

import (
	"slices"

	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/share"
	"neuron/engine/protocol"
	"neuron/internal/desktop/words"
)

// holds shows what this computer holds.
type holds struct {
	words *words.Words
	card  *kit.Panel
	list  *fyne.Container
	empty fyne.CanvasObject
	rows  []*held
}

func newHolds(w *words.Words, choose func()) *holds {
	h := &holds{words: w, list: kit.Column(theme.GapL)}
	h.empty = kit.Muted(w.T("share.holds_none"))
	h.card = kit.TitledCard(w.T("share.holds_title"), kit.Secondary(w.T("share.choose"), choose).Compact(), h.empty, h.list)
	return h
}

// held is one shard.
type held struct {
	name, text *kit.Text
	badge      *kit.Badge
	meter      *kit.Meter
	strip      *kit.Strip
	notice     *kit.Notice
	box        *fyne.Container
}

func newHeld() *held {
	x := &held{name: kit.Strong("").Cut(), text: kit.Muted(""), badge: kit.NewBadge(kit.Plain, "", ""), meter: kit.NewMeter("", 0, ""), strip: kit.NewStrip(nil), notice: kit.NewNotice(kit.Warn, "", "")}
	x.box = kit.Column(theme.GapS, kit.Beside(theme.GapM, x.name, x.badge), x.text, x.meter, x.strip, x.notice)
	return x
}

func (h *holds) update(v *vm.View) {
	for len(h.rows) < len(v.Shards) {
		x := newHeld()
		h.rows = append(h.rows, x)
		h.list.Add(x.box)
	}
	for i, x := range h.rows {
		kit.SetVisible(x.box, i < len(v.Shards))
		if i < len(v.Shards) {
			h.fill(x, &v.Shards[i])
		}
	}
	kit.SetVisible(h.empty, len(v.Shards) == 0)
}

// shardLooks are the states of a shard.
var shardLooks = map[protocol.ShardState]struct {
	tone kit.Tone
	icon theme.Icon
	word string
}{
	protocol.ShardDownloading: {kit.Accent, theme.IconLoad, "share.shard_downloading"},
	protocol.ShardVerifying:   {kit.Accent, theme.IconSearch, "share.shard_verifying"},
	protocol.ShardLoading:     {kit.Accent, theme.IconClock, "share.shard_loading"},
	protocol.ShardReady:       {kit.Good, theme.IconGood, "share.shard_ready"},
	protocol.ShardDraining:    {kit.Plain, theme.IconClock, "share.shard_draining"},
	protocol.ShardFailed:      {kit.Bad, theme.IconBad, "share.shard_failed"},
}

func (h *holds) fill(x *held, s *vm.Shard) {
	x.name.Set(s.Name)
	x.text.Set(s.Text)
	l, ok := shardLooks[s.State]
	if ok {
		x.badge.Set(l.tone, l.icon, h.words.T(l.word))
	} else {
		x.badge.Set(kit.Plain, "", string(s.State)) // of a later version
	}
	kit.SetVisible(x.meter, s.Moving)
	if s.Moving {
		x.meter.SetLabel(h.words.T("share.getting"))
		x.meter.Set(s.Part, s.Progress)
	}
	kit.SetVisible(x.strip, slices.Contains(s.Layers, false)) // all layers need no picture
	cells := make([]kit.Cell, len(s.Layers))
	for i, mine := range s.Layers {
		cells[i] = kit.Cell{Count: 1}
		if mine {
			cells[i] = kit.Cell{Count: 3, Mine: true}
		}
	}
	x.strip.Set(cells)
	kit.SetVisible(x.notice, s.Err != nil)
	if s.Err != nil {
		text, remedy := h.words.Code(s.Err.Code, s.Err.Message)
		x.notice.Set(kit.Warn, text, remedy)
	}
}
