package signatures

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"filippo.io/edwards25519"
)

func testKey(i int) ed25519.PrivateKey {
	var seed [ed25519.SeedSize]byte
	copy(seed[:], fmt.Sprint("seed", i))
	return ed25519.NewKeyFromSeed(seed[:])
}

// same wants the answer of crypto/ed25519 for each, from our own arithmetic too.
func same(t testing.TB, v *Verifier, checks []Check) (good int) {
	t.Helper()
	own := v.match(checks)
	for i, got := range v.Verify(checks) {
		c := checks[i]
		if want := len(c.Key) == ed25519.PublicKeySize && ed25519.Verify(c.Key, c.Message, c.Sig); got != want || own[i] != want {
			t.Errorf("check %d: %t, by our own arithmetic %t, crypto/ed25519 says %t: key %x, message %x, signature %x", i, got, own[i], want, c.Key, c.Message, c.Sig)
		}
		if got {
			good++
		}
	}
	return good
}

// TestSameAsStandardLibrary: signatures that are right, or wrong by one bit in
// any place, get the answer of crypto/ed25519.
func TestSameAsStandardLibrary(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	var v Verifier
	var checks []Check
	for i := range 400 {
		k := testKey(i % 7)
		m := fmt.Appendf(nil, "message %d", i)
		c := Check{Key: k.Public().(ed25519.PublicKey), Message: m, Sig: ed25519.Sign(k, m)}
		if i%2 == 1 {
			field := []*[]byte{&c.Key, &c.Message, &c.Sig, &c.Sig}[rnd.IntN(4)]
			*field = bytes.Clone(*field)
			at := rnd.IntN(8 * len(*field))
			(*field)[at/8] ^= 1 << (at % 8)
		}
		checks = append(checks, c)
	}
	checks = append(checks, Check{}, Check{Key: checks[0].Key}, Check{Key: checks[0].Key[:31], Sig: checks[0].Sig}, Check{Key: checks[0].Key, Sig: checks[0].Sig[:63]})
	if good := same(t, &v, checks); good != 200 {
		t.Errorf("%d are right", good)
	}
	if v.Verify(nil) == nil {
		t.Error("no answer for nothing")
	}
}

// smallOrder are encodings of the points of order 1, 2, 4 and 8, canonical or
// not, and of some that are no points.
var smallOrder = []string{
	"0100000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000080",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0000000000000000000000000000000000000000000000000000000000000080",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"0200000000000000000000000000000000000000000000000000000000000000",
}

// smallPoints are those of smallOrder that are points, and all encodings.
func smallPoints(t testing.TB) (small []*edwards25519.Point, raw [][]byte) {
	t.Helper()
	for _, x := range smallOrder {
		b, err := hex.DecodeString(x)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, b)
		if p, err := new(edwards25519.Point).SetBytes(b); err == nil {
			small = append(small, p)
		}
	}
	return small, raw
}

// made is what the holder of a key can make: the key a·B + t, R = r·B + u, with
// t and u of small order, and S as an honest signer computes it.
func made(a, r *edwards25519.Scalar, t, u *edwards25519.Point, msg []byte) Check {
	pub := new(edwards25519.Point).ScalarBaseMult(a)
	pub.Add(pub, t)
	R := new(edwards25519.Point).ScalarBaseMult(r)
	R.Add(R, u)
	h := sha512.Sum512(append(append(R.Bytes(), pub.Bytes()...), msg...))
	k, err := new(edwards25519.Scalar).SetUniformBytes(h[:])
	if err != nil {
		panic(err) // of another length
	}
	S := new(edwards25519.Scalar).MultiplyAdd(k, a, r)
	return Check{Key: pub.Bytes(), Message: msg, Sig: append(R.Bytes(), S.Bytes()...)}
}

// TestPointsOfSmallOrder: keys and halves of signatures with a part of small
// order are what implementations disagree on ("Taming the many EdDSAs",
// Chalkias, Garillot and Nikolaenko, 2020). A node may make them on purpose.
func TestPointsOfSmallOrder(t *testing.T) {
	t.Parallel()
	var v Verifier
	small, raw := smallPoints(t)
	var checks []Check
	zero, one := make([]byte, 32), append([]byte{1}, make([]byte, 31)...)
	for _, k := range raw {
		for _, r := range raw {
			for _, s := range [][]byte{zero, one} {
				for m := range 8 {
					checks = append(checks, Check{Key: k, Message: []byte{byte(m)}, Sig: append(bytes.Clone(r), s...)})
				}
			}
		}
	}
	for i := range small {
		for j := range small {
			for m := range 4 {
				checks = append(checks, made(scalar(t, "a", i), scalar(t, "r", m), small[i], small[j], fmt.Appendf(nil, "%d %d %d", i, j, m)))
			}
		}
	}
	if good := same(t, &v, checks); good == 0 || good == len(checks) {
		t.Errorf("%d of %d are right: the cases are not what they should be", good, len(checks))
	}
}

