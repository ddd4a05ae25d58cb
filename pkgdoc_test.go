package neuron

import (
	"bytes"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// Every package says what it is, main packages included.
func TestPackageComments(t *testing.T) {
	t.Parallel()
	for dir, files := range goPackages(t) {
		var name, doc string
		docs := 0
		for _, f := range files {
			tree, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Error(err)
				continue
			}
			if name = tree.Name.Name; tree.Doc != nil {
				docs++
				doc = tree.Doc.Text()
			}
		}
		switch {
		case docs == 0:
			t.Errorf("%s: package %s has no comment", dir, name)
		case docs > 1:
			t.Errorf("%s: package %s has %d package comments; one is read first and the others are lost", dir, name, docs)
		case name != "main" && !strings.HasPrefix(doc, "Package "+name+" "):
			t.Errorf("%s: the comment does not begin with %q", dir, "Package "+name)
		case len(strings.Fields(doc)) < 8:
			t.Errorf("%s: the comment %q says nothing", dir, doc)
		}
	}
}

// maxPackageLines is where a package has to be split before its next feature.
const maxPackageLines = 3000

// largerPackages may be longer, each for its reason.
var largerPackages = map[string]int{
	// One file per header of one C library, half of it prototypes in comments;
	// in parts, every handle's pointer would have to be exported.
	"llama": 5000,
}

func TestPackageSize(t *testing.T) {
	t.Parallel()
	for dir, files := range goPackages(t) {
		lines := 0
		for _, f := range files {
			lines += bytes.Count([]byte(read(t, f)), []byte("\n"))
		}
		limit := maxPackageLines
		if l, ok := largerPackages[dir]; ok {
			limit = l
		}
		if lines > limit {
			t.Errorf("%s: %d lines, split it (limit %d)", dir, lines, limit)
		}
	}
}
