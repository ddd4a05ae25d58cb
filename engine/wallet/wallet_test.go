package wallet

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/identity"
	"neuron/internal/owner"
)

var (
	pass = []byte("correct horse")
	// quick makes the tests fast; TestExportAndRecover uses the real costs once.
	quick = kdf{passes: 1, memory: 64, threads: 1}
)

func newKey(i byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{i}, ed25519.SeedSize))
}

func ownerOf(k ed25519.PrivateKey) owner.ID { return owner.IDOf(k.Public().(ed25519.PublicKey)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, c protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: c}) {
		t.Errorf("error %v, want %s", err, c)
	}
}

// TestFirstStart: of many that start at once all get the one key, which only
// this user can read and which stays.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	var wg sync.WaitGroup
	ids := make([]owner.ID, 8)
	for i := range ids {
		wg.Go(func() {
			w, err := Open(dir)
			if err == nil {
				ids[i], err = w.Owner()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Errorf("owners %v", ids)
		}
	}
	info, err := os.Stat(filepath.Join(dir, KeyFile))
	must(t, err)
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestDamagedKeyStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, KeyFile)
	must(t, os.WriteFile(path, []byte("not a key"), 0o600))
	_, err := Open(dir)
	wantCode(t, err, protocol.CodeDataFolder)
	_, err = At(dir).Key()
	wantCode(t, err, protocol.CodeDataFolder)
	sealed, err := seal(newKey(1), pass, quick)
	must(t, err)
	_, err = At(dir).Recover(sealed, pass, true)
	wantCode(t, err, protocol.CodeDataFolder)
	if b, _ := os.ReadFile(path); string(b) != "not a key" {
		t.Errorf("the file was changed to %q", b)
	}
	_, err = At(t.TempDir()).Key()
	wantCode(t, err, protocol.CodeNotFound)
	_, err = Open(filepath.Join(path, "below"))
	wantCode(t, err, protocol.CodeDataFolder)
}

func TestExportAndRecover(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	a, err := Open(first)
	must(t, err)
	id, err := a.Owner()
	must(t, err)
	_, err = a.Export([]byte("short"))
	wantCode(t, err, protocol.CodeInvalidRequest)
	sealed, err := a.Export(pass)
	must(t, err)
	key, err := a.Key()
	must(t, err)
	if !strings.Contains(string(sealed), string(id)) || !strings.Contains(string(sealed), "owner recover") || bytes.Contains(sealed, key.Seed()) {
		t.Errorf("the file:\n%s", sealed)
	}
	if got, err := SealedOwner(sealed); err != nil || got != id {
		t.Errorf("%s, %v", got, err)
	}
	if k, err := Unseal(sealed, pass); err != nil || !k.Equal(key) {
		t.Error("the file does not open", err)
	}
	sealed, err = seal(key, pass, quick) // costs as above take seconds with the race detector
	must(t, err)

	// An empty folder takes it, once more is no change.
	got, err := At(second).Recover(sealed, pass, false)
	must(t, err)
	if got != (Recovered{Owner: id, Changed: true}) {
		t.Errorf("%+v", got)
	}
	got, err = At(second).Recover(sealed, pass, false)
	must(t, err)
	if got != (Recovered{Owner: id}) {
		t.Errorf("again: %+v", got)
	}
	if k, err := At(second).Key(); err != nil || !k.Equal(key) {
		t.Error("another key came back", err)
	}

	// Another key stays, unless it is to be replaced; then it is kept beside.
	third := t.TempDir()
	b, err := Open(third)
	must(t, err)
	old, err := b.Key()
	must(t, err)
	_, err = b.Recover(sealed, pass, false)
	wantCode(t, err, protocol.CodeConflict)
	_, err = b.Recover(sealed, []byte("a wrong one"), true)
	wantCode(t, err, protocol.CodeForbidden)
	if k, err := b.Key(); err != nil || !k.Equal(old) {
		t.Error("a refused recovery changed the key", err)
	}
	got, err = b.Recover(sealed, pass, true)
	must(t, err)
	if got.Owner != id || !got.Changed {
		t.Errorf("%+v", got)
	}
	if k, err := identity.ReadKey(got.Saved); err != nil || !k.Equal(old) {
		t.Errorf("the old key in %s: %v", got.Saved, err)
	}
	if k, err := b.Key(); err != nil || !k.Equal(key) {
		t.Error("the new key", err)
	}
}

