package kit_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/test"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
)

// lines are the lines that a text was broken into.
func lines(t *kit.Text) []string {
	var out []string
	for _, o := range test.WidgetRenderer(t).Objects() {
		out = append(out, o.(*canvas.Text).Text)
	}
	return out
}

// Whatever the words and the width: nothing is lost, nothing is wider than the
// line unless it is a single letter, and blanks stay where lines are not broken.
func TestWrappedTextLosesNothing(t *testing.T) {
	uitest.App(t, theme.Dark)
	r := rand.New(rand.NewPCG(1, 2))
	letters := []rune("aiWäß漢🙂-.")
	for range 300 {
		var words []string
		for range 1 + r.IntN(12) {
			var w strings.Builder
			for range r.IntN(30) {
				w.WriteRune(letters[r.IntN(len(letters))])
			}
			words = append(words, w.String())
		}
		s := strings.Join(words, " ")
		width := 10 + r.Float32()*300
		text := kit.Sentence(s)
		text.Resize(fyne.NewSize(width, 20))
		broken := lines(text)
		if got, want := strings.ReplaceAll(strings.Join(broken, ""), " ", ""), strings.ReplaceAll(s, " ", ""); got != want {
			t.Fatalf("%q became %q", s, broken)
		}
		for _, l := range broken {
			if w := fyne.MeasureText(l, theme.TextBody, fyne.TextStyle{}).Width; w > width+0.5 && len([]rune(l)) > 1 {
				t.Fatalf("%q is %.1f wide in %.1f", l, w, width)
			}
		}
		h := fyne.MeasureText("M", theme.TextBody, fyne.TextStyle{}).Height
		if min := text.MinSize(); min.Height != h*float32(len(broken)) {
			t.Fatalf("%d lines are %.1f high", len(broken), min.Height)
		}
	}
}

func TestCutTextEndsWithAnEllipsis(t *testing.T) {
	uitest.App(t, theme.Dark)
	text := kit.Line("A long line that has to be cut").Cut()
	text.Resize(fyne.NewSize(90, 20))
	if l := lines(text); len(l) != 1 || !strings.HasSuffix(l[0], "…") || !strings.HasPrefix("A long line that has to be cut", strings.TrimSuffix(l[0], "…")) {
		t.Errorf("%q", l)
	}
	text.Resize(fyne.NewSize(900, 20))
	if l := lines(text); l[0] != text.Text() {
		t.Errorf("%q in a wide place", l)
	}
}

// A column gives wrapped text its height in the same pass, at any depth.
func TestColumnsSettleInOnePass(t *testing.T) {
	uitest.App(t, theme.Dark)
	text := kit.Sentence(strings.Repeat("word ", 60))
	below := kit.Line("below")
	card := kit.Card(kit.Column(8, kit.NewRow("A row", strings.Repeat("explained ", 30), kit.NewToggle(true, nil)), text, below))
	test.NewTempWindow(t, container.NewWithoutLayout(card))
	kit.Column(0, card).Layout.Layout([]fyne.CanvasObject{card}, fyne.NewSize(300, 1000))
	if text.MinSize().Height < 100 || below.Position().Y < text.Position().Y+text.MinSize().Height {
		t.Errorf("the text is %v high at %v, below it is %v", text.MinSize().Height, text.Position().Y, below.Position().Y)
	}
	if card.Size().Height < below.Position().Y+below.Size().Height {
		t.Errorf("the card ends at %v", card.Size().Height)
	}
}

func TestButtonByMouseAndKeyboard(t *testing.T) {
	uitest.App(t, theme.Dark)
	pressed := 0
	b := kit.Primary("Go", func() { pressed++ })
	w := uitest.Window(t, container.NewCenter(b), 200, 100)
	test.TapCanvas(w.Canvas(), fyne.NewPos(100, 50))
	w.Canvas().FocusNext()
	for _, k := range []fyne.KeyName{fyne.KeySpace, fyne.KeyReturn, fyne.KeyEnter, fyne.KeyA} {
		w.Canvas().Focused().TypedKey(&fyne.KeyEvent{Name: k})
	}
	if pressed != 4 {
		t.Errorf("pressed %d times, want 4", pressed)
	}
	b.SetEnabled(false)
	test.TapCanvas(w.Canvas(), fyne.NewPos(100, 50))
	b.TypedKey(&fyne.KeyEvent{Name: fyne.KeySpace})
	if pressed != 4 {
		t.Error("a disabled button was pressed")
	}
}

func TestToggleTellsTheUserAlone(t *testing.T) {
	uitest.App(t, theme.Dark)
	var told []bool
	x := kit.NewToggle(false, func(on bool) { told = append(told, on) })
	uitest.Window(t, x, 100, 40)
	x.Set(true)
	test.Tap(x)
	x.TypedKey(&fyne.KeyEvent{Name: fyne.KeySpace})
	if len(told) != 2 || told[0] || !told[1] || !x.On() {
		t.Errorf("told %v", told)
	}
	x.SetEnabled(false)
	test.Tap(x)
	if len(told) != 2 {
		t.Error("a disabled switch was turned")
	}
}

