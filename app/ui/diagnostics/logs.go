package diagnostics

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/diagnostics"
	"neuron/engine/localapi"
	"neuron/internal/desktop/words"
)

// logs is the tab with the engine's log: one row per line, since long labels
// are slow.
type logs struct {
	words  *words.Words
	model  *vm.Model
	window fyne.Window

	box    fyne.CanvasObject
	tabs   *fyne.Container
	list   *widget.List
	follow *kit.Toggle
	count  *kit.Text
	lines  []localapi.LogLine
	state  *kit.One
}

func newLogs(w *words.Words, m *vm.Model, window fyne.Window) *logs {
	l := &logs{words: w, model: m, window: window, tabs: kit.Wrapped(0), count: kit.Caption("")}
	l.list = widget.NewList(
		func() int { return len(l.lines) },
		func() fyne.CanvasObject { return newLine(w) },
		func(i widget.ListItemID, o fyne.CanvasObject) {
			if i < len(l.lines) {
				o.(*lineRow).set(l.lines[i])
			}
		})
	l.list.HideSeparators = true
	l.list.OnSelected = func(i widget.ListItemID) {
		l.list.UnselectAll()
		if i < len(l.lines) {
			l.open(l.lines[i])
		}
	}
	words := kit.NewField("", w.T("diagnostics.find"), nil)
	levels := kit.NewSegmented([]string{w.T("diagnostics.level_all"), w.T("diagnostics.level_info"), w.T("diagnostics.level_warn"), w.T("diagnostics.level_error")},
		int(m.View().Level), func(i int) { m.Choose(vm.Level(i), words.Text) })
	words.OnChanged = func(text string) { m.Choose(vm.Level(levels.Selected()), text) }
	l.follow = kit.NewToggle(true, func(on bool) {
		if on {
			l.list.ScrollToBottom()
		}
	})
	head := kit.Column(theme.GapM,
		kit.Title(w.T("diagnostics.title")),
		l.tabs,
		kit.Beside(theme.GapM, levels, kit.Grow(words), kit.Line(w.T("diagnostics.follow")), l.follow))
	l.state = kit.NewOne(kit.Empty(theme.IconFile, w.T("diagnostics.no_lines"), w.T("diagnostics.no_lines_text")), l.list)
	panel := kit.NewPanel(theme.Surface, theme.Border, theme.Radius, container.NewBorder(nil, kit.Inset(theme.GapL, theme.GapS, l.count), nil, nil, kit.Inset(theme.GapS, theme.GapS, l.state)))
	l.box = container.New(&fill{x: theme.GapXXL, y: 28}, container.NewBorder(kit.Column(theme.GapM, head, kit.Wrapped(0)), nil, nil, nil, panel))
	return l
}

// update shows the lines of the model.
func (l *logs) update(v vm.View) {
	same := len(v.Lines) == len(l.lines)
	if same && len(v.Lines) > 0 {
		a, b := v.Lines[len(v.Lines)-1], l.lines[len(l.lines)-1]
		same = a.Number == b.Number && a.Time.Equal(b.Time) && v.Lines[0].Number == l.lines[0].Number
	}
	if same {
		return
	}
	l.lines = v.Lines
	l.count.Set(l.words.T("diagnostics.lines", "Count", len(l.lines)))
	if len(l.lines) == 0 {
		l.state.Select(0)
		return
	}
	l.state.Select(1)
	l.list.Refresh()
	if l.follow.On() {
		l.list.ScrollToBottom()
	}
}

// open shows one line in full.
func (l *logs) open(line localapi.LogLine) {
	w := l.words
	text := line.Time.Format("2006-01-02 15:04:05.000") + "  " + line.Level + "  " + line.Part + "\n" + head(line.Text)
	d := &kit.Dialog{Title: w.T("diagnostics.line"), Width: 640, Body: kit.NewCode("", text, w.T("diagnostics.copy"), w.T("diagnostics.copied"))}
	d.Buttons = []fyne.CanvasObject{kit.Primary(w.T("diagnostics.done"), d.Close)}
	d.Open(l.window)
}

// lineRow is one line of the log.
type lineRow struct {
	widget.BaseWidget

	time, level, part, text *kit.Text
	mark                    *kit.Image
}

func newLine(*words.Words) *lineRow {
	r := &lineRow{
		time: kit.Mono("00:00:00"), level: kit.Mono("ERROR"), part: kit.Mono("").Cut(), text: kit.Mono("").Cut(),
		mark: kit.NewImage(theme.IconInfo, kit.Subtle, 14),
	}
	r.time.SetTone(kit.Subtle)
	r.part.SetTone(kit.Subtle)
	r.ExtendBaseWidget(r)
	return r
}

func (r *lineRow) set(l localapi.LogLine) {
	r.time.Set(l.Time.Format("15:04:05"))
	r.level.Set(l.Level)
	r.part.Set(l.Part)
	r.text.Set(l.Text)
	switch vm.LevelOf(l) {
	case vm.Errors:
		r.mark.Set(theme.IconBad, kit.Bad)
		r.level.SetTone(kit.Bad)
	case vm.Warnings:
		r.mark.Set(theme.IconWarn, kit.Warn)
		r.level.SetTone(kit.Warn)
	default:
		r.mark.Set(theme.IconInfo, kit.Subtle)
		r.level.SetTone(kit.Subtle)
	}
}

// CreateRenderer implements fyne.Widget.
func (r *lineRow) CreateRenderer() fyne.WidgetRenderer {
	return widget.NewSimpleRenderer(container.New(&lineLayout{}, r.mark, r.time, r.level, r.part, r.text))
}

// lineLayout has columns of fixed places, so that a row costs no measuring.
type lineLayout struct{}

var lineColumns = [...]float32{0, 22, 92, 146, 260}

const lineHeight = 24

func (*lineLayout) MinSize([]fyne.CanvasObject) fyne.Size { return fyne.NewSize(400, lineHeight) }

func (*lineLayout) Layout(objects []fyne.CanvasObject, s fyne.Size) {
	for i, o := range objects {
		end := s.Width
		if i+1 < len(lineColumns) {
			end = lineColumns[i+1] - 8
		}
		h := o.MinSize().Height
		o.Move(fyne.NewPos(lineColumns[i], (s.Height-h)/2))
		o.Resize(fyne.NewSize(max(0, end-lineColumns[i]), h))
	}
}

// fill gives its object all but a border.
type fill struct{ x, y float32 }

func (f *fill) MinSize(objects []fyne.CanvasObject) fyne.Size { return fyne.NewSize(360, 240) }

func (f *fill) Layout(objects []fyne.CanvasObject, s fyne.Size) {
	objects[0].Move(fyne.NewPos(f.x, f.y))
	objects[0].Resize(fyne.NewSize(s.Width-2*f.x, s.Height-2*f.y))
}