// TestSealedIsWhole: every header and every byte of the body counts.
func TestSealedIsWhole(t *testing.T) {
	t.Parallel()
	key := newKey(7)
	good, err := seal(key, pass, quick)
	must(t, err)
	if k, err := Unseal(good, pass); err != nil || !k.Equal(key) {
		t.Fatal(err)
	}
	again, err := seal(key, pass, quick)
	must(t, err)
	if bytes.Equal(good, again) {
		t.Error("two files of one key are equal: salt or nonce is not drawn")
	}
	_, err = Unseal(good, []byte("correct horsf"))
	wantCode(t, err, protocol.CodeForbidden)
	change := func(f func(*pem.Block)) []byte {
		b, _ := pem.Decode(good)
		f(b)
		return pem.EncodeToMemory(b)
	}
	header := func(k, v string) []byte { return change(func(b *pem.Block) { b.Headers[k] = v }) }
	for name, c := range map[string]struct {
		file []byte
		code protocol.Code
	}{
		"body":          {change(func(b *pem.Block) { b.Bytes[0] ^= 1 }), protocol.CodeForbidden},
		"other owner":   {header("Owner", string(ownerOf(newKey(8)))), protocol.CodeForbidden},
		"other salt":    {header("Salt", strings.Repeat("00", saltLen)), protocol.CodeForbidden},
		"other nonce":   {header("Nonce", strings.Repeat("00", 24)), protocol.CodeForbidden},
		"more passes":   {header("Passes", "2"), protocol.CodeForbidden},
		"huge memory":   {header("Memory-KiB", "4294967295"), protocol.CodeInvalidRequest},
		"many passes":   {header("Passes", "1000"), protocol.CodeInvalidRequest},
		"no passes":     {header("Passes", "0"), protocol.CodeInvalidRequest},
		"no threads":    {header("Threads", "0"), protocol.CodeInvalidRequest},
		"many threads":  {header("Threads", "300"), protocol.CodeInvalidRequest},
		"number":        {header("Passes", "-1"), protocol.CodeInvalidRequest},
		"version":       {header("Version", "2"), protocol.CodeInvalidRequest},
		"kdf":           {header("KDF", "md5"), protocol.CodeInvalidRequest},
		"cipher":        {header("Cipher", "none"), protocol.CodeInvalidRequest},
		"salt":          {header("Salt", "zz"), protocol.CodeInvalidRequest},
		"nonce":         {header("Nonce", "00"), protocol.CodeInvalidRequest},
		"owner":         {header("Owner", "me"), protocol.CodeInvalidRequest},
		"more headers":  {header("Note", "x"), protocol.CodeInvalidRequest},
		"short body":    {change(func(b *pem.Block) { b.Bytes = b.Bytes[:47] }), protocol.CodeInvalidRequest},
		"another block": {change(func(b *pem.Block) { b.Type = "PRIVATE KEY" }), protocol.CodeInvalidRequest},
		"text":          {[]byte("hello"), protocol.CodeInvalidRequest},
		"large":         {make([]byte, MaxSealed+1), protocol.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Unseal(c.file, pass)
			wantCode(t, err, c.code)
		})
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	notes := NotesAt(dir)
	n, err := notes.Read()
	must(t, err)
	if n != (Note{Version: 1}) {
		t.Errorf("%+v", n)
	}
	node, by := newKey(1), newKey(2)
	b := owner.NewBinding(node.Public().(ed25519.PublicKey), by.Public().(ed25519.PublicKey), time.Unix(1_800_000_000, 0))
	b.SignNode(node)
	until := time.Unix(1_800_000_600, 0).UTC()
	must(t, notes.Update(func(n *Note) error {
		n.Tracker, n.Joined = "http://t", ownerOf(by)
		n.Offer = &Offer{Code: "ABCD2345", Binding: b, Until: until}
		n.Pairing = &Pairing{Owner: ownerOf(by), Code: "ABCD2346", Until: until}
		return nil
	}))
	boom := errors.New("boom")
	if err := notes.Update(func(n *Note) error { n.Tracker = "x"; return boom }); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	got, err := NotesAt(dir).Read()
	must(t, err)
	if got.Tracker != "http://t" || got.Joined != ownerOf(by) || got.Offer.Binding.CheckNode() != nil || !got.Offer.Until.Equal(until) || got.Pairing.Code != "ABCD2346" {
		t.Errorf("%+v", got)
	}
	// Changes of several at once are all kept.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := notes.Update(func(n *Note) error { n.Tracker += "."; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, err := notes.Read(); err != nil || got.Tracker != "http://t........" {
		t.Errorf("%q, %v", got.Tracker, err)
	}
	for name, raw := range map[string]string{
		"text": "hello", "version": `{"version":2}`, "owner": `{"version":1,"joined":"me"}`, "offer": `{"version":1,"offer":{"code":"x"}}`,
		"pairing": `{"version":1,"pairing":{"owner":"o-x","code":"x"}}`, "large": `{"version":1,"tracker":"` + strings.Repeat("x", maxNote) + `"}`,
	} {
		must(t, os.WriteFile(filepath.Join(dir, NoteFile), []byte(raw), 0o600))
		_, err := notes.Read()
		wantCode(t, err, protocol.CodeDataFolder)
		wantCode(t, notes.Update(func(*Note) error { return nil }), protocol.CodeDataFolder)
		if b, _ := os.ReadFile(filepath.Join(dir, NoteFile)); string(b) != raw {
			t.Errorf("%s: a damaged note was replaced", name)
		}
	}
}

func FuzzParseSealed(f *testing.F) {
	good, err := seal(newKey(1), pass, quick)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("-----BEGIN NEURON ENCRYPTED OWNER KEY-----\nVersion: 1\n\n-----END NEURON ENCRYPTED OWNER KEY-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseSealed(b)
		if err != nil {
			wantCode(t, err, protocol.CodeInvalidRequest)
			return
		}
		// What is accepted can be paid for, and says the same again.
		if s.costs.check() != nil {
			t.Fatalf("costs %+v", s.costs)
		}
		again, err := parseSealed(pem.EncodeToMemory(s.block))
		if err != nil || again.owner != s.owner || again.costs != s.costs || !bytes.Equal(sealedHeaders(again.block), sealedHeaders(s.block)) {
			t.Fatalf("%+v, %v", again, err)
		}
	})
}

func FuzzParseNote(f *testing.F) {
	f.Add([]byte(`{"version":1,"tracker":"http://t"}`))
	f.Add([]byte(`{"version":1,"offer":{"code":"x","binding":{"node_key":"AA=="},"until":"2026-01-01T00:00:00Z"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := parseNote(b)
		if err == nil && n.Offer != nil && n.Offer.Binding.CheckNode() != nil {
			t.Fatal("an offer that nobody signed")
		}
	})
}