func TestSegmentedByMouseAndKeyboard(t *testing.T) {
	uitest.App(t, theme.Dark)
	var told []int
	s := kit.NewSegmented([]string{"One", "Two", "Three"}, 0, func(i int) { told = append(told, i) })
	uitest.Window(t, s, s.MinSize().Width, s.MinSize().Height)
	s.Tapped(&fyne.PointEvent{Position: fyne.NewPos(s.MinSize().Width-10, 10)})
	for _, k := range []fyne.KeyName{fyne.KeyRight, fyne.KeyLeft, fyne.KeyHome, fyne.KeyHome, fyne.KeyEnd} {
		s.TypedKey(&fyne.KeyEvent{Name: k})
	}
	if want := []int{2, 1, 0, 2}; !equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

func TestFieldGivesWhatWasTypedOnce(t *testing.T) {
	uitest.App(t, theme.Dark)
	var given []string
	f := kit.NewField("old", "", func(s string) { given = append(given, s) })
	w := uitest.Window(t, f, 200, 40)
	w.Canvas().Focus(f)
	test.Type(f, "er")
	f.Set("from elsewhere") // not while somebody types
	if !f.Dirty() || len(given) != 0 {
		t.Errorf("%q was given while typing", given)
	}
	w.Canvas().Unfocus()
	w.Canvas().Focus(f)
	w.Canvas().Unfocus()
	if !equal(given, []string{f.Text}) || !strings.Contains(f.Text, "er") {
		t.Errorf("given %q", given)
	}
	f.SetText("wrong")
	f.TypedKey(&fyne.KeyEvent{Name: fyne.KeyEscape})
	if f.Text != given[0] {
		t.Errorf("Escape leaves %q", f.Text)
	}
	f.Set("from elsewhere")
	if f.Text != "from elsewhere" {
		t.Errorf("the field shows %q", f.Text)
	}
}

// A field that has the keyboard must not swallow Ctrl+1.
func TestFieldsLeaveTheWindowsShortcutsAlone(t *testing.T) {
	uitest.App(t, theme.Dark)
	f := kit.NewField("text", "", nil)
	w := uitest.Window(t, f, 200, 40)
	pressed := 0
	one := &desktop.CustomShortcut{KeyName: fyne.Key1, Modifier: fyne.KeyModifierControl}
	w.Canvas().AddShortcut(one, func(fyne.Shortcut) { pressed++ })
	f.TypedShortcut(one)
	f.TypedShortcut(&fyne.ShortcutSelectAll{})
	if pressed != 1 || f.SelectedText() != "text" {
		t.Errorf("pressed %d times, %q is selected", pressed, f.SelectedText())
	}
}

func TestNumberFieldTakesBothDecimalSigns(t *testing.T) {
	uitest.App(t, theme.Dark)
	var got []float64
	bad := 0
	n := kit.NewNumberField(2, "GB", "no limit", func(v float64) { got = append(got, v) }, func(string) { bad++ })
	for _, s := range []string{"1,5", " 2.5 ", "", "-1", "x", "1e20"} {
		n.Field().SetText(s)
		n.Field().OnSubmitted(s)
	}
	if !equal(got, []float64{1.5, 2.5, 0}) || bad != 3 {
		t.Errorf("got %v, %d bad", got, bad)
	}
	n.Set(3)
	n.Set(0)
	if n.Field().Text != "" {
		t.Errorf("no limit is shown as %q", n.Field().Text)
	}
}

func TestDialogsCloseFromTheTop(t *testing.T) {
	uitest.App(t, theme.Dark)
	w := uitest.Window(t, kit.NewPage("Page", ""), 600, 400)
	closed := 0
	d := &kit.Dialog{Title: "First", Closed: func() { closed++ }}
	d.Buttons = []fyne.CanvasObject{kit.Primary("Done", d.Close)}
	d.Open(w)
	asked := false
	kit.Confirm(w, "Second", "Really?", "Yes", "No", true, func() { asked = true })
	if !kit.Escape(w.Canvas()) || asked || closed != 0 {
		t.Error("Escape did not close the second alone")
	}
	kit.Confirm(w, "Second", "Really?", "Yes", "No", true, func() { asked = true })
	w.Canvas().FocusNext() // from "No", which has the keyboard
	w.Canvas().Focused().TypedKey(&fyne.KeyEvent{Name: fyne.KeyReturn})
	if !asked || closed != 0 {
		t.Errorf("asked %v, closed %d", asked, closed)
	}
	d.Close()
	d.Close()
	if closed != 1 || kit.Escape(w.Canvas()) {
		t.Errorf("closed %d times", closed)
	}
}

func TestRowsHideTheirLines(t *testing.T) {
	uitest.App(t, theme.Dark)
	rows := []*kit.Row{kit.NewRow("a", "", kit.Spacer()), kit.NewRow("b", "", kit.Spacer()), kit.NewRow("c", "", kit.Spacer())}
	box := kit.Rows(rows[0], rows[1], rows[2])
	height := func() float32 { return box.MinSize().Height }
	all := height()
	rows[1].Hide()
	two := height()
	rows[0].Hide()
	one := height()
	if all-two != two-one || one != rows[2].MinSize().Height {
		t.Errorf("%v, %v, %v", all, two, one)
	}
}

func equal[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// A page of cards has to be laid out within a frame, and an unchanged text costs
// nothing.
func BenchmarkPageLayout(b *testing.B) {
	test.NewTempApp(b).Settings().SetTheme(theme.New(theme.Dark))
	w := test.NewTempWindow(b, gallery())
	for i := 0; b.Loop(); i++ {
		w.Resize(fyne.NewSize(900+float32(i%2)*80, 900))
	}
}

func BenchmarkSetEqualText(b *testing.B) {
	test.NewTempApp(b).Settings().SetTheme(theme.New(theme.Dark))
	text := kit.Sentence(strings.Repeat("word ", 100))
	for b.Loop() {
		text.Set(strings.Repeat("word ", 100))
	}
}
