package gguf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sharedData finds the folder of foreign test files: below $NEURON_SHARED, or in the
// folder "shared" beside the repository.
func sharedData(tb testing.TB) string {
	tb.Helper()
	root := os.Getenv("NEURON_SHARED")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			tb.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			if dir == filepath.Dir(dir) {
				tb.Skip("SKIPPED: no go.mod above the test, cannot find the shared test files")
			}
			dir = filepath.Dir(dir)
		}
		root = filepath.Join(dir, "..", "shared")
	}
	data := filepath.Join(root, "testdata")
	if _, err := os.Stat(data); err != nil {
		tb.Skipf("SKIPPED: the shared test files are not at %s; set NEURON_SHARED to run this test", data)
	}
	return data
}

// TestVerdicts compares our reader with ggml's on foreign files: ours may be stricter,
// never laxer.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	data := sharedData(t)
	table, err := os.ReadFile(filepath.Join(data, "gguf-edge", "verdicts.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	accepted, rejected, stricter := 0, 0, 0
	for _, line := range strings.Split(strings.TrimSpace(string(table)), "\n")[1:] {
		col := strings.Split(line, "\t")
		f, err := Open(filepath.Join(data, col[0]))
		if err == nil {
			f.Close()
		} else if CodeOf(err) == "" {
			t.Errorf("%s: error without a code: %v", col[0], err)
		}
		switch {
		case col[2] == "reject":
			rejected++
			if err == nil {
				t.Errorf("%s is accepted, ggml says: %s", col[0], col[4])
			}
		case err == nil:
			accepted++
		default:
			stricter++
			t.Logf("stricter than ggml: %s: %v", col[0], err)
		}
	}
	t.Logf("%d accepted, %d rejected by both, %d only by us", accepted, rejected, stricter)
	if accepted == 0 || rejected == 0 {
		t.Error("the table is not what it was")
	}
}

func TestForeignModels(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(sharedData(t), "gguf")
	files, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s, %v", dir, err)
	}
	for _, path := range files {
		m, err := OpenModel(path)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, mt := range m.Tensors() {
			if n, _ := mt.Bytes(); uint64(len(m.Data(mt))) != n {
				t.Errorf("%s: tensor %s has %d bytes of data", path, mt.Name, len(m.Data(mt)))
			}
		}
		// The header must survive our own writer. dummy.gguf has unusual padding of its
		// own, so entries are compared and not bytes.
		for _, f := range m.Files() {
			b, err := EncodeHeader(f.Header().KVs, f.Header().Tensors, WriteOptions{})
			if err != nil {
				t.Errorf("%s: %v", f.Path(), err)
				continue
			}
			disk, err := os.ReadFile(f.Path())
			if err != nil {
				t.Fatal(err)
			}
			h, err := read(append(b, disk[min(f.Header().DataOffset, f.Size()):]...))
			if err != nil {
				t.Errorf("%s: %v", f.Path(), err)
				continue
			}
			if len(h.KVs) != len(f.Header().KVs) || len(h.Tensors) != len(f.Header().Tensors) {
				t.Errorf("%s: entries were lost", f.Path())
			}
			for i := range h.KVs {
				if h.KVs[i].Key != f.Header().KVs[i].Key || !h.KVs[i].Value.Equal(f.Header().KVs[i].Value) {
					t.Errorf("%s: key %s changed", f.Path(), h.KVs[i].Key)
				}
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
