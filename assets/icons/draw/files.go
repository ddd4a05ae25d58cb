package draw

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
)

// Sizes of the app icon's PNG files, in pixels, and of the pictures in ICO
// files. Tray icons have one PNG, which panels scale down.
var (
	AppSizes  = []int{16, 24, 32, 48, 64, 128, 256, 512}
	icoApp    = []int{16, 20, 24, 32, 40, 48, 64, 256}
	icoTray   = []int{16, 20, 24, 32, 40, 48, 64}
	trayPNG   = 64
	trayApple = 44 // 22 points on a screen of twice the density
)

// Files makes every file by its name.
func Files() (map[string][]byte, error) {
	out := map[string][]byte{}
	var failed error
	add := func(name string, img *image.NRGBA) {
		b, err := encode(img)
		if err != nil {
			failed = fmt.Errorf("%s: %w", name, err)
		}
		out[name] = b
	}
	addICO := func(name string, sizes []int, at func(size int) *image.NRGBA) {
		b, err := ico(sizes, at)
		if err != nil {
			failed = fmt.Errorf("%s: %w", name, err)
		}
		out[name] = b
	}
	for _, size := range AppSizes {
		add(fmt.Sprintf("app-%d.png", size), App(size))
	}
	addICO("app.ico", icoApp, App)
	if b, err := icns(App); err != nil {
		failed = fmt.Errorf("app.icns: %w", err)
	} else {
		out["app.icns"] = b
	}
	for _, state := range States() {
		add("tray-"+state+".png", Tray(state, trayPNG))
		add("tray-"+state+"-template.png", Template(state, trayApple))
		addICO("tray-"+state+".ico", icoTray, func(size int) *image.NRGBA { return Tray(state, size) })
	}
	return out, failed
}

func encode(img *image.NRGBA) ([]byte, error) {
	var b bytes.Buffer
	e := png.Encoder{CompressionLevel: png.BestCompression}
	err := e.Encode(&b, img)
	return b.Bytes(), err
}

// ico writes an ICO file: a directory of 16 bytes per picture, and the pictures.
// Small ones are bitmaps, which every version of Windows takes for the tray;
// those of 256 pixels are PNG.
func ico(sizes []int, at func(size int) *image.NRGBA) ([]byte, error) {
	var head, body bytes.Buffer
	le := binary.LittleEndian
	head.Write(le.AppendUint16(le.AppendUint16(le.AppendUint16(nil, 0), 1), uint16(len(sizes))))
	for _, size := range sizes {
		img := at(size)
		raw := bitmap(img)
		if size >= 256 {
			var err error
			if raw, err = encode(img); err != nil {
				return nil, err
			}
		}
		entry := []byte{byte(size), byte(size), 0, 0} // 256 is written as 0
		entry = le.AppendUint16(le.AppendUint16(entry, 1), 32)
		entry = le.AppendUint32(entry, uint32(len(raw)))
		entry = le.AppendUint32(entry, uint32(6+16*len(sizes)+body.Len()))
		head.Write(entry)
		body.Write(raw)
	}
	return append(head.Bytes(), body.Bytes()...), nil
}

// bitmap is a picture as ICO files have it: a header with twice the height,
// rows of BGRA from the lowest up, and a mask, which is empty.
func bitmap(img *image.NRGBA) []byte {
	size := img.Rect.Dx()
	le := binary.LittleEndian
	out := le.AppendUint32(nil, 40)
	out = le.AppendUint32(le.AppendUint32(out, uint32(size)), uint32(2*size))
	out = le.AppendUint16(le.AppendUint16(out, 1), 32)
	out = append(out, make([]byte, 24)...) // no compression; the rest may be zero
	for y := size - 1; y >= 0; y-- {
		for x := range size {
			c := img.NRGBAAt(x, y)
			out = append(out, c.B, c.G, c.R, c.A)
		}
	}
	return append(out, make([]byte, (size+31)/32*4*size)...)
}
