package feed_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/engine/update/feed"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// key is a release key of tests, told apart by a number.
func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) ed25519.PublicKey { return key(n).Public().(ed25519.PublicKey) }

func sample() *feed.Feed {
	return &feed.Feed{
		Form: feed.Form, Channel: "stable", Serial: 7, Issued: noon, Expires: noon.Add(90 * 24 * time.Hour), Version: "1.3.0", Date: "2026-11-30",
		Page: "https://neuron.example/1.3.0", Notes: map[string]string{"en": "Faster & better.", "de": "Schneller."},
		Packages: []feed.Package{
			{OS: "linux", Arch: "amd64", Kind: feed.KindDeb, URL: "neuron_1.3.0_amd64.deb", Name: "neuron_1.3.0_amd64.deb", Size: 1000, SHA256: strings.Repeat("ab", 32)},
			{OS: "windows", Arch: "amd64", Kind: feed.KindSetup, URL: "https://mirror.example/Neuron-Setup.exe", Name: "Neuron-Setup.exe", Size: 2000, SHA256: strings.Repeat("cd", 32)},
		},
	}
}

func signed(t testing.TB, f *feed.Feed, keys ...ed25519.PrivateKey) []byte {
	t.Helper()
	raw, err := feed.Sign(f, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func code(err error) protocol.Code {
	if err == nil {
		return ""
	}
	return protocol.AsError(err).Code
}

func TestSignAndParse(t *testing.T) {
	t.Parallel()
	raw := signed(t, sample(), key(1))
	got, err := feed.Parse(raw, []ed25519.PublicKey{public(9), public(1)})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), got); d != "" {
		t.Error(d)
	}
	if again := signed(t, sample(), key(1)); !bytes.Equal(raw, again) {
		t.Error("the same feed and key give other bytes")
	}
	// A key that follows another: old programs know the first, new ones the second.
	both := signed(t, sample(), key(1), key(2))
	for _, n := range []byte{1, 2} {
		if _, err := feed.Parse(both, []ed25519.PublicKey{public(n)}); err != nil {
			t.Errorf("key %d: %v", n, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := string(signed(t, sample(), key(1)))
	swap := func(old, by string) string {
		out := strings.Replace(good, old, by, 1)
		if out == good {
			t.Fatalf("%q is not in the feed", old)
		}
		return out
	}
	for name, raw := range map[string]string{
		"nothing":              "",
		"no JSON":              "<html>not found</html>",
		"cut off":              good[:len(good)/2],
		"unsigned":             good[:strings.Index(good, `,"signatures"`)] + `,"signatures":[]}`,
		"without signatures":   good[:strings.Index(good, `,"signatures"`)] + `}`,
		"null":                 "null",
		"another key":          string(signed(t, sample(), key(2))),
		"another version":      swap("1.3.0", "1.4.0"),
		"another serial":       swap(`"serial":7`, `"serial":8`),
		"another hash":         swap(strings.Repeat("ab", 32), strings.Repeat("ac", 32)),
		"a blank more":         swap(`"serial":7`, `"serial": 7`),
		"another signature":    swap(`"signature":"`, `"signature":"00`),
		"too large":            good + strings.Repeat(" ", feed.MaxBytes),
		"too many signatures":  swap(`"signatures":[`, `"signatures":[`+strings.Repeat(`{"key":"00","signature":""},`, 4)),
		"a signature as a key": swap(`"key":"`, `"key":"00`),
	} {
		if f, err := feed.Parse([]byte(raw), []ed25519.PublicKey{public(1)}); code(err) != protocol.CodeUpdateInvalid {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	if _, err := feed.Parse([]byte(good), nil); code(err) != protocol.CodeUpdateInvalid {
		t.Errorf("without a key: %v", err)
	}
	// The signature of another kind of file by the same key is none of a feed.
	body := good[len(`{"feed":`):strings.Index(good, `,"signatures"`)]
	plain := fmt.Sprintf(`{"feed":%s,"signatures":[{"key":"%x","signature":"%x"}]}`, body, public(1), ed25519.Sign(key(1), []byte(body)))
	if _, err := feed.Parse([]byte(plain), []ed25519.PublicKey{public(1)}); code(err) != protocol.CodeUpdateInvalid {
		t.Errorf("a signature without the domain: %v", err)
	}
}

// TestNewerFormsAreToldApart: what a newer writer adds is skipped, and a form
// that this build cannot read is no attack.
func TestNewerFormsAreToldApart(t *testing.T) {
	t.Parallel()
	resign := func(body string) []byte {
		return fmt.Appendf(nil, `{"feed":%s,"signatures":[{"key":"%x","signature":"%x"}],"more":1}`, body, public(1),
			ed25519.Sign(key(1), append([]byte("neuron-release-feed-v1\x00"), body...)))
	}
	body, err := feed.Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	more := strings.Replace(string(body), `"form":1`, `"form":1,"delta":{"from":["1.2.0"]}`, 1)
	if got, err := feed.Parse(resign(more), []ed25519.PublicKey{public(1)}); err != nil || got.Version != "1.3.0" {
		t.Errorf("an unknown field: %v", err)
	}
	newer := `{"form":2,"serial":"eight"}`
	if _, err := feed.Parse(resign(newer), []ed25519.PublicKey{public(1)}); code(err) != protocol.CodeUnsupported || !strings.Contains(err.Error(), "newest version") {
		t.Errorf("form 2: %v", err)
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*feed.Feed){
		"no form":                func(f *feed.Feed) { f.Form = 0 },
		"channel":                func(f *feed.Feed) { f.Channel = "Stable" },
		"serial":                 func(f *feed.Feed) { f.Serial = 0 },
		"no end":                 func(f *feed.Feed) { f.Expires = time.Time{} },
		"valid for ever":         func(f *feed.Feed) { f.Expires = f.Issued.Add(feed.MaxValid + time.Second) },
		"version":                func(f *feed.Feed) { f.Version = "1.3" },
		"date":                   func(f *feed.Feed) { f.Date = "today" },
		"page without TLS":       func(f *feed.Feed) { f.Page = "http://neuron.example" },
		"notes":                  func(f *feed.Feed) { f.Notes["en"] = "a\x1b[31mred" },
		"long notes":             func(f *feed.Feed) { f.Notes["en"] = strings.Repeat("x", 16<<10+1) },
		"language":               func(f *feed.Feed) { f.Notes["../en"] = "x" },
		"two of a kind":          func(f *feed.Feed) { f.Packages = append(f.Packages, f.Packages[0]) },
		"a name with a folder":   func(f *feed.Feed) { f.Packages[0].Name = "../../.bashrc" },
		"a name that hides":      func(f *feed.Feed) { f.Packages[0].Name = ".profile" },
		"a name of Windows":      func(f *feed.Feed) { f.Packages[0].Name = `a\b.exe` },
		"no name":                func(f *feed.Feed) { f.Packages[0].Name = "" },
		"empty":                  func(f *feed.Feed) { f.Packages[0].Size = 0 },
		"huge":                   func(f *feed.Feed) { f.Packages[0].Size = feed.MaxPackage + 1 },
		"hash in capitals":       func(f *feed.Feed) { f.Packages[0].SHA256 = strings.Repeat("AB", 32) },
		"address without TLS":    func(f *feed.Feed) { f.Packages[0].URL = "http://mirror.example/a.deb" },
		"address of a file":      func(f *feed.Feed) { f.Packages[0].URL = "file:///etc/passwd" },
		"address with a name":    func(f *feed.Feed) { f.Packages[0].URL = "https://u:p@mirror.example/a.deb" },
		"address of another one": func(f *feed.Feed) { f.Packages[0].URL = "//mirror.example/a.deb" },
		"no address":             func(f *feed.Feed) { f.Packages[0].URL = "" },
		"system":                 func(f *feed.Feed) { f.Packages[0].OS = "Linux 6" },
	} {
		f := sample()
		edit(f)
		if err := f.Check(); code(err) != protocol.CodeUpdateInvalid {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := feed.Sign(f, key(1)); err == nil {
			t.Errorf("%s: it was signed", name)
		}
	}
	f := sample()
	f.Packages[0].Kind = "snap" // of a newer build
	if err := f.Check(); err != nil {
		t.Errorf("an unknown kind: %v", err)
	}
}

func TestAccept(t *testing.T) {
	t.Parallel()
	sum, other := strings.Repeat("1", 64), strings.Repeat("2", 64)
	for _, c := range []struct {
		name    string
		edit    func(*feed.Feed)
		was     feed.Seen
		at      time.Time
		refused string // "" for accepted
	}{
		{name: "the first"},
		{name: "the same again", was: feed.Seen{Serial: 7, Version: "1.3.0", SHA256: sum}},
		{name: "a next one", was: feed.Seen{Serial: 6, Version: "1.2.0", SHA256: other}},
		{name: "the same version signed again", was: feed.Seen{Serial: 6, Version: "1.3.0", SHA256: other}},
		{name: "replayed", was: feed.Seen{Serial: 8, Version: "1.3.0"}, refused: "serial 7 after 8"},
		{name: "another with the same serial", was: feed.Seen{Serial: 7, Version: "1.3.0", SHA256: other}, refused: "serial 7 of another"},
		{name: "back to an older version", was: feed.Seen{Serial: 6, Version: "1.4.0"}, refused: "1.3.0 after 1.4.0"},
		{name: "expired", at: noon.Add(90 * 24 * time.Hour), refused: "valid until"},
		{name: "just not expired", at: noon.Add(90*24*time.Hour - time.Second)},
		{name: "a clock that is a little late", at: noon.Add(-23 * time.Hour)},
		{name: "of the future", at: noon.Add(-25 * time.Hour), refused: "clock"},
		{name: "another channel", edit: func(f *feed.Feed) { f.Channel = "beta" }, refused: "channel beta"},
	} {
		f := sample()
		if c.edit != nil {
			c.edit(f)
		}
		if c.at.IsZero() {
			c.at = noon
		}
		err := f.Accept("stable", c.was, sum, c.at)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.refused != "" && (code(err) != protocol.CodeUpdateInvalid || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestFindAndAddress(t *testing.T) {
	t.Parallel()
	f := sample()
	p := f.Find("linux", "amd64", feed.KindDeb)
	if p == nil {
		t.Fatal("no package")
	}
	if got, err := p.Address("https://neuron.example/feed/stable.json"); err != nil || got != "https://neuron.example/feed/neuron_1.3.0_amd64.deb" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := p.Address("http://neuron.example/feed/stable.json"); code(err) != protocol.CodeUpdateInvalid {
		t.Errorf("a list without TLS: %v", err)
	}
	for _, c := range [][3]string{{"linux", "arm64", "deb"}, {"windows", "amd64", "deb"}, {"linux", "amd64", "rpm"}, {"linux", "amd64", "setup"}} {
		if p := f.Find(c[0], c[1], feed.Kind(c[2])); p != nil {
			t.Errorf("%v: %+v", c, p)
		}
	}
	// A package that lies about its system is for nobody.
	f.Packages[1].OS = "linux"
	if p := f.Find("linux", "amd64", feed.KindSetup); p != nil {
		t.Errorf("a setup on Linux: %+v", p)
	}
	if f.Note("de-AT") != "Schneller." || f.Note("fr") != "Faster & better." {
		t.Errorf("%q, %q", f.Note("de-AT"), f.Note("fr"))
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	order := []string{"0.9.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "v1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0"}
	for i, a := range order {
		for j, b := range order {
			if got := feed.Newer(a, b); got != (i > j) {
				t.Errorf("%s newer than %s: %t", a, b, got)
			}
		}
	}
	if feed.Newer("1.0.0+b", "1.0.0+a") || feed.Newer("2", "1") || feed.Newer("2.0.0", "x") {
		t.Error("what cannot be compared is newer")
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"neuron_1.3.0_amd64.deb": "linux amd64 deb", "neuron-1.3.0-1.x86_64.rpm": "linux amd64 rpm", "neuron-1.3.0.aarch64.rpm": "linux arm64 rpm",
		"neuron-1.3.0-linux-x64.run": "linux amd64 run", "Neuron-1.3.0-linux-arm64.tar.xz": "linux arm64 tar", "Neuron-Setup-1.3.0-x64.exe": "windows amd64 setup",
		"neuron-1.3.0-macos-arm64.dmg": "darwin arm64 dmg", "neuron-1.3.0-windows-amd64.zip": "windows amd64 tar",
		"neuron-tracker_1.3.0_amd64.deb": "", "SHA256SUMS": "", "neuron-1.3.0.tar.gz": "", "neuron-1.3.0.run": "", "neuron.sbom.json": "",
	} {
		got := ""
		if p, ok := feed.Classify("dist/" + name); ok {
			got = p.OS + " " + p.Arch + " " + string(p.Kind)
			if p.Name != name {
				t.Errorf("%s is called %s", name, p.Name)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// FuzzParse: what a server sends is a feed that its key has signed, or refused
// with a code; what is taken is taken again from its own encoding. The key is the
// tests': the corpus has feeds that it signed.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := feed.Parse(raw, []ed25519.PublicKey{public(1)})
		var known *protocol.Error
		if err != nil {
			if !errors.As(err, &known) || known.Code != protocol.CodeUpdateInvalid && known.Code != protocol.CodeUnsupported {
				t.Errorf("refused with %v", err)
			}
			return
		}
		// Without the key nothing can be signed: the corpus' feeds alone come here.
		again, err := feed.Parse(signed(t, got, key(1)), []ed25519.PublicKey{public(1)})
		if err != nil {
			t.Fatalf("its own encoding is refused: %v", err)
		}
		if d := cmp.Diff(got, again); d != "" {
			t.Error(d)
		}
	})
}

// FuzzBody signs whatever comes, so that the reader behind the signature is
// tried, too.
func FuzzBody(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		raw := fmt.Appendf(nil, `{"feed":%s,"signatures":[{"key":"%x","signature":"%x"}]}`, body, public(1),
			ed25519.Sign(key(1), append([]byte("neuron-release-feed-v1\x00"), body...)))
		got, err := feed.Parse(raw, []ed25519.PublicKey{public(1)})
		if err != nil {
			if c := code(err); c != protocol.CodeUpdateInvalid && c != protocol.CodeUnsupported {
				t.Errorf("refused with %v", err)
			}
			return
		}
		for _, p := range got.Packages {
			if strings.ContainsAny(p.Name, `/\`) || strings.HasPrefix(p.Name, ".") {
				t.Errorf("a package may be written to %q", p.Name)
			}
			if a, err := p.Address("https://neuron.example/feed.json"); err == nil && !strings.HasPrefix(a, "https://") {
				t.Errorf("a package may be fetched from %q", a)
			}
		}
		if _, err := feed.Encode(got); err != nil {
			t.Errorf("what was taken cannot be written: %v", err)
		}
	})
}
