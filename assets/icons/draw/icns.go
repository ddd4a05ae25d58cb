package draw

import (
	"bytes"
	"encoding/binary"
	"image"
)

// icnsTypes are the pictures of an icon for macOS, each with its pixels: once
// for usual screens and once for those of twice the density, which take the same
// picture for half the size. The smallest two have no form as PNG that every
// version of macOS shows; it makes them of the next larger ones.
var icnsTypes = []struct {
	name string
	size int
}{
	{"ic11", 32}, {"ic12", 64}, {"ic07", 128}, {"ic13", 256}, {"ic08", 256}, {"ic14", 512}, {"ic09", 512}, {"ic10", 1024},
}

// icns writes an ICNS file: a header and the pictures, each after its type and
// length, which count themselves. Numbers are big-endian.
func icns(at func(size int) *image.NRGBA) ([]byte, error) {
	const header = 8
	pictures := map[int][]byte{}
	var body bytes.Buffer
	for _, t := range icnsTypes {
		if pictures[t.size] == nil {
			b, err := encode(at(t.size))
			if err != nil {
				return nil, err
			}
			pictures[t.size] = b
		}
		body.WriteString(t.name)
		body.Write(binary.BigEndian.AppendUint32(nil, uint32(header+len(pictures[t.size]))))
		body.Write(pictures[t.size])
	}
	out := binary.BigEndian.AppendUint32([]byte("icns"), uint32(header+body.Len()))
	return append(out, body.Bytes()...), nil
}
