package autostart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"neuron/engine/protocol"
)

// command has everything that a form has to escape.
var command = []string{"/opt/our programs/neuron-tray", "--hidden", "--data", `/home/a b/"quoted" $HOME 100% \back` + "`tick` <&>'"}

// entries are the systems whose entry is a file, which can be tried anywhere.
func entries(t *testing.T) map[string]func() (*Entry, string) {
	return map[string]func() (*Entry, string){
		"desktop": func() (*Entry, string) {
			path := filepath.Join(t.TempDir(), "autostart", "neuron.desktop")
			return &Entry{desktopFile{path}}, path
		},
		"plist": func() (*Entry, string) {
			path := filepath.Join(t.TempDir(), "LaunchAgents", "x.plist")
			return &Entry{plist{path}}, path
		},
	}
}

func enabled(t *testing.T, e *Entry, want bool) {
	t.Helper()
	if got, err := e.Enabled(); err != nil || got != want {
		t.Errorf("enabled is %v, %v; want %v", got, err, want)
	}
}

func TestEntryIsMadeAndRemoved(t *testing.T) {
	for name, make := range entries(t) {
		t.Run(name, func(t *testing.T) {
			e, path := make()
			enabled(t, e, false)
			if err := e.Refresh(command); err != nil {
				t.Fatal(err)
			}
			if err := e.Disable(); err != nil {
				t.Errorf("disabling nothing: %v", err)
			}
			if _, err := os.Stat(path); err == nil {
				t.Fatal("an entry that the user did not ask for")
			}
			if err := e.Enable(command); err != nil {
				t.Fatal(err)
			}
			enabled(t, e, true)
			if cmd, _, _, err := e.s.read(); err != nil || !slices.Equal(cmd, command) {
				t.Errorf("%v: %q", err, cmd)
			}
			moved := []string{"/new/neuron-tray", "--hidden"}
			if err := e.Refresh(moved); err != nil {
				t.Fatal(err)
			}
			if cmd, _, _, err := e.s.read(); err != nil || !slices.Equal(cmd, moved) {
				t.Errorf("%v: %q", err, cmd)
			}
			if err := e.Disable(); err != nil {
				t.Fatal(err)
			}
			enabled(t, e, false)
			for _, bad := range [][]string{nil, {""}, {"a\nExec=b"}, {"a", "\x00"}} {
				if err := e.Enable(bad); protocol.AsError(err).Code != protocol.CodeInvalidRequest {
					t.Errorf("%q: %v", bad, err)
				}
			}
		})
	}
}

// What the user switched off in the system's own list stays off, also after an
// upgrade; only a wish in our settings brings it back.
func TestSwitchedOffElsewhere(t *testing.T) {
	off := map[string]func(string) string{
		"desktop": func(s string) string { return s + "Hidden=true\n" },
		"gnome": func(s string) string {
			return strings.Replace(s, "X-GNOME-Autostart-enabled=true", "X-GNOME-Autostart-enabled=false", 1)
		},
		"plist": func(s string) string {
			return strings.Replace(s, "<dict>", "<dict>\n<key>Disabled</key>\n<true/>", 1)
		},
		"not at load": func(s string) string { return strings.Replace(s, "<true/>", "<false/>", 1) },
	}
	for name, change := range off {
		t.Run(name, func(t *testing.T) {
			kind := "plist"
			if name == "desktop" || name == "gnome" {
				kind = "desktop"
			}
			e, path := entries(t)[kind]()
			if err := e.Enable(command); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text := change(string(b))
			if text == string(b) {
				t.Fatal("nothing was changed: this test shows nothing")
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			enabled(t, e, false)
			if err := e.Refresh([]string{"/new"}); err != nil {
				t.Fatal(err)
			}
			enabled(t, e, false)
			if b, err := os.ReadFile(path); err != nil || string(b) != text {
				t.Errorf("refreshing changed it to %q", b)
			}
			if err := e.Enable(command); err != nil {
				t.Fatal(err)
			}
			enabled(t, e, true)
		})
	}
}

func TestDamagedEntries(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                               false,
		"[Other]\nExec=x\n":              false,
		"[Desktop Entry]\nExec=\n":       false,
		"[Desktop Entry]\nExec = a  b\n": true,
		"[Desktop Entry]\nExec=a\n[X]\nHidden=true\n": true,
	} {
		if _, got := parseDesktop(text); got != want {
			t.Errorf("%q: enabled is %v", text, got)
		}
	}
	if _, _, err := parsePlist([]byte("<plist><dict>")); err == nil {
		t.Error("a damaged plist is read")
	}
	path := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(path, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Entry{desktopFile{path}}).Enabled(); protocol.AsError(err).Code != protocol.CodeUnavailable {
		t.Error(err)
	}
}

func TestTaskManagersAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value []byte
		want  bool
	}{{nil, true}, {[]byte{2, 0, 0}, true}, {[]byte{6, 0}, true}, {[]byte{3, 0, 0, 0, 1}, false}, {[]byte{7}, false}} {
		if got := approved(c.value); got != c.want {
			t.Errorf("%v: %v", c.value, got)
		}
	}
	for want, cmd := range map[string][]string{
		`"C:\Program Files\Neuron\neuron-tray.exe" "--hidden"`: {`C:\Program Files\Neuron\neuron-tray.exe`, "--hidden"},
		`"C:\data\\" "a\"b" "\\\"c"`:                           {`C:\data\`, `a"b`, `\"c`},
	} {
		if got := joinWindows(cmd); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func FuzzExec(f *testing.F) {
	f.Add(command[0], command[3])
	f.Fuzz(func(t *testing.T, a, b string) {
		cmd := []string{a, b}
		if check(cmd) != nil {
			return
		}
		text := "[Desktop Entry]\nExec=" + quoteExec(cmd) + "\n"
		if got, _ := parseDesktop(text); !slices.Equal(got, cmd) {
			t.Errorf("%q became %q by %s", cmd, got, text)
		}
	})
}

func FuzzParsePlist(f *testing.F) {
	f.Add(makePlist(command))
	f.Fuzz(func(t *testing.T, b []byte) {
		cmd, on, err := parsePlist(b)
		if err == nil && on && len(cmd) == 0 {
			t.Error("enabled without a command")
		}
	})
}
