package settings

import (
	"slices"
	"strings"

	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/settings"
	"neuron/engine/localapi"
	"neuron/engine/policy"
)

// Units of what is typed. Memory is counted as shops do, the rest as disks and
// networks are.
const (
	gibi = 1 << 30
	giga = 1e9
	mega = 1e6
)

// limitCards say how much sharing may take.
func (p *Page) limitCards() []fyne.CanvasObject {
	w := p.words
	auto, none := w.T("settings.automatic"), w.T("settings.no_limit")
	machine := kit.TitledCard(w.T("settings.computer_title"), nil, kit.Rows(
		p.count("limits.threads", w.T("settings.threads"), w.T("settings.threads_text"), "", auto, func(s *policy.Settings) *int { return &s.Limits.Threads }),
		p.number("limits.memory_bytes", w.T("settings.memory"), w.T("settings.memory_text"), "GB", none, gibi, func(s *policy.Settings) *int64 { return &s.Limits.MemoryBytes }),
		p.count("limits.sessions", w.T("settings.sessions"), w.T("settings.sessions_text"), "", none, func(s *policy.Settings) *int { return &s.Limits.Sessions }),
	))
	disk := kit.TitledCard(w.T("settings.disk_title"), nil, kit.Rows(
		p.number("limits.disk_bytes", w.T("settings.disk"), w.T("settings.disk_text"), "GB", none, giga, func(s *policy.Settings) *int64 { return &s.Limits.DiskBytes }),
		p.number("limits.keep_free", w.T("settings.keep_free"), w.T("settings.keep_free_text"), "GB", "0", giga, func(s *policy.Settings) *int64 { return &s.Limits.KeepFree }),
	))
	net := kit.TitledCard(w.T("settings.transfer_title"), nil, kit.Rows(
		p.number("limits.up_rate", w.T("settings.up"), "", "MB/s", none, mega, func(s *policy.Settings) *int64 { return &s.Limits.UpRate }),
		p.number("limits.down_rate", w.T("settings.down"), "", "MB/s", none, mega, func(s *policy.Settings) *int64 { return &s.Limits.DownRate }),
		p.number("limits.day_bytes", w.T("settings.day"), w.T("settings.day_text"), "GB", none, giga, func(s *policy.Settings) *int64 { return &s.Limits.DayBytes }),
	))
	return cards(machine, p.gpus(), disk, net)
}

// gpus has a switch for each device.
func (p *Page) gpus() fyne.CanvasObject {
	w := p.words
	label := w.T("settings.gpus_title")
	none := kit.Muted(w.T("settings.gpus_none"))
	list := kit.Column(theme.GapS, none)
	gone := kit.Muted("").SetTone(kit.Warn)
	card := kit.TitledCard(label, nil, list, gone)
	var shown []localapi.GPU
	var toggles map[string]*kit.Toggle
	p.copies = append(p.copies, func(s *policy.Settings, v *vm.View) {
		if v.Hardware != nil && len(v.Hardware.GPUs) == 0 && slices.Equal(v.Hardware.Library, []string{"CPU"}) {
			none.Set(w.T("settings.gpus_cpu"))
		}
		missing := slices.DeleteFunc(slices.Clone(s.Limits.GPUs), func(n string) bool {
			return v.Hardware == nil || slices.ContainsFunc(v.Hardware.GPUs, func(g localapi.GPU) bool { return g.Name == n })
		})
		kit.SetVisible(gone, len(missing) > 0)
		gone.Set(w.T("settings.gpus_gone", "Name", strings.Join(missing, ", ")))
		if v.Hardware != nil && !slices.Equal(shown, v.Hardware.GPUs) {
			shown = slices.Clone(v.Hardware.GPUs)
			toggles = make(map[string]*kit.Toggle)
			var rows []fyne.CanvasObject
			for _, g := range shown {
				t := kit.NewToggle(false, func(on bool) {
					p.model.Change(label+": "+g.Name, func(s *policy.Settings) {
						s.Limits.GPUs = slices.DeleteFunc(s.Limits.GPUs, func(n string) bool { return n == g.Name })
						if on {
							s.Limits.GPUs = append(s.Limits.GPUs, g.Name)
						}
					})
				})
				toggles[g.Name] = t
				text := w.T("settings.gpu_memory", "Kind", g.Kind, "Memory", w.Memory(g.Memory))
				if !g.Usable {
					t.Disable()
					text = w.T("settings.gpu_unusable")
				}
				rows = append(rows, kit.NewRow(g.Name, text, t))
			}
			list.Objects = []fyne.CanvasObject{kit.Muted(w.T("settings.gpus_text")), kit.Rows(rows...)}
			if len(rows) == 0 {
				list.Objects = []fyne.CanvasObject{none}
			}
			p.frame.Arrange()
		}
		for name, t := range toggles {
			t.Set(slices.Contains(s.Limits.GPUs, name))
		}
	})
	return card
}
