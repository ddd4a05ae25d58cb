package icons

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"os"
	"testing"

	"neuron/assets/icons/draw"
)

func decode(t *testing.T, name string, b []byte) image.Image {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return img
}

// far reports whether two pictures differ by more than the rounding of
// processors.
func far(a, b image.Image) bool {
	if a.Bounds() != b.Bounds() {
		return true
	}
	off := func(x, y uint32) bool { return max(x, y)-min(x, y) > 3*257 }
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			r1, g1, b1, a1 := a.At(x, y).RGBA()
			r2, g2, b2, a2 := b.At(x, y).RGBA()
			if off(r1, r2) || off(g1, g2) || off(b1, b2) || off(a1, a2) {
				return true
			}
		}
	}
	return false
}

func TestFilesAreThoseThatAreDrawn(t *testing.T) {
	t.Parallel()
	files, err := draw.Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("run go generate ./assets/icons: %v", err)
			continue
		}
		if bytes.HasPrefix(want, []byte("\x89PNG")) {
			if far(decode(t, name, got), decode(t, name, want)) {
				t.Errorf("%s is another picture: run go generate ./assets/icons", name)
			}
		} else if len(got) < len(want)*9/10 || !bytes.Equal(got[:6], want[:6]) {
			t.Errorf("%s is another file: run go generate ./assets/icons", name)
		}
	}
}

func TestEveryStateHasAnIcon(t *testing.T) {
	t.Parallel()
	if len(draw.States()) != len(States()) {
		t.Fatal("other states are drawn than are used")
	}
	seen := map[string]State{}
	for i, s := range States() {
		if draw.States()[i] != string(s) {
			t.Errorf("%s is drawn as %s", s, draw.States()[i])
		}
		b, _ := Tray(s)
		if len(b) == 0 || seen[string(b)] != "" {
			t.Errorf("%s has no icon, or that of %q", s, seen[string(b)])
		}
		seen[string(b)] = s
	}
	unknown, _ := Tray("of tomorrow")
	if attention, _ := Tray(Attention); !bytes.Equal(unknown, attention) {
		t.Error("an unknown state has no icon")
	}
	if cfg, err := png.DecodeConfig(bytes.NewReader(App)); err != nil || cfg.Width != 256 {
		t.Errorf("%+v, %v", cfg, err)
	}
}

// States are told apart by who sees no colours: as shapes of one colour, at the
// smallest size, many of their pixels differ.
func TestStatesDifferWithoutColour(t *testing.T) {
	t.Parallel()
	const size = 16
	grey := func(img image.Image, x, y int) int {
		// On a panel of middle grey.
		c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
		l := int(color.GrayModel.Convert(color.NRGBA{c.R, c.G, c.B, 255}).(color.Gray).Y)
		return (l*int(c.A) + 128*(255-int(c.A))) / 255
	}
	for i, a := range draw.States() {
		for _, b := range draw.States()[:i] {
			one, two := draw.Tray(a, size), draw.Tray(b, size)
			differ := 0
			for y := range size {
				for x := range size {
					if d := grey(one, x, y) - grey(two, x, y); d > 40 || d < -40 {
						differ++
					}
				}
			}
			if differ < size*size/20 {
				t.Errorf("%s and %s differ in %d pixels of %d", a, b, differ, size*size)
			}
		}
	}
}

// The icon is seen on dark and on light panels.
func TestIconsShowOnEveryPanel(t *testing.T) {
	t.Parallel()
	for _, s := range draw.States() {
		for _, panel := range []int{20, 245} {
			img := draw.Tray(s, 22)
			seen := 0
			for y := range 22 {
				for x := range 22 {
					c := img.NRGBAAt(x, y)
					l := int(color.GrayModel.Convert(color.NRGBA{c.R, c.G, c.B, 255}).(color.Gray).Y)
					if d := (l - panel) * int(c.A) / 255; d > 60 || d < -60 {
						seen++
					}
				}
			}
			if seen < 22*22/8 {
				t.Errorf("%s on a panel of %d: %d pixels are seen", s, panel, seen)
			}
		}
	}
}

func TestICO(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"app.ico", "tray-sharing.ico"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		le := binary.LittleEndian
		n := int(le.Uint16(b[4:]))
		if le.Uint16(b) != 0 || le.Uint16(b[2:]) != 1 || n < 5 {
			t.Fatalf("%s: a bad head %v", name, b[:6])
		}
		end := 6 + 16*n
		for i := range n {
			e := b[6+16*i:]
			size, offset := int(le.Uint32(e[8:])), int(le.Uint32(e[12:]))
			if offset != end || offset+size > len(b) {
				t.Fatalf("%s: picture %d lies at %d with %d bytes of %d", name, i, offset, size, len(b))
			}
			end += size
			if raw := b[offset : offset+size]; e[0] == 0 {
				if img := decode(t, name, raw); img.Bounds().Dx() != 256 {
					t.Errorf("%s: a picture of %v", name, img.Bounds())
				}
			} else if w := int(e[0]); le.Uint32(raw) != 40 || int(le.Uint32(raw[4:])) != w || int(le.Uint32(raw[8:])) != 2*w || size != 40+4*w*w+(w+31)/32*4*w {
				t.Errorf("%s: picture %d of %d pixels has %d bytes", name, i, w, size)
			}
		}
		if end != len(b) {
			t.Errorf("%s: %d bytes behind its end", name, len(b)-end)
		}
	}
}

// What macOS reads: every picture has the size that its type says, and the
// lengths add up.
func TestIconForMacOS(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("app.icns")
	if err != nil {
		t.Fatal(err)
	}
	if string(b[:4]) != "icns" || int(binary.BigEndian.Uint32(b[4:])) != len(b) {
		t.Fatalf("the header is % x of %d bytes", b[:8], len(b))
	}
	sizes := map[string]int{"ic11": 32, "ic12": 64, "ic07": 128, "ic13": 256, "ic08": 256, "ic14": 512, "ic09": 512, "ic10": 1024}
	for rest := b[8:]; len(rest) > 0; {
		n := int(binary.BigEndian.Uint32(rest[4:]))
		if n < 8 || n > len(rest) {
			t.Fatalf("a picture of %d bytes, and %d are left", n, len(rest))
		}
		name := string(rest[:4])
		cfg, err := png.DecodeConfig(bytes.NewReader(rest[8:n]))
		if err != nil || sizes[name] == 0 || cfg.Width != sizes[name] || cfg.Height != sizes[name] {
			t.Errorf("%s: %+v, %v", name, cfg, err)
		}
		delete(sizes, name)
		rest = rest[n:]
	}
	if len(sizes) > 0 {
		t.Errorf("missing: %v", sizes)
	}
}
