package neuron

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func sumOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// Work is either done or absent; a note in the code is neither.
func TestNoLeftovers(t *testing.T) {
	t.Parallel()
	marks := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, files := range goPackages(t) {
		for _, f := range files {
			for i, line := range strings.Split(read(t, f), "\n") {
				if m := marks.FindString(line); m != "" {
					t.Errorf("%s:%d: %s", f, i+1, m)
				}
			}
		}
	}
}

// The bundled model is the one that its training wrote.
func TestModelSums(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(read(t, "assets/model/SHA256SUMS")), "\n")
	for _, line := range lines {
		want, name, ok := strings.Cut(line, "  ")
		if !ok {
			t.Errorf("assets/model/SHA256SUMS: bad line %q", line)
			continue
		}
		if got := sumOf(t, filepath.Join("assets", "model", name)); got != want {
			t.Errorf("assets/model/%s: SHA-256 %s, want %s", name, got, want)
		}
	}
	models, err := filepath.Glob("assets/model/*.gguf")
	if err != nil || len(models) == 0 || len(models) != len(lines) {
		t.Errorf("%d models, %d sums (%v)", len(models), len(lines), err)
	}
}

// Test material made by others stays outside; its licences are not ours to mix.
func TestNoForeignMaterial(t *testing.T) {
	t.Parallel()
	root := filepath.Join(sharedDir(t), "testdata")
	// Very small files are equal by chance: fuzz corpora, empty objects.
	const least = 64
	foreign := make(map[string]string)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() < least {
			return err
		}
		foreign[sumOf(t, path)] = path
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(foreign) == 0 {
		t.Fatalf("nothing in %s", root)
	}
	for _, f := range repoFiles(t) {
		if from, ok := foreign[sumOf(t, f)]; ok && f != "LICENSE" {
			t.Errorf("%s is a copy of %s", f, from)
		}
	}
}

func TestLicence(t *testing.T) {
	t.Parallel()
	l := read(t, "LICENSE")
	if !strings.Contains(l, "Apache License") || !strings.Contains(l, "Version 2.0, January 2004") || !strings.Contains(l, "END OF TERMS AND CONDITIONS") {
		t.Error("LICENSE is not the full text of Apache-2.0")
	}
	if !strings.Contains(read(t, "README.md"), "Apache-2.0") {
		t.Error("README.md does not name the licence")
	}
}

// The two commands that a newcomer needs stand in the README, and every make
// target that a document names exists.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	for _, want := range []string{"make run", "make test"} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md does not mention %q", want)
		}
	}
	targets := regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(read(t, "Makefile"), -1)
	known := make([]string, 0, len(targets))
	for _, m := range targets {
		known = append(known, m[1])
	}
	named := regexp.MustCompile("`make ([a-z][a-z-]*)")
	for _, f := range repoFiles(t) {
		if !strings.HasSuffix(f, ".md") {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(read(t, f), -1) {
			if !slices.Contains(known, m[1]) {
				t.Errorf("%s: no target %q in the Makefile", f, m[1])
			}
		}
	}
}

// Links between documents lead somewhere.
func TestDocumentLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	for _, f := range repoFiles(t) {
		if !strings.HasSuffix(f, ".md") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(read(t, f), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(f), m[1])); err != nil {
				t.Errorf("%s: dead link %s", f, m[1])
			}
		}
	}
}

// Decisions carry their number and are listed.
func TestDecisions(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("docs/decisions/[0-9]*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	list := read(t, "docs/decisions/README.md")
	for _, f := range files {
		if !strings.HasPrefix(read(t, f), "# "+filepath.Base(f)[:4]) {
			t.Errorf("%s: the title does not begin with its number", f)
		}
		if !strings.Contains(list, filepath.Base(f)) {
			t.Errorf("docs/decisions/README.md does not list %s", f)
		}
	}
}

// Every direct dependency has its reason.
func TestDependenciesHaveReasons(t *testing.T) {
	t.Parallel()
	reasons := read(t, "docs/decisions/0006-dependencies.md")
	require := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)
	for _, m := range require.FindAllStringSubmatch(read(t, "go.mod"), -1) {
		if !strings.Contains(reasons, "| "+m[1]+" |") {
			t.Errorf("docs/decisions/0006-dependencies.md says nothing about %s", m[1])
		}
	}
}
