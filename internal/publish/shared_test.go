package publish_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/protocol"
	"neuron/internal/publish"
)

func shared(t testing.TB) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "testdata")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED: no shared test data: %v", err)
	}
	return dir
}

// TestForeignModel publishes a model that nobody here made.
func TestForeignModel(t *testing.T) {
	t.Parallel()
	r := build(t, publish.Options{}, filepath.Join(shared(t), "gguf", "stories260K.gguf"))
	verify(t, r)
	m := r.Manifest
	if m.Files[0].SHA256.String() != "270cba1bd5109f42d03350f60406024560464db173c0e387d91f0426d3bd256d" || m.Layers != 5 || len(m.Tensors) != 48 ||
		m.WholeOnly != "" || m.Torrent.Pieces < 64 {
		t.Errorf("%+v", m)
	}
	n, err := m.Need(protocol.Range{First: 1, Last: 3})
	if err != nil || n.Bytes > m.Size()/2 || len(n.Tensors) != 2*9 {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestForeignFiles tries every odd and broken file: none is published, each
// with a code and a sentence.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	dir := shared(t)
	count := map[protocol.Code]int{}
	tried := 0
	for _, root := range []string{"gguf", "gguf-edge"} {
		err := filepath.WalkDir(filepath.Join(dir, root), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Base(path) == "stories260K.gguf" {
				return err
			}
			tried++
			r, err := publish.Build(t.Context(), []string{path}, publish.Options{})
			if err == nil {
				t.Errorf("%s was published as %s", path, r.Manifest.Name)
				return nil
			}
			if count[code(err)]++; code(err) != protocol.CodeModelInvalid {
				t.Errorf("%s: %v", path, err)
			}
			if strings.Contains(path, "dummy") || strings.Contains(path, "lifecycle_integration") {
				if !strings.Contains(err.Error(), "general.architecture is missing") {
					t.Errorf("%s: %v", path, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Log(tried, count)
	if tried < 250 {
		t.Errorf("only %d files", tried)
	}
}
