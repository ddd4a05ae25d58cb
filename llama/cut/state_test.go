package cut

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"version":1,"files":{"blk.0001.gguf":{"size":1,"modified":2,"changed":3,"inode":4,"digest":"ab"}}}`))
	f.Add([]byte(`{"version":1,"files":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		rec := parseRecords(raw)
		if rec == nil {
			t.Fatal("no map")
		}
		rec["x"] = record{} // may be added to
	})
}

func FuzzIndex(f *testing.F) {
	good, err := json.Marshal(Index{
		Version: 1, Model: "m", Alignment: 32, Layers: 2, Files: map[string][]Tensor{"blk.0001.gguf": {{
			Name: "blk.1.attn_norm.weight", Dims: []uint64{8}, Bytes: 32, SHA256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, raw []byte) {
		x, err := parseIndex(raw)
		if err != nil {
			return
		}
		for name, tensors := range x.Files {
			if filepath.Base(name) != name || len(tensors) == 0 || FileSize(tensors, x.Alignment) < HeaderRegion {
				t.Errorf("file %q", name)
			}
		}
	})
}

// TestAgedFilesShowEachWrite: a write right after the stamp, in the same tick
// of the clock, changes it.
func TestAgedFilesShowEachWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 100 {
		if _, err := f.WriteAt([]byte{byte(i)}, 0); err != nil {
			t.Fatal(err)
		}
		before, ok, err := age(f, path)
		if err != nil || !ok {
			t.Skipf("SKIPPED: times cannot be set here: %v", err)
		}
		if !before.settled(time.Now()) && before.Modified > time.Now().Add(-granularity).UnixNano() {
			t.Fatalf("modified %d", before.Modified)
		}
		if _, err := f.WriteAt([]byte{byte(i)}, 0); err != nil {
			t.Fatal(err)
		}
		if after, err := stampOf(f); err != nil || after == before {
			t.Fatalf("a write does not show: %+v (%v)", after, err)
		}
	}
}

func TestTidyTakesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, stays := range map[string]bool{
		".blk.0001.gguf.123": false, ".shard.json.9": false, ".verified.json.1": false, ".manifest.json.5": true, ".x": true, "blk.0001.gguf": true, ".gguf": true,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Tidy(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s stays: %v", name, err == nil)
		}
	}
}
