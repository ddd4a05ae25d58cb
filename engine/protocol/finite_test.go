package protocol_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"neuron/engine/protocol"
)

// Each element in turn, so that every place in a word of the fast path and in
// what it leaves over is met, with the values on both sides of the border.
func TestCheckFiniteEverywhere(t *testing.T) {
	t.Parallel()
	const rows, width = 3, 37
	for _, c := range []struct {
		dtype     protocol.DType
		good, bad []uint32
	}{
		{protocol.DTypeF32, []uint32{0, 0x80000000, 0x7f7fffff, 0xff7fffff, 0x007fffff, 1}, []uint32{0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff}},
		{protocol.DTypeF16, []uint32{0, 0x8000, 0x7bff, 0xfbff, 0x03ff, 1}, []uint32{0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff}},
	} {
		t.Run(c.dtype.String(), func(t *testing.T) {
			t.Parallel()
			size := c.dtype.Size()
			for i := range rows * width {
				f := &protocol.Frame{Header: protocol.Header{Kind: protocol.KindPrefill, Parts: protocol.PartHidden, DType: c.dtype, Pos: 5, Rows: rows, Width: width},
					Payload: make([]byte, rows*width*size)}
				put := func(v uint32) {
					if size == 4 {
						binary.LittleEndian.PutUint32(f.Payload[4*i:], v)
					} else {
						binary.LittleEndian.PutUint16(f.Payload[2*i:], uint16(v))
					}
				}
				for _, v := range c.good {
					put(v)
					if err := f.CheckFinite(); err != nil {
						t.Fatalf("element %d = %#x: %v", i, v, err)
					}
				}
				for _, v := range c.bad {
					put(v)
					err := f.CheckFinite()
					want := fmt.Sprintf("position %d is not finite at element %d", 5+i/width, i%width)
					if !errors.Is(err, &protocol.Error{Code: protocol.CodeFrameNonFinite}) || !strings.Contains(err.Error(), want) {
						t.Fatalf("element %d = %#x: %v, want %q", i, v, err, want)
					}
				}
			}
		})
	}
}
