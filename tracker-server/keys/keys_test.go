package keys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
)

func TestLoadOrCreate(t *testing.T) {
	t.Parallel()
	d, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a, err := LoadOrCreate(d)
	if err != nil {
		t.Fatal(err)
	}
	b, err := LoadOrCreate(d)
	if err != nil {
		t.Fatal(err)
	}
	if !a.Equal(b) {
		t.Fatal("the second start has another key")
	}
	info, err := os.Stat(d.File(FileName))
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	whole, _ := os.ReadFile(d.File(FileName))
	for _, bad := range [][]byte{nil, []byte("x"), whole[:len(whole)/2], make([]byte, maxFile+1)} {
		if err := os.WriteFile(d.File(FileName), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrCreate(d); !errors.Is(err, &protocol.Error{Code: protocol.CodeDataFolder}) {
			t.Errorf("%d bytes: got %v", len(bad), err)
		}
	}
}

// TestOneKeyForAll: of several processes that start in one new folder, all get
// the same key.
func TestOneKeyForAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := make(chan string, 8)
	for range cap(keys) {
		go func() {
			d, err := datadir.Share(dir, true)
			if err != nil {
				keys <- err.Error()
				return
			}
			k, err := LoadOrCreate(d)
			if err != nil {
				keys <- err.Error()
				return
			}
			keys <- string(k)
		}()
	}
	first := <-keys
	for range cap(keys) - 1 {
		if k := <-keys; k != first || len(k) != 64 {
			t.Fatalf("another key, or an error: %q", k)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	if _, err := Load(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}
