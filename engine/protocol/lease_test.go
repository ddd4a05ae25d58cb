package protocol_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/protocoltest"

	"github.com/google/go-cmp/cmp"
)

// testKey is a fixed key: signatures of Ed25519 are deterministic.
func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("test key " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func testNode(name string) protocol.NodeID {
	return protocol.NodeIDOf(testKey(name).Public().(ed25519.PublicKey))
}

var leaseTime = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func testLease() *protocol.Lease {
	return &protocol.Lease{
		Version: protocol.Version,
		Session: "s-aaaaaaaaaaaaaaaaaaaaaaaaaa",
		Model:   protocol.ModelIDOf([][sha256.Size]byte{{1}, {2}}),
		Layers:  8,
		Driver:  testNode("driver"),
		Hops: []protocol.Hop{
			{Node: testNode("a"), Addr: "127.0.0.1:4001", Use: protocol.Range{First: 0, Last: 3}, StepMicros: 800},
			{Node: testNode("b"), Addr: "127.0.0.1:4002", Use: protocol.Range{First: 3, Last: 8}, StepMicros: 1200},
		},
		Context:     2048,
		DType:       protocol.DTypeF32,
		EngineBuild: protocol.Build{Protocol: protocol.Version, Llama: "v0.4.0"},
		Issued:      leaseTime,
		Expires:     leaseTime.Add(time.Hour),
		Policy:      "public",
	}
}

func sign(t *testing.T, l *protocol.Lease, key ed25519.PrivateKey) *protocol.SignedLease {
	t.Helper()
	s, err := protocol.SignLease(l, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// forge signs bytes that SignLease would refuse; a tracker with a fault could.
func forge(raw []byte, key ed25519.PrivateKey) *protocol.SignedLease {
	return &protocol.SignedLease{
		Lease: raw,
		Key:   key.Public().(ed25519.PublicKey),
		Sig:   ed25519.Sign(key, append([]byte("neuron-lease-v1\x00"), raw...)),
	}
}

func TestLeaseRoundTrip(t *testing.T) {
	t.Parallel()
	key := testKey("tracker")
	pub := key.Public().(ed25519.PublicKey)
	want := testLease()
	wire, err := json.Marshal(sign(t, want, key))
	if err != nil {
		t.Fatal(err)
	}
	var s protocol.SignedLease
	if err := json.Unmarshal(wire, &s); err != nil {
		t.Fatal(err)
	}
	got, err := s.Verify(pub, leaseTime.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// A second hand that passes it on does not break the signature.
	again, err := json.Marshal(&s)
	if err != nil || !bytes.Equal(again, wire) {
		t.Errorf("re-encoded as %s (%v)", again, err)
	}
	if i, ok := got.HopOf(testNode("b")); !ok || i != 1 {
		t.Errorf("HopOf(b) = %d, %t", i, ok)
	}
	if _, ok := got.HopOf(testNode("driver")); ok {
		t.Error("the driver is no hop")
	}
}

// TestGoldenLease holds the signed bytes: a fixed lease under a fixed key.
func TestGoldenLease(t *testing.T) {
	const path = "testdata/golden/lease-signed.txt"
	key := testKey("tracker")
	s := sign(t, testLease(), key)
	got := fmt.Sprintf("lease %s\nkey   %s\nsig   %s\n", s.Lease, hex.EncodeToString(s.Key), hex.EncodeToString(s.Sig))
	protocoltest.Golden(t, path, `A lease of two hops, signed over "neuron-lease-v1", a zero byte and the lease's JSON.
The key's seed is the SHA-256 of "test key tracker".`, got)
}

func TestLeaseTime(t *testing.T) {
	t.Parallel()
	key := testKey("tracker")
	pub := key.Public().(ed25519.PublicKey)
	l := testLease()
	s := sign(t, l, key)
	if _, err := s.Verify(pub, l.Expires); err != nil {
		t.Errorf("at the last instant: %v", err)
	}
	if _, err := s.Verify(pub, l.Expires.Add(1)); code(err) != protocol.CodeLeaseExpired {
		t.Errorf("after it: %v", err)
	}
}

func TestLeaseTamper(t *testing.T) {
	t.Parallel()
	key := testKey("tracker")
	pub := key.Public().(ed25519.PublicKey)
	good := sign(t, testLease(), key)
	now := leaseTime.Add(time.Minute)
	for name, edit := range map[string]func(*protocol.SignedLease){
		"every hop": func(s *protocol.SignedLease) {
			s.Lease = bytes.Replace(s.Lease, []byte("127.0.0.1:4002"), []byte("127.0.0.1:6666"), 1)
		},
		"more cells":      func(s *protocol.SignedLease) { s.Lease = bytes.Replace(s.Lease, []byte("2048"), []byte("9048"), 1) },
		"white space":     func(s *protocol.SignedLease) { s.Lease = append(s.Lease, ' ') },
		"no lease":        func(s *protocol.SignedLease) { s.Lease = nil },
		"signature bit":   func(s *protocol.SignedLease) { s.Sig[10] ^= 1 },
		"short signature": func(s *protocol.SignedLease) { s.Sig = s.Sig[:63] },
		"no signature":    func(s *protocol.SignedLease) { s.Sig = nil },
		"another key":     func(s *protocol.SignedLease) { s.Key[0] ^= 1 },
		"no key":          func(s *protocol.SignedLease) { s.Key = nil },
		"other signer":    func(s *protocol.SignedLease) { *s = *forge(s.Lease, testKey("thief")) },
		"other signer under our key": func(s *protocol.SignedLease) {
			s.Sig = forge(s.Lease, testKey("thief")).Sig
		},
		"signature of another domain": func(s *protocol.SignedLease) {
			s.Sig = ed25519.Sign(key, append([]byte(protocol.HelloDomain), s.Lease...))
		},
		"signature without a domain": func(s *protocol.SignedLease) { s.Sig = ed25519.Sign(key, s.Lease) },
		"too long":                   func(s *protocol.SignedLease) { *s = *forge(bytes.Repeat([]byte(" "), 64<<10+1), key) },
		"signed but not JSON":        func(s *protocol.SignedLease) { *s = *forge([]byte("{"), key) },
	} {
		s := &protocol.SignedLease{Lease: bytes.Clone(good.Lease), Key: bytes.Clone(good.Key), Sig: bytes.Clone(good.Sig)}
		edit(s)
		if l, err := s.Verify(pub, now); code(err) != protocol.CodeLeaseInvalid {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
	for _, trusted := range []ed25519.PublicKey{nil, {}, pub[:31], testKey("thief").Public().(ed25519.PublicKey)} {
		if _, err := good.Verify(trusted, now); code(err) != protocol.CodeLeaseInvalid {
			t.Errorf("trusted key of %d bytes: %v", len(trusted), err)
		}
	}
}

// TestLeaseRules breaks one rule at a time; neither side lets it pass.
func TestLeaseRules(t *testing.T) {
	t.Parallel()
	key := testKey("tracker")
	pub := key.Public().(ed25519.PublicKey)
	hop := func(i, first, last int) protocol.Hop {
		return protocol.Hop{Node: testNode(fmt.Sprint(i)), Addr: "127.0.0.1:1", Use: protocol.Range{First: first, Last: last}}
	}
	many := func(n int) func(*protocol.Lease) {
		return func(l *protocol.Lease) {
			l.Layers, l.Hops = n, nil
			for i := range n {
				l.Hops = append(l.Hops, hop(i, i, i+1))
			}
		}
	}
	for _, tc := range []struct {
		name string
		edit func(*protocol.Lease)
		want protocol.Code // "" is accepted
	}{
		{"as it is", func(*protocol.Lease) {}, ""},
		{"one hop", func(l *protocol.Lease) { l.Hops = []protocol.Hop{hop(0, 0, 8)} }, ""},
		{"most hops", many(protocol.MaxHops), ""},
		{"one cell", func(l *protocol.Lease) { l.Context = 1 }, ""},
		{"most cells", func(l *protocol.Lease) { l.Context = protocol.MaxContext }, ""},
		{"f16", func(l *protocol.Lease) { l.DType = protocol.DTypeF16 }, ""},

		{"version", func(l *protocol.Lease) { l.Version++ }, protocol.CodeProtocolVersion},
		{"session", func(l *protocol.Lease) { l.Session = "s-" }, protocol.CodeLeaseInvalid},
		{"model", func(l *protocol.Lease) { l.Model = "guide" }, protocol.CodeLeaseInvalid},
		{"no hops", func(l *protocol.Lease) { l.Hops = nil }, protocol.CodeLeaseInvalid},
		{"too many hops", many(protocol.MaxHops + 1), protocol.CodeLeaseInvalid},
		{"no cells", func(l *protocol.Lease) { l.Context = 0 }, protocol.CodeLeaseInvalid},
		{"negative cells", func(l *protocol.Lease) { l.Context = -1 }, protocol.CodeLeaseInvalid},
		{"too many cells", func(l *protocol.Lease) { l.Context = protocol.MaxContext + 1 }, protocol.CodeLeaseInvalid},
		{"no dtype", func(l *protocol.Lease) { l.DType = protocol.DTypeNone }, protocol.CodeLeaseInvalid},
		{"unknown dtype", func(l *protocol.Lease) { l.DType = 9 }, protocol.CodeLeaseInvalid},
		{"no time", func(l *protocol.Lease) { l.Expires = l.Issued }, protocol.CodeLeaseInvalid},
		{"no layers", func(l *protocol.Lease) { l.Layers = 0 }, protocol.CodeLeaseInvalid},
		{"gap", func(l *protocol.Lease) { l.Hops[1].Use.First = 4 }, protocol.CodeLeaseInvalid},
		{"overlap", func(l *protocol.Lease) { l.Hops[1].Use.First = 2 }, protocol.CodeLeaseInvalid},
		{"late start", func(l *protocol.Lease) { l.Hops[0].Use.First = 1 }, protocol.CodeLeaseInvalid},
		{"negative start", func(l *protocol.Lease) { l.Hops[0].Use.First = -1 }, protocol.CodeLeaseInvalid},
		{"short of the end", func(l *protocol.Lease) { l.Hops[1].Use.Last = 7 }, protocol.CodeLeaseInvalid},
		{"behind the end", func(l *protocol.Lease) { l.Hops[1].Use.Last = 9 }, protocol.CodeLeaseInvalid},
		{"empty range", func(l *protocol.Lease) { l.Hops[0].Use.Last = 0; l.Hops[1].Use.First = 0 }, protocol.CodeLeaseInvalid},
		{"backwards", func(l *protocol.Lease) { l.Hops[0], l.Hops[1] = l.Hops[1], l.Hops[0] }, protocol.CodeLeaseInvalid},
		{"a node twice", func(l *protocol.Lease) { l.Hops[1].Node = l.Hops[0].Node }, protocol.CodeLeaseInvalid},
	} {
		l := testLease()
		tc.edit(l)
		_, signErr := protocol.SignLease(l, key)
		raw, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		_, verifyErr := forge(raw, key).Verify(pub, leaseTime.Add(time.Minute))
		for side, err := range map[string]error{"sign": signErr, "verify": verifyErr} {
			if code(err) != tc.want || (tc.want == "" && err != nil) {
				t.Errorf("%s: %s: %v, want %q", tc.name, side, err, tc.want)
			}
		}
	}
}

func TestHelloPayload(t *testing.T) {
	t.Parallel()
	nonce, tracker := []byte("nonce"), []byte("tracker")
	p := protocol.HelloPayload(nonce, tracker)
	if string(p) != "neuron-hello-v1\x00noncetracker" {
		t.Errorf("%q", p)
	}
	if len(protocol.HelloPayload(nil, nil)) != len(protocol.HelloDomain) {
		t.Error("empty parts")
	}
}
