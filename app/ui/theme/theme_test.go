package theme_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"image/color"
	"math"
	"strconv"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/driver/software"
	fynetheme "fyne.io/fyne/v2/theme"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
)

// luminance as WCAG defines it.
func luminance(c color.Color) float64 {
	r, g, b, _ := c.RGBA()
	f := func(v uint32) float64 {
		x := float64(v) / 0xffff
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*f(r) + 0.7152*f(g) + 0.0722*f(b)
}

func contrast(a, b color.Color) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Words are readable on everything that they stand on: 4.5 to 1, and 3 to 1 for
// what is off.
func TestContrast(t *testing.T) {
	t.Parallel()
	pairs := []struct {
		words fyne.ThemeColorName
		on    []fyne.ThemeColorName
		least float64
	}{
		{theme.Text, []fyne.ThemeColorName{theme.Window, theme.Rail, theme.Surface, theme.Raised, theme.Hover, theme.AccentTint, theme.WarnTint, theme.BadTint, theme.GoodTint}, 7},
		{theme.Muted, []fyne.ThemeColorName{theme.Window, theme.Rail, theme.Surface, theme.Raised, theme.WarnTint, theme.BadTint}, 4.5},
		{theme.OnAccent, []fyne.ThemeColorName{theme.Accent, theme.AccentHover, theme.BadFill}, 4.5},
		{theme.AccentText, []fyne.ThemeColorName{theme.Window, theme.Surface, theme.Raised, theme.AccentTint}, 4.5},
		{theme.Good, []fyne.ThemeColorName{theme.Surface, theme.GoodTint}, 4.5},
		{theme.Warn, []fyne.ThemeColorName{theme.Surface, theme.WarnTint}, 4.5},
		{theme.Bad, []fyne.ThemeColorName{theme.Surface, theme.BadTint}, 4.5},
		{theme.Faint, []fyne.ThemeColorName{theme.Surface}, 3},
		{theme.Accent, []fyne.ThemeColorName{theme.Surface, theme.Window}, 3},
	}
	for _, mode := range []theme.Mode{theme.Dark, theme.Light} {
		th := theme.New(mode)
		for _, p := range pairs {
			for _, on := range p.on {
				if c := contrast(th.Color(p.words, 0), th.Color(on, 0)); c < p.least {
					t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", mode, p.words, on, c, p.least)
				}
			}
		}
	}
}

// A system that changes between dark and light takes the window along.
func TestSystemFollowsTheVariant(t *testing.T) {
	t.Parallel()
	for variant, want := range map[fyne.ThemeVariant]theme.Mode{fynetheme.VariantDark: theme.Dark, fynetheme.VariantLight: theme.Light} {
		if theme.New(theme.System).Color(theme.Window, variant) != theme.New(want).Color(theme.Window, 0) {
			t.Errorf("variant %d is not %s", variant, want)
		}
	}
}

// icons are all icons of the source, by name.
func icons(t *testing.T) map[string]theme.Icon {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), "icons.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]theme.Icon)
	ast.Inspect(tree, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				s, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				found[v.Names[0].Name] = theme.Icon(s)
			}
		}
		return true
	})
	return found
}

// Every icon draws lines, inside its field, in the colour that is asked for, and
// in another one after a change of theme.
func TestIcons(t *testing.T) {
	uitest.App(t, theme.Dark)
	all := icons(t)
	if len(all) < 40 {
		t.Fatalf("%d icons", len(all))
	}
	names := make(map[string]string)
	sheet := kit.Tiles(60, 12)
	for name, icon := range all {
		res := icon.Resource(theme.Accent)
		if other, ok := names[res.Name()]; ok {
			t.Errorf("%s and %s have one name", name, other)
		}
		names[res.Name()] = name
		sheet.Add(kit.NewImage(icon, kit.Plain, 48))
		img := canvas.NewImageFromResource(res)
		img.SetMinSize(fyne.NewSquareSize(48))
		drawn := software.Render(container.NewWithoutLayout(sized(img)), fyne.CurrentApp().Settings().Theme())
		lines, edge := 0, 0
		for y := range 48 {
			for x := range 48 {
				if contrast(drawn.At(x, y), theme.Color(theme.Window)) > 3 {
					lines++
					if x == 0 || y == 0 || x == 47 || y == 47 {
						edge++
					}
				}
			}
		}
		if lines < 30 || edge > 0 {
			t.Errorf("%s: %d points of lines, %d at the edge", name, lines, edge)
		}
	}
	uitest.Picture(t, uitest.Window(t, sheet, 720, 400), "icons")
}

func sized(o fyne.CanvasObject) fyne.CanvasObject { o.Resize(o.MinSize()); return o }
