package wizard

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/wizard"
	"neuron/engine/localapi"
	"neuron/engine/policy"
)

// step is a question's frame.
func step(icon theme.Icon, title, text string, objects ...fyne.CanvasObject) fyne.CanvasObject {
	disc := kit.NewPanel(theme.AccentTint, "", 28, kit.Inset(16, 16, kit.NewImage(icon, kit.Accent, 24)))
	head := []fyne.CanvasObject{container.NewHBox(disc), kit.Title(title).Cut(), kit.Sentence(text).SetTone(kit.Subtle)}
	return kit.Column(theme.GapL, append(head, objects...)...)
}

func (p *Page) welcome() fyne.CanvasObject {
	w := p.words
	point := func(icon theme.Icon, title, text string) fyne.CanvasObject {
		return kit.Beside(theme.GapL, kit.NewImage(icon, kit.Accent, 22), kit.Grow(kit.Column(2, kit.Strong(title), kit.Muted(text))))
	}
	return step(theme.IconNeuron, w.T("wizard.welcome_title"), w.T("wizard.welcome_text"), kit.Card(
		point(theme.IconChat, w.T("wizard.point_use"), w.T("wizard.point_use_text")),
		kit.Divider(),
		point(theme.IconShare, w.T("wizard.point_share"), w.T("wizard.point_share_text")),
		kit.Divider(),
		point(theme.IconPause, w.T("wizard.point_guest"), w.T("wizard.point_guest_text")),
	))
}

func (p *Page) computer() fyne.CanvasObject {
	w := p.words
	loading := kit.NewLoading(w.T("wizard.computer_wait"))
	text := kit.Sentence("")
	cpu, cpuText := fact(theme.IconCPU)
	memory, memoryText := fact(theme.IconMemory)
	gpu, gpuText := fact(theme.IconGPU)
	disk, diskText := fact(theme.IconDisk)
	speed, speedText := fact(theme.IconBolt)
	one := kit.NewOne(loading, kit.Column(theme.GapM, cpu, memory, gpu, disk, speed, kit.Divider(), text))
	p.copies = append(p.copies, func(v *vm.View) {
		h := v.Hardware
		if h == nil {
			return
		}
		cpuText.Set(w.T("wizard.cpu", "Name", h.CPU, "Threads", h.Threads))
		memoryText.Set(w.T("wizard.memory", "Size", w.Memory(h.Memory)))
		gpuText.Set(gpus(h, w.T("wizard.gpu_none")))
		diskText.Set(w.T("wizard.disk", "Free", w.Bytes(h.DiskFree), "Size", w.Bytes(h.Disk)))
		speedText.Set(w.T("wizard.speed_none"))
		if h.Speed != nil {
			speedText.Set(w.T("wizard.speed", "Speed", w.Decimal(h.Speed.TokensPerSecond, 0)))
		}
		text.Set(w.T("wizard.computer_note"))
		one.Select(1)
	})
	return step(theme.IconCPU, w.T("wizard.computer_title"), w.T("wizard.computer_text"), kit.Card(one))
}

func fact(icon theme.Icon) (fyne.CanvasObject, *kit.Text) {
	t := kit.Sentence("")
	return kit.Beside(theme.GapM, kit.NewImage(icon, kit.Subtle, 20), t), t
}

func gpus(h *localapi.Hardware, none string) string {
	names := ""
	for _, g := range h.GPUs {
		if names != "" {
			names += ", "
		}
		names += g.Name
	}
	if names == "" {
		return none
	}
	return names
}

