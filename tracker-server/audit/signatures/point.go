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

// add is p + a, or p - a. Of an a that is affine, Z is 1.
func (r *ratio) add(p *point, a *addend, subtract, affine bool) {
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
	if affine {
		zz.Add(&p.z, &p.z)
	} else {
		zz.Multiply(&p.z, &a.z)
		zz.Add(&zz, &zz)
	}
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
	limbs    = 8
	limbBits = 32
	digits   = limbBits + 1
)

// oddMultiples are the odd multiples 1, 3, 5, ... of a point, for signed digits
// of a width of bits.
func oddMultiples(p *point, width uint) []point {
	out := make([]point, 1<<(width-2))
	out[0] = *p
	var r ratio
	var twice point
	var step addend
	r.double(p)
	twice.fromRatio(&r)
	step.set(&twice)
	for i := 1; i < len(out); i++ {
		r.add(&out[i-1], &step, false, false)
		out[i].fromRatio(&r)
	}
	return out
}

// table has the odd multiples of 2^0, 2^32, 2^64, ... times a point.
type table struct {
	width uint
	// affine says that all Z are 1, which saves a multiplication whenever one is
	// added, and costs some to get there.
	affine bool
	of     [limbs][]addend
}

func newTable(p *point, width uint, affine bool) *table {
	t := &table{width: width, affine: affine}
	at := *p
	for i := range t.of {
		odd := oddMultiples(&at, width)
		if affine {
			for j, inverse := range invertZ(odd) {
				odd[j].normalize(&inverse)
			}
		}
		t.of[i] = make([]addend, len(odd))
		for j := range odd {
			t.of[i][j].set(&odd[j])
		}
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

// normalize makes Z 1, given 1/Z.
func (p *point) normalize(inverse *field.Element) {
	p.x.Multiply(&p.x, inverse)
	p.y.Multiply(&p.y, inverse)
	p.z.One()
	p.t.Multiply(&p.x, &p.y)
}

// signedDigits writes k in digits that are 0 or odd, smaller in size than
// 2^(width-1), of which at most one in width is not 0. The digits of out are 0
// before.
func signedDigits(out *[digits]int8, k uint32, width uint) {
	left, i := uint64(k), 0 // with a bit for the carry
	for left != 0 {
		zeros := bits.TrailingZeros64(left)
		left >>= zeros
		i += zeros
		d := int64(left & (1<<width - 1))
		if d >= 1<<(width-1) {
			d -= 1 << width
		}
		left = uint64(int64(left) - d)
		out[i] = int8(d)
	}
}

// term is a scalar times the point of a table.
type term struct {
	table  *table
	digits [limbs][digits]int8
}

func (t *term) set(tab *table, s *[limbs]uint32) {
	t.table = tab
	for i, k := range s {
		signedDigits(&t.digits[i], k, tab.width)
	}
}

// sum adds up two terms. The result has no T.
func (p *point) sum(terms *[2]term) {
	p.setNeutral()
	var r ratio
	for i := digits - 1; i >= 0; i-- {
		r.double(p)
		for j := range terms {
			t := &terms[j]
			for l := range t.digits {
				d := t.digits[l][i]
				if d == 0 {
					continue
				}
				p.fromRatio(&r)
				if d > 0 {
					r.add(p, &t.table.of[l][d/2], false, t.table.affine)
				} else {
					r.add(p, &t.table.of[l][-d/2], true, t.table.affine)
				}
			}
		}
		p.fromRatioToDouble(&r)
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
