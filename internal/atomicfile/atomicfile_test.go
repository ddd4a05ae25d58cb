package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestReplacesAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	for _, text := range []string{"first", "second, longer"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Fatalf("read %q, %v", got, err)
		}
	}
	boom := errors.New("boom")
	err := WriteFunc(path, func(f *os.File) error {
		if _, err := f.WriteString("half"); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v, want boom", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "second, longer" {
		t.Errorf("a failed write left %q", got)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("%d files in the folder (%v), want 1", len(list), err)
	}
}

func TestMissingFolder(t *testing.T) {
	t.Parallel()
	if err := Write(filepath.Join(t.TempDir(), "none", "x"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
