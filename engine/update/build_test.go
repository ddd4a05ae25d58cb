package update

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/update/feed"
)

func TestBuiltInKeys(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("0a", 32), strings.Repeat("0b", 32)
	for stamp, want := range map[string]int{"": 0, a: 1, a + "," + b: 2, a + ", " + b: 2, "no key": 0, a[:60]: 0} {
		keys, address := builtIn(stamp, "https://neuron.example/f.json")
		if len(keys) != want || address == "" {
			t.Errorf("%q: %d keys, %q", stamp, len(keys), address)
		}
	}
}

// TestInstalledKind: the package's own word counts, then what the system knows.
func TestInstalledKind(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(path, word string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(word), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a/bin/"+KindFile, "run\n")
	write("b/share/neuron/"+KindFile, "deb\n")
	write("c/bin/"+KindFile, "setup") // not of this system
	write("d/bin/"+KindFile, "")
	for exe, want := range map[string]feed.Kind{"a/bin/x": feed.KindRun, "b/bin/x": feed.KindDeb, "c/bin/x": feed.KindTar, "d/bin/x": feed.KindTar} {
		if got := installed("linux", filepath.Join(root, exe), func(string) bool { return false }); got != want {
			t.Errorf("%s: %s, want %s", exe, got, want)
		}
	}
	has := func(paths ...string) func(string) bool {
		return func(p string) bool {
			for _, x := range paths {
				if p == x {
					return true
				}
			}
			return false
		}
	}
	for _, c := range []struct {
		system, exe string
		has         func(string) bool
		want        feed.Kind
	}{
		{"linux", "/usr/bin/neuron-engine", has("/var/lib/dpkg/info/neuron.list"), feed.KindDeb},
		{"linux", "/usr/lib/neuron/neuron-engine", has("/usr/lib/sysimage/rpm"), feed.KindRPM},
		{"linux", "/opt/neuron/neuron-engine", has(), feed.KindTar},
		{"linux", "/home/me/neuron/neuron-engine", has("/var/lib/dpkg/info/neuron.list"), feed.KindTar},
		{"linux", "/home/me/.local/lib/neuron/neuron-engine", has("/home/me/.local/lib/neuron/uninstall"), feed.KindRun},
		{"windows", `C:\Neuron\neuron-engine.exe`, has(), feed.KindSetup},
		{"darwin", "/Applications/Neuron.app/Contents/MacOS/neuron-engine", has(), feed.KindDMG},
	} {
		if got := installed(c.system, c.exe, c.has); got != c.want {
			t.Errorf("%s %s: %s", c.system, c.exe, got)
		}
	}
}