func scalar(t *testing.T, name string, i int) *edwards25519.Scalar {
	h := sha512.Sum512(fmt.Appendf(nil, "%s %d", name, i))
	s, err := new(edwards25519.Scalar).SetUniformBytes(h[:])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestScalarsAtTheEdge: S that is not below the order is refused, and limbs of
// ones or zeros carry as they should.
func TestScalarsAtTheEdge(t *testing.T) {
	t.Parallel()
	order, err := hex.DecodeString("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
	if err != nil {
		t.Fatal(err)
	}
	var v Verifier
	var checks []Check
	k := testKey(1)
	m := []byte("m")
	sig := ed25519.Sign(k, m)
	plusOrder := bytes.Clone(sig)
	carry := 0
	for i := range 32 {
		sum := int(sig[32+i]) + int(order[i]) + carry
		plusOrder[32+i], carry = byte(sum), sum>>8
	}
	for _, s := range [][]byte{order, bytes.Repeat([]byte{255}, 32), plusOrder[32:], sig[32:]} {
		checks = append(checks, Check{Key: k.Public().(ed25519.PublicKey), Message: m, Sig: append(bytes.Clone(sig[:32]), s...)})
	}
	if good := same(t, &v, checks); good != 1 {
		t.Errorf("%d are right", good)
	}
	for _, width := range []uint{keyWidth, baseWidth} {
		for _, x := range []uint32{0, 1, 2, 3, 1 << 31, 1<<31 - 1, 1<<32 - 1, 1<<32 - 2, 0xaaaaaaaa, 0x55555555, 0xf0f0f0f0} {
			var d [digits]int8
			signedDigits(&d, x, width)
			sum := int64(0)
			last := -digits
			for i, v := range d {
				if v == 0 {
					continue
				}
				if v%2 == 0 || int(v) >= 1<<(width-1) || int(v) <= -1<<(width-1) || i-last < int(width) {
					t.Errorf("%x, width %d: digit %d at %d", x, width, v, i)
				}
				last = i
				sum += int64(v) << i
			}
			if sum != int64(x) {
				t.Errorf("%x, width %d: the digits are those of %x", x, width, sum)
			}
		}
	}
}

// TestManyKeys: more keys than are kept, from several goroutines.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	var v Verifier
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range keysKept {
				k := testKey(g*keysKept/2 + i)
				m := fmt.Append(nil, g, i)
				sig := ed25519.Sign(k, m)
				got := v.Verify([]Check{{k.Public().(ed25519.PublicKey), m, sig}, {k.Public().(ed25519.PublicKey), m[:1], sig}})
				if !got[0] || got[1] {
					t.Errorf("%d %d: %v", g, i, got)
				}
			}
		})
	}
	wg.Wait()
	if n := len(v.young) + len(v.old); n > 2*keysKept {
		t.Errorf("%d keys are kept", n)
	}
}

// FuzzSameAsStandardLibrary compares with crypto/ed25519, for what is made of a
// right signature by changes, and for anything.
func FuzzSameAsStandardLibrary(f *testing.F) {
	k := testKey(3)
	sig := ed25519.Sign(k, []byte("message"))
	f.Add([]byte(k.Public().(ed25519.PublicKey)), []byte("message"), sig)
	f.Add([]byte(k.Public().(ed25519.PublicKey)), []byte("other"), sig)
	for _, x := range smallOrder[:12] {
		b, _ := hex.DecodeString(x)
		f.Add(b, []byte("m"), append(bytes.Clone(b), make([]byte, 32)...))
	}
	var v Verifier
	f.Fuzz(func(t *testing.T, key, msg, sig []byte) {
		same(t, &v, []Check{{key, msg, sig}, {k.Public().(ed25519.PublicKey), msg, ed25519.Sign(k, msg)}, {key, msg, sig}})
	})
}

// FuzzMadeByKeyHolder compares for what the holder of any key can make, most of
// which is right. a and r are numbers of up to 32 bytes, the lowest first.
func FuzzMadeByKeyHolder(f *testing.F) {
	small, _ := smallPoints(f)
	f.Add([]byte{}, []byte{1}, uint8(0), uint8(0), []byte("m"))
	number := func(t *testing.T, b []byte) *edwards25519.Scalar {
		var wide [64]byte
		copy(wide[:32], b)
		s, err := new(edwards25519.Scalar).SetUniformBytes(wide[:])
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var v Verifier
	f.Fuzz(func(t *testing.T, a, r []byte, i, j uint8, msg []byte) {
		plain := i == 0 && j == 0
		c := made(number(t, a), number(t, r), small[int(i)%len(small)], small[int(j)%len(small)], msg)
		if good := same(t, &v, []Check{c}); plain && good != 1 {
			t.Errorf("an honest signature is refused: %x", c)
		}
	})
}

// BenchmarkVerify is a hop's batch: some receipts, each with two signatures.
func BenchmarkVerify(b *testing.B) {
	var checks []Check
	for i := range 10 {
		k := testKey(i % 2)
		m := bytes.Repeat([]byte{byte(i)}, 400)
		checks = append(checks, Check{k.Public().(ed25519.PublicKey), m, ed25519.Sign(k, m)})
	}
	b.Run("known keys", func(b *testing.B) {
		var v Verifier
		for range b.N {
			v.Verify(checks)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(checks)), "ns/signature")
	})
	b.Run("new keys", func(b *testing.B) {
		for range b.N {
			new(Verifier).Verify(checks)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(checks)), "ns/signature")
	})
	b.Run("crypto/ed25519", func(b *testing.B) {
		for range b.N {
			for _, c := range checks {
				ed25519.Verify(c.Key, c.Message, c.Sig)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(checks)), "ns/signature")
	})
}
