package rowbytes_test

import (
	"math"
	"slices"
	"testing"

	"neuron/engine/protocol/rowbytes"
)

func TestChosen(t *testing.T) {
	t.Parallel()
	v := []int32{5, 9, 3, 100, 7, 11, 10, 12, 9, 500}
	rowbytes.Chosen(v, 5, 7) // positions 7 and 8
	if want := []int32{5, 3, 7, -1, -1, -1, -1, -1, -1, -1}; !slices.Equal(v, want) {
		t.Errorf("%v, want %v", v, want)
	}
	v = []int32{0, 1, 2, 1, 3, 0}
	rowbytes.Chosen(v, 3, 1)
	if want := []int32{0, 1, -1, 1, 0, -1}; !slices.Equal(v, want) {
		t.Errorf("%v, want %v", v, want)
	}
	rowbytes.Chosen(v, 0, 0) // nothing to do
}

// Every half is its own value's half, and every float32 near one rounds to the
// nearer of its neighbours, to the even one in the middle.
func TestHalf(t *testing.T) {
	t.Parallel()
	for i := range 1 << 16 {
		h := uint16(i)
		v := rowbytes.HalfValue(h)
		if h&0x7c00 == 0x7c00 {
			if h&0x3ff == 0 && rowbytes.Half(v) != h || h&0x3ff != 0 && rowbytes.Half(v)&0x7c00 != 0x7c00 {
				t.Fatalf("%#04x is %g and then %#04x", h, v, rowbytes.Half(v))
			}
			continue
		}
		if rowbytes.Half(v) != h {
			t.Fatalf("%#04x is %g and then %#04x", h, v, rowbytes.Half(v))
		}
		if h&0x7fff == 0x7bff {
			continue // nothing finite follows
		}
		next := rowbytes.HalfValue(h + 1)
		mid := float32((float64(v) + float64(next)) / 2)
		even := h + h&1
		if got := rowbytes.Half(mid); got != even {
			t.Fatalf("%g between %#04x and the next is %#04x, want %#04x", mid, h, got, even)
		}
		if got := rowbytes.Half(math.Nextafter32(mid, v)); got != h {
			t.Fatalf("just below the middle of %#04x and the next: %#04x", h, got)
		}
		if got := rowbytes.Half(math.Nextafter32(mid, next)); got != h+1 {
			t.Fatalf("just above the middle of %#04x and the next: %#04x", h, got)
		}
	}
	for v, want := range map[float32]uint16{65519.99: 0x7bff, 65520: 0x7c00, 1e30: 0x7c00, -1e30: 0xfc00, 1e-30: 0, float32(math.Copysign(1e-30, -1)): 0x8000} {
		if got := rowbytes.Half(v); got != want {
			t.Errorf("%g is %#04x, want %#04x", v, got, want)
		}
	}
	if h := rowbytes.Half(float32(math.NaN())); h&0x7c00 != 0x7c00 || h&0x3ff == 0 {
		t.Errorf("NaN is %#04x", h)
	}
}
