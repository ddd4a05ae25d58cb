package rowbytes

import (
	"encoding/binary"
	"math"
)

// Half is v rounded to IEEE 754 binary16, ties to even. Values beyond its range
// become infinite, which no frame may carry.
func Half(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	exp, man := int(b>>23&0xff)-127, b&0x7fffff
	switch {
	case exp == 128:
		if man != 0 {
			return sign | 0x7e00
		}
		return sign | 0x7c00
	case exp > 15:
		return sign | 0x7c00
	case exp < -25:
		return sign
	}
	// The mantissa with its leading bit, moved to where binary16 has its last.
	man |= 1 << 23
	shift := uint(13)
	if exp < -14 {
		shift += uint(-14 - exp)
		exp = -15
	}
	half := man >> shift
	rest, tie := man&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > tie || rest == tie && half&1 == 1 {
		half++
	}
	if exp == -15 { // subnormal; a carry gives the smallest normal number
		return sign | uint16(half)
	}
	return sign + uint16(exp+14)<<10 + uint16(half) // a carry raises the exponent
}

// HalfValue is the value of binary16 bits.
func HalfValue(h uint16) float32 {
	sign, exp, man := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0:
		return math.Float32frombits(math.Float32bits(float32(man)/(1<<24)) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

// F16Bytes is the wire form of v in binary16.
func F16Bytes(v []float32) []byte {
	out := make([]byte, 2*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint16(out[2*i:], Half(x))
	}
	return out
}

// F16Floats reads binary16 elements.
func F16Floats(b []byte) []float32 {
	out := make([]float32, len(b)/2)
	for i := range out {
		out[i] = HalfValue(binary.LittleEndian.Uint16(b[2*i:]))
	}
	return out
}
