package icon

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBalloonsFindTheIcon: internal/desktop/notify shows notifications on Windows
// through the icon that the library makes, by a class and a number that the
// library does not promise. Both have to be in the source of the version in use.
func TestBalloonsFindTheIcon(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "fyne.io/systray").Output()
	if err != nil {
		t.Fatal(err)
	}
	library, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "systray_windows.go"))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile(filepath.Join("..", "..", "internal", "desktop", "notify", "show_windows.go"))
	if err != nil {
		t.Fatal(err)
	}
	for what, in := range map[string]struct{ library, ours string }{
		"class":  {`className\s*=\s*("\w+")`, `trayClass\s*=\s*("\w+")`},
		"number": {`(?s)&notifyIconData\{[^}]*\bID:\s*(\d+)`, `trayIcon\s*=\s*(\d+)`},
	} {
		want, got := regexp.MustCompile(in.library).FindSubmatch(library), regexp.MustCompile(in.ours).FindSubmatch(ours)
		if want == nil || got == nil || string(want[1]) != string(got[1]) {
			t.Errorf("the icon's %s: %s here, %s in the library", what, got, want)
		}
	}
}
