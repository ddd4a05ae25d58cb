package prefs

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
)

func open(t *testing.T, data string) *Store {
	t.Helper()
	s, err := Open(data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPrefsAreKept(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := open(t, data)
	if diff := cmp.Diff(Defaults(), s.Get()); diff != "" {
		t.Error(diff)
	}
	changed, stop := s.Watch()
	if err := s.Update(func(p *Prefs) { p.Language, p.Asked["tray"], p.Width = "de", true, 900 }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("no word of the change")
	}
	stop()
	if err := s.Update(func(p *Prefs) { p.Theme = "dark" }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
		t.Error("word after the end")
	default:
	}
	want := Defaults()
	want.Language, want.Theme, want.Asked["tray"], want.Width = "de", "dark", true, 900
	if diff := cmp.Diff(want, open(t, data).Get()); diff != "" {
		t.Error(diff)
	}
	// What Get gives is the caller's own.
	s.Get().Asked["other"] = true
	if s.Get().Asked["other"] {
		t.Error("a copy changed the store")
	}
	if info, err := os.Stat(filepath.Join(data, "window", fileName)); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// Window and tray write the same file: neither undoes what the other did.
func TestTwoProgramsDoNotUndoEachOther(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	window, tray := open(t, data), open(t, data)
	if err := window.Update(func(p *Prefs) { p.Language = "fr" }); err != nil {
		t.Fatal(err)
	}
	if err := tray.Update(func(p *Prefs) { p.Notify = false }); err != nil {
		t.Fatal(err)
	}
	if err := window.Reload(); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Store{"window": window, "tray": tray} {
		if p := s.Get(); p.Language != "fr" || p.Notify {
			t.Errorf("%s: %+v", name, p)
		}
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			s := window
			if i%2 == 0 {
				s = tray
			}
			if err := s.Update(func(p *Prefs) { p.Asked[strings.Repeat("q", i+1)] = true }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(open(t, data).Get().Asked); n != 20 {
		t.Errorf("%d answers of 20 are there", n)
	}
}

func TestBrokenFileIsSetAside(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"cut": `{"language": "de"`, "empty": "", "type": `{"scale": "big"}`, "huge": `{"theme":"` + strings.Repeat("x", maxFile) + `"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			open(t, data) // makes the folder
			path := filepath.Join(data, "window", fileName)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, data)
			if p := s.Problem(); p == nil || p.Code != protocol.CodeDataFolder || !strings.Contains(p.Message, asideName) {
				t.Errorf("%v is told", p)
			}
			if diff := cmp.Diff(Defaults(), s.Get()); diff != "" {
				t.Error(diff)
			}
			if b, err := os.ReadFile(filepath.Join(data, "window", asideName)); err != nil || string(b) != content {
				t.Errorf("what was set aside is not the file: %v", err)
			}
			if err := s.Update(func(p *Prefs) { p.Theme = "light" }); err != nil || open(t, data).Get().Theme != "light" {
				t.Errorf("after it nothing can be kept: %v", err)
			}
		})
	}
}

// A file that breaks while the program runs does not take its preferences away.
func TestFileBreaksBelowUs(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := open(t, data)
	if err := s.Update(func(p *Prefs) { p.Language = "de" }); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "window", fileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(func(p *Prefs) { p.Theme = "dark" }); err != nil {
		t.Fatal(err)
	}
	if p := open(t, data).Get(); p.Language != "de" || p.Theme != "dark" || s.Problem() == nil {
		t.Errorf("%+v, %v", p, s.Problem())
	}
}

func TestFolderThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(data)
	if protocol.AsError(err).Code != protocol.CodeDataFolder || s == nil {
		t.Fatalf("%v, %v", s, err)
	}
	if err := s.Update(func(p *Prefs) { p.Theme = "dark" }); protocol.AsError(err).Code != protocol.CodeDataFolder {
		t.Error(err)
	}
	if s.Get().Theme != "dark" {
		t.Error("the wish is lost for this run too")
	}
}

func TestValuesOutOfRange(t *testing.T) {
	t.Parallel()
	bad := Prefs{Theme: "pink", Scale: math.NaN(), Width: -5, Height: 1e9, LastPage: strings.Repeat("x", 100)}
	if diff := cmp.Diff(Prefs{Language: "system", Theme: "system", Scale: 1, Asked: map[string]bool{}}, bad.sane()); diff != "" {
		t.Error(diff)
	}
}

func FuzzParse(f *testing.F) {
	b, err := json.Marshal(Defaults())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"scale":1e308,"width":1e39}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parse(b)
		if err != nil {
			return
		}
		if diff := cmp.Diff(p, p.sane()); diff != "" {
			t.Fatal(diff)
		}
		out, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := parse(out)
		if err != nil {
			t.Fatal(err)
		}
		// Invalid UTF-8 becomes a mark when it is read first, and stays.
		if diff := cmp.Diff(p, again); diff != "" && !bytes.ContainsRune(b, 0xFFFD) {
			t.Fatal(diff)
		}
	})
}
