package reports

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The criterion has to notice what it is there for.
func TestCheckNotices(t *testing.T) {
	t.Parallel()
	const docs = "../../../docs/models"
	raw, err := os.ReadFile(filepath.Join(docs, "ornith.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	r := all[2]
	if _, err := r.check(text, docs, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(string) string{
		"a figure changed by hand": func(s string) string {
			at := strings.Index(s, "<!-- table: kv ornith-35b -->")
			return s[:at] + strings.Replace(s[at:], " MB |", "9 MB |", 1)
		},
		"a section is missing":  func(s string) string { return strings.Replace(s, "\n## Seams\n", "\n", 1) },
		"a section is empty":    func(s string) string { return strings.Replace(s, section(s, "Known upstream bugs"), "\n", 1) },
		"a table is missing":    func(s string) string { return strings.Replace(s, "<!-- table: speed ornith-35b -->", "", 1) },
		"no recommendation":     func(s string) string { return strings.Replace(s, "**llama.cpp/GGUF", "**something", 1) },
		"no patch descriptions": func(s string) string { return strings.ReplaceAll(s, "](../upstream/", "](../") },
	} {
		if _, err := r.check(change(text), docs, t.TempDir()); err == nil {
			t.Errorf("%s: passes", name)
		} else {
			t.Log(name, "->", err)
		}
	}
}
