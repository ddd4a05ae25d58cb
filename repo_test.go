package neuron

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// skippedDirs hold nothing of ours: build output, other people's modules.
var skippedDirs = []string{".git", "build", "bin", "dist", "node_modules"}

// repoFiles lists all files of the repository, with slashes, sorted.
func repoFiles(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skippedDirs, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			out = append(out, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// goPackages maps each folder with Go files (tests left out) to them.
func goPackages(t *testing.T) map[string][]string {
	t.Helper()
	out := make(map[string][]string)
	for _, f := range repoFiles(t) {
		if strings.HasSuffix(f, ".go") && !strings.HasSuffix(f, "_test.go") && !strings.Contains(f, "/testdata/") {
			dir := filepath.ToSlash(filepath.Dir(f))
			out[dir] = append(out[dir], f)
		}
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// sharedDir finds the folder of test material beside the repository, which is
// not part of it. Tests that need it are skipped where it is absent.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("NEURON_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "shared")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED: no test material in %s (set NEURON_SHARED to its folder)", dir)
	}
	return dir
}
