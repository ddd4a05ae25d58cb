// Package signatures verifies many Ed25519 signatures of few keys, as receipts
// have them, in half the time of crypto/ed25519: multiples of each key are
// computed once.
//
// It accepts exactly what crypto/ed25519 accepts, for signatures that a node may
// have made to be accepted by one and refused by the other, too. That is so by
// construction: keys and scalars are read by the same code as there, the same
// point [S]B - [k]A is computed with k and S as whole numbers, by formulas that
// hold for every two points of the curve, those of small order included, and its
// one encoding is compared with the signature's first half, which is never read
// as a point. What differs is in which order multiples are added up. Whatever
// does not match is shown to crypto/ed25519, which alone refuses. Verifying a
// batch by one equation would be faster, and would not tell such signatures.
//
// The audit imports it; it knows no receipts.
package signatures

import (
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/binary"
	"sync"

	"filippo.io/edwards25519"
)

// Check is a signature and what it should be of.
type Check struct {
	Key, Message, Sig []byte
}

// Bits of a signed digit: of keys, whose multiples are computed for some
// signatures, and of the base, whose are computed once.
const (
	keyWidth  = 5
	baseWidth = 8
)

// keysKept bounds the keys in memory, 10 KiB each: so many at least, and twice as
// many at most.
const keysKept = 256

// base has the multiples of the curve's generator.
var base = sync.OnceValue(func() *table {
	var p point
	p.set(edwards25519.NewGeneratorPoint(), false)
	return newTable(&p, baseWidth, true)
})

type key [ed25519.PublicKeySize]byte

// Verifier verifies and remembers keys. The zero Verifier is ready, and safe for
// concurrent use.
type Verifier struct {
	mu sync.Mutex
	// Keys that were used since the last change of generations, and before; nil
	// tables for what is no key. Guarded by mu.
	young, old map[key]*table
}

// Verify reports of each whether crypto/ed25519 would accept it. Keys of another
// length than 32 bytes are refused. A signature that is wrong costs three times
// one that is right.
func (v *Verifier) Verify(checks []Check) []bool {
	good := v.match(checks)
	for i := range checks {
		if c := &checks[i]; !good[i] && len(c.Key) == ed25519.PublicKeySize {
			good[i] = ed25519.Verify(c.Key, c.Message, c.Sig)
		}
	}
	return good
}

// match is Verify by our own arithmetic alone.
func (v *Verifier) match(checks []Check) []bool {
	good := make([]bool, len(checks))
	points := make([]point, 0, len(checks))
	of := make([]int, 0, len(checks))
	for i := range checks {
		var p point
		if v.recover(&p, &checks[i]) {
			points, of = append(points, p), append(of, i)
		}
	}
	for i, inverse := range invertZ(points) {
		r := points[i].encode(&inverse)
		good[of[i]] = string(r[:]) == string(checks[of[i]].Sig[:len(r)])
	}
	return good
}

// recover computes the point R that the signature should begin with, as RFC
// 8032, section 5.1.7, has it: [S]B - [k]A. It reports whether there is one.
func (v *Verifier) recover(p *point, c *Check) bool {
	if len(c.Key) != ed25519.PublicKeySize || len(c.Sig) != ed25519.SignatureSize {
		return false
	}
	s, err := new(edwards25519.Scalar).SetCanonicalBytes(c.Sig[32:])
	if err != nil {
		return false
	}
	t := v.table(key(c.Key))
	if t == nil {
		return false
	}
	h := sha512.New()
	h.Write(c.Sig[:32])
	h.Write(c.Key)
	h.Write(c.Message)
	var sum [sha512.Size]byte
	k, err := new(edwards25519.Scalar).SetUniformBytes(h.Sum(sum[:0]))
	if err != nil {
		return false // of another length; SHA-512 has this one
	}
	var terms [2]term
	terms[0].set(base(), split(s))
	terms[1].set(t, split(k))
	p.sum(&terms)
	return true
}

func split(s *edwards25519.Scalar) *[limbs]uint32 {
	var out [limbs]uint32
	b := s.Bytes()
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return &out
}

// table finds the multiples of -A for the key A; nil for what is no point.
func (v *Verifier) table(k key) *table {
	v.mu.Lock()
	t, known := v.young[k]
	old, wasOld := v.old[k]
	v.mu.Unlock()
	switch {
	case known:
		return t
	case wasOld:
		t = old
	default:
		if a, err := new(edwards25519.Point).SetBytes(k[:]); err == nil {
			var p point
			p.set(a, true)
			t = newTable(&p, keyWidth, false)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.young) >= keysKept {
		v.young, v.old = nil, v.young
	}
	if v.young == nil {
		v.young = make(map[key]*table)
	}
	v.young[k] = t
	return t
}
