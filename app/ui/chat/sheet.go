package chat

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/chat"
)

// sheet has the settings of one chat: the system prompt and the parameters.
type sheet struct {
	widget.BaseWidget
	p      *Page
	system *widget.Entry
	fields [4]*field
	box    fyne.CanvasObject
	back   *canvas.Rectangle
	filled bool // the fields are being filled by the program
}

// field is a parameter with what it means, and what is wrong with it.
type field struct {
	entry   *widget.Entry
	hint    *kit.Text
	meaning string
}

func newSheet(p *Page) *sheet {
	s := &sheet{p: p, system: newMultiEntry(), back: &canvas.Rectangle{}}
	s.system.SetMinRowsVisible(5)
	s.system.OnChanged = func(text string) {
		if !s.filled {
			p.model.SetSystem(text)
		}
	}
	closer := kit.Quiet("", func() { s.open(false) }).WithIcon(theme.IconClose).Compact()
	rows := []fyne.CanvasObject{
		kit.Beside(theme.GapS, kit.Heading(p.t("chat.settings")).Cut(), closer),
		kit.Column(theme.GapXS, kit.Strong(p.t("chat.system")), kit.Muted(p.t("chat.system_hint")), s.system),
	}
	for i, id := range [][2]string{
		{"chat.temperature", "chat.temperature_hint"}, {"chat.top_p", "chat.top_p_hint"},
		{"chat.max_tokens", "chat.max_tokens_hint"}, {"chat.seed", "chat.seed_hint"},
	} {
		f := &field{entry: widget.NewEntry(), meaning: p.t(id[1])}
		f.entry.PlaceHolder = p.t("chat.default")
		f.entry.OnChanged = func(string) { s.params() }
		f.hint = kit.Muted(f.meaning)
		s.fields[i] = f
		rows = append(rows, kit.Column(theme.GapXS, kit.Beside(theme.GapM, kit.Strong(p.t(id[0])).Cut(), kit.Fixed(110, f.entry)), f.hint))
	}
	rows = append(rows, kit.Beside(0, kit.Spacer(), kit.Secondary(p.t("chat.reset"), s.reset).Compact()))
	s.box = container.NewVScroll(kit.Inset(theme.GapL, theme.GapL, kit.Column(theme.GapL, rows...)))
	s.ExtendBaseWidget(s)
	s.Hide()
	return s
}

// CreateRenderer implements fyne.Widget.
func (s *sheet) CreateRenderer() fyne.WidgetRenderer {
	return &sheetDrawing{widget.NewSimpleRenderer(container.NewStack(s.back, s.box)), s}
}

type sheetDrawing struct {
	fyne.WidgetRenderer
	s *sheet
}

// MinSize lets the page give it no width while it is hidden.
func (d *sheetDrawing) MinSize() fyne.Size { return fyne.NewSize(0, 100) }

// Refresh implements fyne.WidgetRenderer: the theme may be another one.
func (d *sheetDrawing) Refresh() {
	d.s.back.FillColor = theme.Color(theme.Rail)
	d.s.back.Refresh()
	d.WidgetRenderer.Refresh()
}

func (s *sheet) open(on bool) {
	s.Hidden = !on
	s.Refresh()
	s.p.content.Refresh()
	if on {
		s.p.env.Window.Canvas().Focus(s.system)
	} else {
		s.p.env.Window.Canvas().Focus(s.p.composer.entry)
	}
}

// show fills in another chat's settings; those of the same chat are what stands
// in the fields.
func (s *sheet) show(v *vm.View, other bool) {
	if !other {
		return
	}
	s.fill(v.System, v.Params)
}

func (s *sheet) fill(system string, t vm.ParamTexts) {
	s.filled = true
	s.system.SetText(system)
	for i, text := range []string{t.Temperature, t.TopP, t.MaxTokens, t.Seed} {
		s.fields[i].entry.SetText(text)
		s.fields[i].say("")
	}
	s.filled = false
}

func (s *sheet) params() {
	if s.filled {
		return
	}
	f := s.fields
	bad := s.p.model.SetParams(vm.ParamTexts{Temperature: f[0].entry.Text, TopP: f[1].entry.Text, MaxTokens: f[2].entry.Text, Seed: f[3].entry.Text})
	for i, problem := range []string{bad.Temperature, bad.TopP, bad.MaxTokens, bad.Seed} {
		f[i].say(problem)
	}
}

// say shows a problem, or again what the field means.
func (f *field) say(problem string) {
	if problem == "" {
		f.hint.SetTone(kit.Plain)
		f.hint.Set(f.meaning)
		return
	}
	f.hint.SetTone(kit.Bad)
	f.hint.Set(problem)
}

func (s *sheet) reset() {
	s.fill("", vm.ParamTexts{})
	s.p.model.SetSystem("")
	s.params()
}
