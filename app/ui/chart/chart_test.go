package chart

import (
	"fmt"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/test"

	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
)

func TestScale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		most, top float64
	}{{0, 1}, {-3, 1}, {0.3, 0.3}, {1, 1}, {1.01, 2}, {2.4, 3}, {37, 40}, {5.2, 6}, {7, 8}, {100, 100}, {101, 200}, {9999, 10000}} {
		if top, steps := scale(c.most); top < c.most || top-c.top > 1e-9 || c.top-top > 1e-9 || steps < 2 {
			t.Errorf("a scale for %v ends at %v with %d steps", c.most, top, steps)
		}
	}
}

func bars(n int) []Bar {
	out := make([]Bar, n)
	for i := range out {
		out[i] = Bar{Value: float64((i * 7) % 23), Text: fmt.Sprint(i)}
		if i%5 == 0 {
			out[i].Label = fmt.Sprintf("%d Nov", i+1)
		}
	}
	return out
}

func shown(t *testing.T, mode theme.Mode) (*Chart, fyne.Window) {
	t.Helper()
	uitest.App(t, mode)
	c := New(220, func(v float64) string { return fmt.Sprint(v) })
	c.Set(bars(30))
	return c, uitest.Window(t, c, 700, 260)
}

func TestPointer(t *testing.T) {
	c, _ := shown(t, theme.Dark)
	var chosen []int
	c.OnChosen = func(i int) { chosen = append(chosen, i) }
	left, step := c.field()
	over := func(x float32) *desktop.MouseEvent {
		return &desktop.MouseEvent{PointEvent: fyne.PointEvent{Position: fyne.NewPos(x, 50)}}
	}
	c.MouseIn(over(left + 2.5*step))
	c.MouseMoved(over(left + 2.6*step))
	c.MouseMoved(over(left + 29.5*step))
	c.MouseMoved(over(left - 3))
	c.MouseMoved(over(left + 0.1*step))
	c.MouseOut()
	if fmt.Sprint(chosen) != "[2 29 -1 0 -1]" {
		t.Errorf("chosen %v", chosen)
	}
	c.Set(bars(30)) // the same
	c.Set(nil)
	c.MouseMoved(over(left + 1))
	if c.Chosen() != -1 {
		t.Error("a bar of an empty chart is chosen")
	}
}

func TestKeyboard(t *testing.T) {
	c, w := shown(t, theme.Light)
	w.Canvas().Focus(c)
	if c.Chosen() != 29 {
		t.Errorf("with the keyboard comes %d", c.Chosen())
	}
	for _, k := range []struct {
		key  fyne.KeyName
		want int
	}{{fyne.KeyRight, 29}, {fyne.KeyLeft, 28}, {fyne.KeyHome, 0}, {fyne.KeyLeft, 0}, {fyne.KeyRight, 1}, {fyne.KeyEnd, 29}} {
		c.TypedKey(&fyne.KeyEvent{Name: k.key})
		if c.Chosen() != k.want {
			t.Errorf("after %s bar %d is chosen, not %d", k.key, c.Chosen(), k.want)
		}
	}
	uitest.Settle(w)
	uitest.Picture(t, w, "chart-light")
	w.Canvas().Unfocus()
	if c.Chosen() != -1 {
		t.Error("the choice stays")
	}
}

func TestImage(t *testing.T) {
	c, _ := shown(t, theme.Dark)
	m := c.Image(640, 300)
	if b := m.Bounds(); b.Dx() < 600 || b.Dy() < 280 {
		t.Fatalf("an image of %v", b)
	}
	r, g, b, _ := theme.Color(theme.Accent).RGBA()
	found := false
	for x := range m.Bounds().Dx() {
		for y := range m.Bounds().Dy() {
			R, G, B, _ := m.At(x, y).RGBA()
			found = found || R == r && G == g && B == b
		}
	}
	if !found {
		t.Error("the image has no bar")
	}
}

func BenchmarkUpdate(b *testing.B) {
	uitest.App(b, theme.Dark)
	c := New(220, func(v float64) string { return fmt.Sprint(v) })
	test.NewTempWindow(b, c).Resize(fyne.NewSize(800, 300))
	list := bars(365)
	for i := 0; b.Loop(); i++ {
		list[i%365].Value++
		c.Set(append([]Bar(nil), list...))
	}
}
