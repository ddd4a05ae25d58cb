package signatures

import (
	"math/bits"

	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"
)

// Points of the twisted Edwards curve -x²+y² = 1+dx²y² in the coordinates of
// Hisil, Wong, Carter and Dawson ("Twisted Edwards Curves Revisited", 2008).
// What is computed here is public: its time may depend on the values.

// point is (X:Y:Z:T) with x = X/Z, y = Y/Z, T = XY/Z.
type point struct{ x, y, z, t field.Element }

// ratio is a sum or double before its coordinates are multiplied out:
// x = X/Z, y = Y/T.
type ratio struct{ x, y, z, t field.Element }

// addend is a point prepared for being added often: Y+X, Y-X, Z, 2dT.
type addend struct{ plus, minus, z, t2d field.Element }

// twiceD is 2d; d = -121665/121666.
var twiceD = func() *field.Element {
	one := new(field.Element).One()
	d := new(field.Element).Invert(new(field.Element).Mult32(one, 121666))
	d.Multiply(d, new(field.Element).Mult32(one, 121665))
	d.Negate(d)
	return d.Add(d, d)
}()

// set takes over a point of the library, with its sign turned when negative.
func (p *point) set(q *edwards25519.Point, negative bool) {
	x, y, z, t := q.ExtendedCoordinates()
	if negative {
		x.Negate(x)
		t.Negate(t)
	}
	p.x, p.y, p.z, p.t = *x, *y, *z, *t
}

func (p *point) setNeutral() {
	p.x.Zero()
	p.y.One()
	p.z.One()
	p.t.Zero()
}

func (p *point) fromRatio(r *ratio) {
	p.x.Multiply(&r.x, &r.t)
	p.y.Multiply(&r.y, &r.z)
	p.z.Multiply(&r.z, &r.t)
	p.t.Multiply(&r.x, &r.y)
}

// fromRatioToDouble leaves T out, which doubling does not need.
func (p *point) fromRatioToDouble(r *ratio) {
	p.x.Multiply(&r.x, &r.t)
	p.y.Multiply(&r.y, &r.z)
	p.z.Multiply(&r.z, &r.t)
}

func (a *addend) set(p *point) {
	a.plus.Add(&p.y, &p.x)
	a.minus.Subtract(&p.y, &p.x)
	a.z = p.z
	a.t2d.Multiply(&p.t, twiceD)
}

func (r *ratio) double(p *point) {
	var xx, yy, zz2, sum field.Element
	xx.Square(&p.x)
	yy.Square(&p.y)
	zz2.Square(&p.z)
	zz2.Add(&zz2, &zz2)
	sum.Add(&p.x, &p.y)
	sum.Square(&sum)
	r.y.Add(&yy, &xx)
	r.z.Subtract(&yy, &xx)
	r.x.Subtract(&sum, &r.y)
	r.t.Subtract(&zz2, &r.z)
}

// add is p + a, or p - a.
func (r *ratio) add(p *point, a *addend, subtract bool) {
	plus, minus := &a.plus, &a.minus
	if subtract {
		plus, minus = minus, plus
	}
	var pp, mm, tt, zz field.Element
	pp.Add(&p.y, &p.x)
	pp.Multiply(&pp, plus)
	mm.Subtract(&p.y, &p.x)
	mm.Multiply(&mm, minus)
	tt.Multiply(&p.t, &a.t2d)
	zz.Multiply(&p.z, &a.z)
	zz.Add(&zz, &zz)
	r.x.Subtract(&pp, &mm)
	r.y.Add(&pp, &mm)
	if subtract {
		r.z.Subtract(&zz, &tt)
		r.t.Add(&zz, &tt)
	} else {
		r.z.Add(&zz, &tt)
		r.t.Subtract(&zz, &tt)
	}
}

// A scalar is cut into limbs, each with multiples of its own power of the base,
// so that the doublings are those of one limb.
const (
	limbs    = 4
	limbBits = 64
	digits   = limbBits + 1
)

// odd are the odd multiples 1, 3, 5, ... of a point, for signed digits of a
// width of bits.
type odd []addend

func oddMultiples(p *point, width uint) odd {
	out := make(odd, 1<<(width-2))
	out[0].set(p)
	var r ratio
	var twice point
	var step addend
	r.double(p)
	twice.fromRatio(&r)
	step.set(&twice)
	at := *p
	for i := 1; i < len(out); i++ {
		r.add(&at, &step, false)
		at.fromRatio(&r)
		out[i].set(&at)
	}
	return out
}

// table has the odd multiples of 2^0, 2^64, 2^128 and 2^192 times a point.
type table struct {
	width uint
	of    [limbs]odd
}

func newTable(p *point, width uint) *table {
	t := &table{width: width}
	at := *p
	for i := range t.of {
		t.of[i] = oddMultiples(&at, width)
		if i == limbs-1 {
			break
		}
		var r ratio
		for range limbBits - 1 {
			r.double(&at)
			at.fromRatioToDouble(&r)
		}
		r.double(&at)
		at.fromRatio(&r)
	}
	return t
}

// signedDigits writes k in digits that are 0 or odd, smaller in size than
// 2^(width-1), of which at most one in width is not 0.
func signedDigits(out *[digits]int8, k uint64, width uint) {
	*out = [digits]int8{}
	carry := uint64(0) // above the 64 bits of k
	for i := 0; k|carry != 0; i++ {
		if k&1 == 1 {
			d := int64(k & (1<<width - 1))
			if d >= 1<<(width-1) {
				d -= 1 << width
				var c uint64
				k, c = bits.Add64(k, uint64(-d), 0)
				carry += c
			} else {
				k -= uint64(d)
			}
			out[i] = int8(d)
		}
		k = k>>1 | carry<<63
		carry >>= 1
	}
}

// term is a scalar times the point of a table.
type term struct {
	table  *table
	digits [limbs][digits]int8
}

func (t *term) set(tab *table, s *[limbs]uint64) {
	t.table = tab
	for i, k := range s {
		signedDigits(&t.digits[i], k, tab.width)
	}
}

// sum adds up two terms.
func (p *point) sum(terms *[2]term) {
	p.setNeutral()
	var r ratio
	for i := digits - 1; i >= 0; i-- {
		r.double(p)
		whole := false // p is r with its T
		for j := range terms {
			t := &terms[j]
			for l := range t.digits {
				d := t.digits[l][i]
				if d == 0 {
					continue
				}
				if !whole {
					p.fromRatio(&r)
				}
				if d > 0 {
					r.add(p, &t.table.of[l][d/2], false)
				} else {
					r.add(p, &t.table.of[l][-d/2], true)
				}
				p.fromRatio(&r)
				whole = true
			}
		}
		if !whole {
			p.fromRatioToDouble(&r)
		}
	}
}

// encode writes a point as 32 bytes, given 1/Z: y, and the sign of x.
func (p *point) encode(inverse *field.Element) (out [32]byte) {
	var x, y field.Element
	x.Multiply(&p.x, inverse)
	y.Multiply(&p.y, inverse)
	copy(out[:], y.Bytes())
	out[31] |= byte(x.IsNegative() << 7)
	return out
}

// invertZ computes 1/Z of each point, all with one inversion (Montgomery).
func invertZ(points []point) []field.Element {
	out := make([]field.Element, len(points))
	var product field.Element
	product.One()
	for i := range points {
		out[i] = product
		product.Multiply(&product, &points[i].z)
	}
	product.Invert(&product)
	for i := len(points) - 1; i >= 0; i-- {
		out[i].Multiply(&out[i], &product)
		product.Multiply(&product, &points[i].z)
	}
	return out
}
