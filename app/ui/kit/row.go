package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// Row is one setting: its name, what it means, and its control to the right.
type Row struct {
	widget.BaseWidget

	Control fyne.CanvasObject

	label, explanation, problem *Text
	box                         *fyne.Container
}

// NewRow makes one; explanation "" leaves it out.
func NewRow(label, explanation string, control fyne.CanvasObject) *Row {
	r := &Row{
		Control: control, label: newText(styleBody, label, true),
		explanation: Muted(explanation), problem: Muted("").SetTone(Bad),
	}
	r.explanation.Hidden = explanation == ""
	r.problem.Hide()
	r.box = Beside(theme.GapXL, Grow(Column(2, r.label, r.explanation, r.problem)), control)
	r.ExtendBaseWidget(r)
	return r
}

// SetExplanation changes what it means.
func (r *Row) SetExplanation(s string) {
	r.explanation.Set(s)
	r.hide(r.explanation, s == "")
}

// SetProblem says below the name what is wrong with the value; "" takes it away.
func (r *Row) SetProblem(s string) {
	r.problem.Set(s)
	r.hide(r.problem, s == "")
}

// Problem is what is said to be wrong.
func (r *Row) Problem() string { return r.problem.Text() }

func (r *Row) hide(t *Text, hidden bool) {
	if t.Hidden != hidden {
		t.Hidden = hidden
		r.box.Refresh()
		r.Refresh()
	}
}

// CreateRenderer implements fyne.Widget.
func (r *Row) CreateRenderer() fyne.WidgetRenderer {
	return draw(
		func() fyne.Size {
			m := r.box.MinSize()
			return fyne.NewSize(m.Width, max(m.Height, 40))
		},
		r.box.Resize, func() {}, r.box)
}

// Rows puts rows below each other with thin lines between those that are
// visible.
func Rows(rows ...fyne.CanvasObject) *fyne.Container {
	objects := make([]fyne.CanvasObject, 0, 2*len(rows))
	for i, r := range rows {
		if i > 0 {
			objects = append(objects, Divider())
		}
		objects = append(objects, r)
	}
	return container.New(&ruled{column{10}}, objects...)
}

// ruled is a column of rows with dividers between them.
type ruled struct{ column }

// rule hides the dividers that have no row above or below them.
func rule(objects []fyne.CanvasObject) {
	above := false
	for i := 0; i < len(objects); i += 2 {
		shown := objects[i].Visible()
		if i > 0 {
			if line, ok := objects[i-1].(*divider); ok {
				line.Hidden = !shown || !above
			}
		}
		above = above || shown
	}
}

func (r *ruled) MinSize(objects []fyne.CanvasObject) fyne.Size {
	rule(objects)
	return r.column.MinSize(objects)
}

func (r *ruled) Layout(objects []fyne.CanvasObject, s fyne.Size) {
	rule(objects)
	r.column.Layout(objects, s)
}

// Fact is a name and a value beside each other, for lists of what is known.
func Fact(label, value string) (fyne.CanvasObject, *Text) {
	v := Line(value).Cut().Trailing()
	return Beside(theme.GapL, newText(style{theme.TextBody, fyne.TextStyle{}, theme.Muted}, label, false), v), v
}
