package folders

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"neuron/engine/protocol"
)

func TestDefaultData(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("SKIPPED: XDG folders are those of other systems")
	}
	t.Setenv("HOME", "/home/someone")
	t.Setenv("XDG_DATA_HOME", "/xdg")
	if got := DefaultData(); got != "/xdg/neuron" {
		t.Error(got)
	}
	t.Setenv("XDG_DATA_HOME", "relative")
	if got := DefaultData(); got != "/home/someone/.local/share/neuron" {
		t.Errorf("a relative XDG_DATA_HOME is to be ignored: %s", got)
	}
}

func TestMakeKeepsOthersOut(t *testing.T) {
	t.Parallel()
	dir := Window(t.TempDir())
	if err := Make(dir); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Make(filepath.Join(file, "below")); protocol.AsError(err).Code != protocol.CodeDataFolder {
		t.Errorf("a folder below a file: %v", err)
	}
}
