package shapes

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"

	"neuron/llama/gguf"
)

// spread is how a tensor's weights are drawn.
type spread struct{ mean, std float64 }

// spreadOf keeps a vector of unit spread at unit spread. Router weights are drawn
// like all others, so that tokens choose different experts.
func spreadOf(t Tensor) spread {
	if len(t.Dims) > 1 {
		return spread{0, 1 / math.Sqrt(float64(t.Dims[0]))}
	}
	if strings.Contains(t.Name, "norm") || strings.HasSuffix(t.Name, "_scale.weight") {
		return spread{1, 0.1}
	}
	return spread{0, 0.1}
}

// random draws blocks of weights.
type random struct {
	chacha *rand.ChaCha8
	rng    *rand.Rand
	buf    []byte
}

func newRandom(seed uint64) *random {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	c := rand.NewChaCha8(key)
	return &random{chacha: c, rng: rand.New(c), buf: make([]byte, 1<<20)}
}

// fill writes a tensor. Blocks of quantized types are random bytes with a sane
// scale: they take as long to compute with as trained ones.
func (r *random) fill(w io.Writer, t gguf.TensorInfo, s spread) error {
	n, err := t.Bytes()
	if err != nil {
		return err
	}
	size := t.Type.TypeSize()
	for n > 0 {
		k := min(uint64(len(r.buf))/size*size, n)
		b := r.buf[:k]
		if err := r.blocks(b, t.Type, s); err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// scaleAt says where a block of a quantized type has its scale (an f16), and how
// far its integers spread around it: layouts of ggml-common.h in the pinned
// llama.cpp. minAt is the place of the scale of the minima, -1 without.
var scaleAt = map[gguf.Type]struct {
	at, minAt int
	reach     float64
}{
	gguf.TypeQ8_0:    {0, -1, 74},
	gguf.TypeQ2_K:    {80, 82, 8},
	gguf.TypeQ3_K:    {108, -1, 40},
	gguf.TypeQ4_K:    {0, 2, 160},
	gguf.TypeQ5_K:    {0, 2, 320},
	gguf.TypeQ6_K:    {208, -1, 1300},
	gguf.TypeIQ2_XXS: {0, -1, 50},
}

func (r *random) blocks(b []byte, typ gguf.Type, s spread) error {
	le := binary.LittleEndian
	switch typ {
	case gguf.TypeF32:
		for i := 0; i < len(b); i += 4 {
			le.PutUint32(b[i:], math.Float32bits(float32(s.mean+s.std*r.rng.NormFloat64())))
		}
		return nil
	case gguf.TypeF16:
		for i := 0; i < len(b); i += 2 {
			le.PutUint16(b[i:], half(s.mean+s.std*r.rng.NormFloat64()))
		}
		return nil
	}
	if _, err := r.chacha.Read(b); err != nil {
		return err
	}
	size := int(typ.TypeSize())
	if typ == gguf.TypeMXFP4 { // one exponent of a power of two for 32 values up to 6
		e := byte(127 + int(math.Round(math.Log2(s.std/3))))
		for i := 0; i < len(b); i += size {
			b[i] = e
		}
		return nil
	}
	x, ok := scaleAt[typ]
	if !ok {
		return fmt.Errorf("shapes: weights of type %s cannot be drawn", typ)
	}
	d := half(s.std / x.reach)
	for i := 0; i < len(b); i += size {
		le.PutUint16(b[i+x.at:], d)
		if x.minAt >= 0 {
			le.PutUint16(b[i+x.minAt:], d)
		}
	}
	return nil
}

// half rounds to IEEE half precision, toward zero; what is too small for a normal
// number becomes the smallest one.
func half(x float64) uint16 {
	u := math.Float32bits(float32(x))
	sign := uint16(u >> 16 & 0x8000)
	switch exp := int(u>>23&0xff) - 127; {
	case exp < -14:
		return sign | 0x0400
	case exp > 15:
		return sign | 0x7bff
	default:
		return sign | uint16((exp+15)<<10) | uint16(u>>13&0x3ff)
	}
}
