package synth

import (
	"encoding/binary"
	"math"

	"neuron/llama/gguf"
)

// rng is SplitMix64 (Steele, Lea and Flood 2014): 8 good bytes in about a nanosecond.
type rng struct{ state uint64 }

func (r *rng) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// normal is nearly normal with mean 0 and spread 1: the sum of four uniform numbers. It
// uses exact operations only, so every platform draws the same.
func (r *rng) normal() float64 {
	x := r.next()
	sum := int64(x&0xffff) + int64(x>>16&0xffff) + int64(x>>32&0xffff) + int64(x>>48)
	// The sum has mean 4*32767.5 and variance 4*(2^32-1)/12.
	return float64(sum-131070) * (1 / 37837.22723720648)
}

// Spread of the uniform integers that fill quantized blocks.
const (
	spreadQ4   = 4.609772228646444                     // -8..7 and 0..15: sqrt((16^2-1)/12)
	spreadQ8   = 73.89522248596319                     // -127..127 with -127 twice as likely
	spreadQ4_K = 4.609772228646444 * 48.38904834774083 // times the root mean square of 32..63
)

// generator draws blocks of one tensor type. Quantized blocks are drawn directly in their
// packed form (layouts: ggml-common.h of llama.cpp v0.4.0), which is as fast as drawing
// bytes; the scale of each block is one of scales.
type generator struct {
	typ       gguf.Type
	mean, std float64
	// scales are f16: half of them negative, so that the uneven range -8..7 of Q4_0 leaves
	// no mean over a row. mins belong to Q4_K.
	scales, mins [16]uint16
}

func newGenerator(typ gguf.Type, mean, std float64) *generator {
	g := &generator{typ: typ, mean: mean, std: std}
	for i := range g.scales {
		// Sizes 0.8 to 1.2 whose root mean square is 1.00854.
		size := std / 1.0085350054127311 * (0.8 + 0.4*float64(i/2)/7)
		sign := 1 - 2*float64(i%2)
		switch typ {
		case gguf.TypeQ8_0:
			g.scales[i] = toF16(float32(sign * size / spreadQ8))
		case gguf.TypeQ4_0:
			g.scales[i] = toF16(float32(sign * size / spreadQ4))
		case gguf.TypeQ4_K:
			// w = d*sc*q - dmin*m with m = sc and dmin = 7.5 d is symmetric by itself.
			g.scales[i] = toF16(float32(size / spreadQ4_K))
			g.mins[i] = toF16(float32(7.5 * size / spreadQ4_K))
		}
	}
	return g
}

// fill appends n blocks to b.
func (g *generator) fill(b []byte, n int, r *rng) []byte {
	le := binary.LittleEndian
	switch g.typ {
	case gguf.TypeF32:
		for range n {
			b = appendF32(b, g.value(r))
		}
	case gguf.TypeF16:
		for range n {
			b = le.AppendUint16(b, toF16(g.value(r)))
		}
	case gguf.TypeBF16:
		for range n {
			b = le.AppendUint16(b, toBF16(g.value(r)))
		}
	case gguf.TypeQ8_0: // f16 scale, 32 int8
		for range n {
			b = le.AppendUint16(b, g.scales[r.next()>>60])
			for range 4 {
				b = le.AppendUint64(b, noMinInt8(r.next()))
			}
		}
	case gguf.TypeQ4_0: // f16 scale, 32 nibbles
		for range n {
			b = le.AppendUint16(b, g.scales[r.next()>>60])
			b = le.AppendUint64(b, r.next())
			b = le.AppendUint64(b, r.next())
		}
	case gguf.TypeQ4_K: // f16 scale, f16 minimum, 12 bytes of sub-scales, 256 nibbles
		for range n {
			k := r.next() >> 60
			b = le.AppendUint16(b, g.scales[k])
			b = le.AppendUint16(b, g.mins[k])
			b = appendSubScales(b, r.next())
			for range 16 {
				b = le.AppendUint64(b, r.next())
			}
		}
	}
	return b
}

// value draws one number. The conversion keeps compilers from fusing the multiplication
// with the addition, which would round differently on some platforms.
func (g *generator) value(r *rng) float32 { return float32(g.mean + float64(g.std*r.normal())) }

// noMinInt8 turns each byte -128 into -127: quantizers never write -128.
func noMinInt8(x uint64) uint64 {
	const low7 = 0x7f7f7f7f7f7f7f7f
	// The top bit of each byte of zero7 is set where the lower seven bits are all zero.
	zero7 := ^((x&low7 + low7) | low7)
	return x | (x&zero7)>>7
}

// appendSubScales packs eight 6-bit scales from 32 to 63, each also as its minimum. The
// first four of both have bytes of their own; of the last four the low nibbles share a
// byte and the high two bits ride on top of the first four.
func appendSubScales(b []byte, x uint64) []byte {
	var sc [8]byte
	for j := range sc {
		sc[j] = 32 + byte(x>>(8*j))&31
	}
	var p [12]byte
	for j := range 4 {
		hi := sc[j+4] >> 4 << 6
		p[j] = sc[j] | hi
		p[j+4] = sc[j] | hi
		p[j+8] = sc[j+4]&15 | sc[j+4]<<4
	}
	return append(b, p[:]...)
}

func appendF32(b []byte, v float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
}

// toBF16 rounds a finite number to nearest even.
func toBF16(v float32) uint16 {
	u := math.Float32bits(v)
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// toF16 rounds a finite number to IEEE half precision, to nearest even.
func toF16(v float32) uint16 {
	u := math.Float32bits(v)
	sign := uint16(u >> 16 & 0x8000)
	exp := int(u>>23&0xff) - 127
	man := u&0x7fffff | 0x800000
	switch {
	case exp > 15:
		return sign | 0x7c00
	case exp < -25:
		return sign
	}
	shift := 13
	base := uint32(exp+14) << 10 // the hidden bit of man adds the missing one
	if exp < -14 {               // subnormal
		shift += -14 - exp
		base = 0
	}
	h := man >> shift
	rest, half := man&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > half || rest == half && h&1 == 1 {
		h++
	}
	return sign | uint16(base+h)
}