func (p *Page) sharing() fyne.CanvasObject {
	w := p.words
	toggle := func(label, text string, at func(*policy.Settings) *bool) *kit.Row {
		t := kit.NewToggle(false, func(on bool) { p.model.Answer(func(s *policy.Settings) { *at(s) = on }) })
		p.copies = append(p.copies, func(v *vm.View) { t.Set(*at(&v.Draft)) })
		return kit.NewRow(label, text, t)
	}
	const giga, mega = 1e9, 1e6
	number := func(label, text, unit string, times float64, at func(*policy.Settings) *int64) *kit.Row {
		n := kit.NewNumberField(0, unit, w.T("wizard.no_limit"), func(v float64) {
			p.model.Answer(func(s *policy.Settings) { *at(s) = int64(v * times) })
		}, func(string) {})
		p.copies = append(p.copies, func(v *vm.View) { n.Set(float64(int64(float64(*at(&v.Draft))/times*10+0.5)) / 10) })
		return kit.NewRow(label, text, n)
	}
	rules := kit.Card(kit.Rows(
		toggle(w.T("wizard.only_idle"), w.T("wizard.only_idle_text"), func(s *policy.Settings) *bool { return &s.Rules.OnlyIdle }),
		toggle(w.T("wizard.on_battery"), "", func(s *policy.Settings) *bool { return &s.Rules.OnBattery }),
		toggle(w.T("wizard.on_metered"), "", func(s *policy.Settings) *bool { return &s.Rules.OnMetered }),
		number(w.T("wizard.disk_limit"), "", "GB", giga, func(s *policy.Settings) *int64 { return &s.Limits.DiskBytes }),
		number(w.T("wizard.up_limit"), "", "MB/s", mega, func(s *policy.Settings) *int64 { return &s.Limits.UpRate }),
	))
	rules.Hide()
	p.rules = rules
	share := toggle(w.T("wizard.share"), w.T("wizard.share_text"), func(s *policy.Settings) *bool { return &s.Share })
	p.copies = append(p.copies, func(v *vm.View) {
		if rules.Hidden == v.Draft.Share {
			rules.Hidden = !v.Draft.Share
			p.content.Refresh()
		}
	})
	return step(theme.IconShare, w.T("wizard.sharing_title"), w.T("wizard.sharing_text"), kit.Card(share), rules)
}

func (p *Page) network() fyne.CanvasObject {
	w := p.words
	field := kit.NewField("", "https://", nil)
	field.OnChanged = p.model.SetAddress
	field.OnSubmitted = func(string) { p.model.CheckAddress() }
	check := kit.Secondary(w.T("wizard.check"), p.model.CheckAddress)
	result := kit.NewBadge(kit.Subtle, theme.IconDot, w.T("wizard.unchecked"))
	why := kit.Muted("")
	p.address, p.found = field, result
	first := true
	p.copies = append(p.copies, func(v *vm.View) {
		if first && v.Draft.Tracker != "" {
			field.SetText(v.Draft.Tracker)
		}
		first = false
		check.SetEnabled(v.Check != vm.Checking && field.Text != "")
		why.Set("")
		switch v.Check {
		case vm.Unchecked:
			result.Set(kit.Subtle, theme.IconDot, w.T("wizard.unchecked"))
		case vm.Checking:
			result.Set(kit.Accent, theme.IconClock, w.T("wizard.checking"))
		case vm.Found:
			result.Set(kit.Good, "", w.T("wizard.found"))
			why.Set(w.T("wizard.found_models", "Count", v.Models))
		case vm.NotFound:
			result.Set(kit.Warn, "", w.T("wizard.not_found"))
			why.Set(v.CheckErr.Message)
		}
	})
	return step(theme.IconNetwork, w.T("wizard.network_title"), w.T("wizard.network_text"), kit.Card(
		kit.Strong(w.T("wizard.address")),
		kit.Beside(theme.GapS, kit.Grow(field), check),
		kit.Beside(theme.GapM, result, why),
		kit.Divider(),
		kit.Muted(w.T("wizard.network_later")),
	))
}

func (p *Page) last() fyne.CanvasObject {
	w := p.words
	start := kit.NewToggle(false, p.model.SetStartAtLogin)
	p.copies = append(p.copies, func(v *vm.View) { start.Set(v.StartAtLogin) })
	return step(theme.IconGood, w.T("wizard.last_title"), w.T("wizard.last_text"),
		kit.Card(kit.NewRow(w.T("wizard.login"), w.T("wizard.login_text"), start)),
		kit.Card(kit.Beside(theme.GapM, kit.NewImage(theme.IconKey, kit.Accent, 22), kit.Strong(w.T("wizard.key"))), kit.Muted(w.T("wizard.key_text"))))
}
