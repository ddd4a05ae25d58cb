package protocol_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"strings"
	"testing"

	"neuron/engine/protocol"
)

func TestNodeID(t *testing.T) {
	t.Parallel()
	// SHA-256 of 32 zero bytes in RFC 4648 base32, lower case, by coreutils:
	// head -c 32 /dev/zero | sha256sum | cut -c 1-64 | xxd -r -p | base32
	id := protocol.NodeIDOf(make(ed25519.PublicKey, ed25519.PublicKeySize))
	if want := protocol.NodeID("mzuhvlpymk6xo3epygfy5h4oeaejofefn3rdhm4qfjmr2dk7fesq"); id != want {
		t.Errorf("%s, want %s", id, want)
	}
	if got, err := protocol.ParseNodeID(string(id)); err != nil || got != id {
		t.Errorf("%s, %v", got, err)
	}
	if id.Short() != string(id[:8]) || protocol.NodeID("ab").Short() != "ab" {
		t.Error("Short")
	}
	s := string(id)
	for name, bad := range map[string]string{
		"empty": "", "short": s[1:], "long": s + "a", "upper case": strings.ToUpper(s),
		"digit 1": "1" + s[1:], "padding": s + "====", "path": "../" + s[3:],
		"newline": s[:51] + "\n", "newline behind": s + "\n", "newlines inside": s[:20] + "\r\n" + s[20:],
		"spare bits set": s[:51] + "b", "non-ASCII": "ä" + s[2:],
	} {
		if got, err := protocol.ParseNodeID(bad); code(err) != protocol.CodeInvalidRequest {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestModelID(t *testing.T) {
	t.Parallel()
	a, b := [sha256.Size]byte{1}, [sha256.Size]byte{2}
	id := protocol.ModelIDOf([][sha256.Size]byte{a, b})
	if id == protocol.ModelIDOf([][sha256.Size]byte{b, a}) || id == protocol.ModelIDOf([][sha256.Size]byte{a}) {
		t.Error("order and number of files do not matter")
	}
	if got, err := protocol.ParseModelID(string(id)); err != nil || got != id {
		t.Errorf("%s, %v", got, err)
	}
	if id.Short() != string(id[:12]) || protocol.ModelID("ab").Short() != "ab" {
		t.Error("Short")
	}
	s := string(id)
	for name, bad := range map[string]string{
		"empty": "", "short": s[2:], "long": s + "00", "upper case": "AB" + s[2:], "odd": s[1:], "newline": s + "\n", "no hex": "xy" + s[2:],
	} {
		if got, err := protocol.ParseModelID(bad); code(err) != protocol.CodeInvalidRequest {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestSessionID(t *testing.T) {
	t.Parallel()
	seen := make(map[protocol.SessionID]bool)
	for range 100 {
		id := protocol.NewSessionID()
		if seen[id] {
			t.Fatalf("%s twice", id)
		}
		seen[id] = true
		if got, err := protocol.ParseSessionID(string(id)); err != nil || got != id {
			t.Errorf("%s, %v", got, err)
		}
	}
	const s = "s-aaaaaaaaaaaaaaaaaaaaaaaaaa"
	for name, bad := range map[string]string{
		"empty": "", "prefix only": "s-", "no prefix": s[2:], "other prefix": "t" + s[1:], "short": s[:27], "long": s + "a",
		"upper case": "s-" + strings.ToUpper(s[2:]), "slash": s[:27] + "/", "newline behind": s + "\n", "newline inside": s[:9] + "\n" + s[9:],
		"spare bits set": s[:27] + "b",
	} {
		if got, err := protocol.ParseSessionID(bad); code(err) != protocol.CodeInvalidRequest {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]protocol.Range{
		"0-1": {First: 0, Last: 1}, "3-8": {First: 3, Last: 8}, "10-120": {First: 10, Last: 120},
	} {
		got, err := protocol.ParseRange(s)
		if err != nil || got != want || got.String() != s {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
	for _, bad := range []string{
		"", "-", "1", "1-", "-1", "0-0", "5-3", "-1-3", "1--3", "a-b", "0-x", "0-3x", "0-3-5", "0-3 ", " 0-3", "0 - 3", "0-3\n", "0-3 .", "0-3 . 7",
		"+0-3", "0-+3", "0x0-0x3", "1_0-2_0", "0.5-3", "0-99999999999999999999", "0–3",
	} {
		if got, err := protocol.ParseRange(bad); code(err) != protocol.CodeRangeInvalid {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
	r := protocol.Range{First: 2, Last: 5}
	if r.Len() != 3 {
		t.Errorf("Len %d", r.Len())
	}
	for _, tc := range []struct {
		o        protocol.Range
		contains bool
	}{{protocol.Range{First: 2, Last: 5}, true}, {protocol.Range{First: 3, Last: 4}, true}, {protocol.Range{First: 1, Last: 5}, false}, {protocol.Range{First: 2, Last: 6}, false}} {
		if got := r.Contains(tc.o); got != tc.contains {
			t.Errorf("%s contains %s: %t", r, tc.o, got)
		}
	}
	for _, tc := range []struct {
		r     protocol.Range
		n     int
		valid bool
	}{{r, 5, true}, {r, 4, false}, {protocol.Range{}, 5, false}, {protocol.Range{First: -1, Last: 1}, 5, false}, {protocol.Range{First: 3, Last: 2}, 5, false}} {
		if got := tc.r.Valid(tc.n); got != tc.valid {
			t.Errorf("%s valid of %d: %t", tc.r, tc.n, got)
		}
	}
}
