package uitest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/test"

	"neuron/app/ui/theme"
)

var update = flag.Bool("update", false, "write the masters of pages anew, in testdata")

// outlines are those of the first theme, until the second one's comes.
var outlines struct {
	mu    sync.Mutex
	first map[string][]string // guarded by mu
}

// Master compares what a window shows with testdata/NAME.txt: one line for each
// thing that is drawn, with its place, and its colours in the dark theme and in
// the light one. It is called once for each of Themes, in their order; both have
// to show the same things at the same places. Only what does not depend on the
// hour belongs into such a page. go test -update writes the masters anew.
func Master(t testing.TB, w fyne.Window, mode theme.Mode, name string) {
	t.Helper()
	var lines []string
	outline(w.Content(), fyne.Position{}, &lines)
	for _, o := range w.Canvas().Overlays().List() {
		outline(o, fyne.Position{}, &lines)
	}
	outlines.mu.Lock()
	defer outlines.mu.Unlock()
	if mode == Themes[0] {
		if outlines.first == nil {
			outlines.first = map[string][]string{}
		}
		outlines.first[name] = lines
		return
	}
	first, ok := outlines.first[name]
	if !ok {
		t.Logf("%s: NOT COMPARED: it was not shown in the first theme", name)
		return
	}
	delete(outlines.first, name)
	got, err := both(first, lines)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, got, 0o600)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s has no master: go test -update writes it", name)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s looks another way than its master (go test -update writes it anew, and git diff shows all):\n%s", name, firstDifference(want, got))
	}
}

// port is what the system chose for a server of the test.
var port = regexp.MustCompile(`(127\.0\.0\.1:)\d+`)

// hex is a colour in an outline.
var hex = regexp.MustCompile(`#[0-9a-f]{6,8}`)

// both joins the outlines of the two themes.
func both(dark, light []string) ([]byte, error) {
	var out bytes.Buffer
	for i := range max(len(dark), len(light)) {
		if i >= len(dark) || i >= len(light) || hex.ReplaceAllString(dark[i], "#") != hex.ReplaceAllString(light[i], "#") {
			at := func(l []string) string {
				if i < len(l) {
					return l[i]
				}
				return "nothing"
			}
			return nil, fmt.Errorf("the themes show other things:\n  %s\n  %s", at(dark), at(light))
		}
		colors, n := hex.FindAllString(light[i], -1), -1
		out.WriteString(hex.ReplaceAllStringFunc(dark[i], func(d string) string {
			if n++; colors[n] == d {
				return d
			}
			return d + "/" + colors[n][1:]
		}))
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

func firstDifference(want, got []byte) string {
	w, g := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	for i := range max(len(w), len(g)) {
		switch {
		case i >= len(w):
			return "more: " + g[i]
		case i >= len(g):
			return "missing: " + w[i]
		case w[i] != g[i]:
			return fmt.Sprintf("line %d\n  was %s\n  is  %s", i+1, w[i], g[i])
		}
	}
	return ""
}

// outline adds the lines of an object at a place, and of what is in it.
func outline(o fyne.CanvasObject, at fyne.Position, lines *[]string) {
	if o == nil || !o.Visible() {
		return
	}
	at = at.Add(o.Position())
	place := fmt.Sprintf("%.0f,%.0f %.0fx%.0f", at.X, at.Y, o.Size().Width, o.Size().Height)
	add := func(kind string, more ...any) {
		*lines = append(*lines, strings.TrimSpace(kind+" "+place+" "+fmt.Sprintln(more...)))
	}
	switch o := o.(type) {
	case *fyne.Container:
		for _, x := range o.Objects {
			outline(x, at, lines)
		}
	case fyne.Widget:
		for _, x := range test.WidgetRenderer(o).Objects() {
			outline(x, at, lines)
		}
	case *canvas.Text:
		if o.Text != "" {
			add("text", fmt.Sprintf("%.0f%s", o.TextSize, styles(o.TextStyle)), hexOf(o.Color), fmt.Sprintf("%q", port.ReplaceAllString(o.Text, "${1}0")))
		}
	case *canvas.Rectangle:
		fill, edge := hexOf(o.FillColor), "-"
		if o.StrokeWidth > 0 {
			edge = hexOf(o.StrokeColor)
		}
		if fill != "-" || edge != "-" {
			add("rect", fmt.Sprintf("r%.0f", o.CornerRadius), fill, edge)
		}
	case *canvas.Circle:
		add("circle", hexOf(o.FillColor), hexOf(o.StrokeColor))
	case *canvas.Line:
		add("line", hexOf(o.StrokeColor))
	default: // pictures: their content depends on scale and fonts
		add(strings.ToLower(reflect.TypeOf(o).Elem().Name()))
	}
}

func styles(s fyne.TextStyle) string {
	out := ""
	if s.Bold {
		out += "b"
	}
	if s.Italic {
		out += "i"
	}
	if s.Monospace {
		out += "m"
	}
	return out
}

// hexOf is a colour, "-" for one that nobody sees.
func hexOf(c color.Color) string {
	if c == nil {
		return "-"
	}
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	switch n.A {
	case 0:
		return "-"
	case 0xff:
		return fmt.Sprintf("#%02x%02x%02x", n.R, n.G, n.B)
	}
	return fmt.Sprintf("#%02x%02x%02x%02x", n.R, n.G, n.B, n.A)
}
