// Command screenshot keeps what an X display shows as a PNG file, and fails when
// nothing has been drawn. scripts/package-test-linux.sh looks at installed windows
// with it.
package main

import (
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

func main() {
	display := flag.String("display", os.Getenv("DISPLAY"), "the X display")
	least := flag.Int("colours", 50, "how many different colours a window that is drawn has at least")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: screenshot [-display :N] [-colours N] FILE.png")
		os.Exit(2)
	}
	if err := shoot(*display, flag.Arg(0), *least); err != nil {
		fmt.Fprintln(os.Stderr, "screenshot:", err)
		os.Exit(1)
	}
}

func shoot(display, path string, least int) error {
	xgb.Logger.SetOutput(io.Discard)
	conn, err := xgb.NewConnDisplay(display)
	if err != nil {
		return fmt.Errorf("display %q: %w", display, err)
	}
	defer conn.Close()
	screen := xproto.Setup(conn).DefaultScreen(conn)
	w, h := screen.WidthInPixels, screen.HeightInPixels
	r, err := xproto.GetImage(conn, xproto.ImageFormatZPixmap, xproto.Drawable(screen.Root), 0, 0, w, h, 0xffffffff).Reply()
	if err != nil {
		return fmt.Errorf("look at the display: %w", err)
	}
	img := image.NewNRGBA(image.Rect(0, 0, int(w), int(h)))
	if len(r.Data) != len(img.Pix) {
		return fmt.Errorf("a display of %d bits cannot be read; use 24", screen.RootDepth)
	}
	seen := map[color.NRGBA]bool{}
	for i := 0; i+4 <= len(r.Data); i += 4 {
		c := color.NRGBA{r.Data[i+2], r.Data[i+1], r.Data[i], 0xff}
		img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = c.R, c.G, c.B, c.A
		if len(seen) < least {
			seen[c] = true
		}
	}
	if len(seen) < least {
		return fmt.Errorf("the display shows %d colours only: no window is drawn", len(seen))
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := png.Encode(f, img); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}
