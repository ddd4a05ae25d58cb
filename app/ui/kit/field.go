package kit

import (
	"strconv"
	"strings"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// NewSelect is a choice from a list, at least so wide.
func NewSelect(width float32, options []string, selected int, changed func(index int)) (*widget.Select, fyne.CanvasObject) {
	s := widget.NewSelect(options, nil)
	if selected >= 0 && selected < len(options) {
		s.SetSelectedIndex(selected)
	}
	s.OnChanged = func(string) { changed(s.SelectedIndex()) }
	return s, Fixed(width, s)
}

// Field is one line to type into. What was typed is given on when Return is
// pressed or the field is left, if it has changed.
type Field struct {
	widget.Entry

	// OnDone takes the text.
	OnDone func(text string)

	given string
}

// NewField makes one with a text.
func NewField(text, placeholder string, done func(text string)) *Field {
	f := &Field{OnDone: done, given: text}
	f.ExtendBaseWidget(f)
	f.PlaceHolder = placeholder
	f.Text = text
	f.OnSubmitted = func(string) { f.give() }
	return f
}

// Set changes the text without telling; not while somebody types.
func (f *Field) Set(text string) {
	if f.given == text || f.Dirty() {
		return
	}
	f.given = text
	f.SetText(text)
}

// Dirty says that what is typed has not been given on.
func (f *Field) Dirty() bool { return f.Text != f.given }

// Reset takes back what was typed.
func (f *Field) Reset() { f.SetText(f.given) }

// FocusLost implements fyne.Focusable.
func (f *Field) FocusLost() {
	f.Entry.FocusLost()
	f.give()
}

// TypedKey takes Escape as taking back.
func (f *Field) TypedKey(e *fyne.KeyEvent) {
	if e.Name == fyne.KeyEscape {
		f.Reset()
		return
	}
	f.Entry.TypedKey(e)
}

// TypedShortcut leaves the window's own shortcuts to the window.
func (f *Field) TypedShortcut(s fyne.Shortcut) {
	if !Forward(f, s) {
		f.Entry.TypedShortcut(s)
	}
}

// Forward gives a shortcut that is none of Fyne's own (copy, paste, undo) to the
// window, for what has the keyboard and would swallow it. It reports whether it
// was one.
func Forward(from fyne.CanvasObject, s fyne.Shortcut) bool {
	if _, ok := s.(*desktop.CustomShortcut); !ok {
		return false
	}
	c, ok := fyne.CurrentApp().Driver().CanvasForObject(from).(interface{ TypedShortcut(s fyne.Shortcut) })
	if ok {
		c.TypedShortcut(s)
	}
	return ok
}

func (f *Field) give() {
	if !f.Dirty() {
		return
	}
	f.given = f.Text
	if f.OnDone != nil {
		f.OnDone(f.Text)
	}
}

// NumberField is a field for a number with its unit beside it. An empty field is 0.
type NumberField struct {
	widget.BaseWidget

	field *Field
	unit  *Text
	box   fyne.CanvasObject
	value float64
}

// NewNumberField makes one. changed takes a number that was typed, problem what is
// typed and is none; both "," and "." separate decimals. 0 is shown as nothing,
// with the placeholder in its place, when placeholder is not "".
func NewNumberField(value float64, unit, placeholder string, changed func(v float64), problem func(text string)) *NumberField {
	n := &NumberField{value: value, unit: newText(styleMuted, unit, false)}
	n.field = NewField(n.words(value, placeholder), placeholder, func(text string) {
		v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), ",", "."), 64)
		switch {
		case strings.TrimSpace(text) == "":
			v = 0
		case err != nil || v < 0 || v > 1e15:
			problem(text)
			return
		}
		n.value = v
		changed(v)
	})
	// Fields below each other end at one place, with and without a unit.
	n.box = Beside(theme.GapS, Fixed(numberWidth, n.field), Fixed(unitWidth, n.unit))
	n.ExtendBaseWidget(n)
	return n
}

const (
	numberWidth = 124
	unitWidth   = 36
)

func (n *NumberField) words(v float64, placeholder string) string {
	if v == 0 && placeholder != "" {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Set changes the number without telling.
func (n *NumberField) Set(v float64) {
	if v != n.value {
		n.value = v
		n.field.given = n.field.Text
		n.field.Set(n.words(v, n.field.PlaceHolder))
	}
}

// Field is where it is typed.
func (n *NumberField) Field() *Field { return n.field }

// CreateRenderer implements fyne.Widget.
func (n *NumberField) CreateRenderer() fyne.WidgetRenderer {
	return draw(n.box.MinSize, n.box.Resize, func() {}, n.box)
}
