// Package protocoltest holds what tests of the vocabulary share: golden files,
// in which the input and the expected output of a case stand together, and
// objects with every field set, which show a JSON form whole.
//
// Only tests of engine/protocol and of the packages below it import it; of our
// packages it imports engine/protocol only.
package protocoltest

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Update says that golden files, and pages that are made from the source, are
// written anew:
//
//	go test ./engine/protocol/... -update
var Update = flag.Bool("update", false, "write golden files and the pages of docs/protocol that are made from source")

// separator stands between a golden file's input and its expected output.
const separator = "\n----\n"

// Split reads a golden file; a new one has no output yet.
func Split(t testing.TB, path string) (input, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	input, want, _ = strings.Cut(string(b), separator)
	return strings.TrimRight(input, "\n"), want
}

// Golden compares got with the output in a golden file and returns what is
// expected. With -update the file is written from input and got instead.
func Golden(t testing.TB, path, input, got string) (want string) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(path, []byte(input+separator+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if _, want = Split(t, path); want != got {
		t.Errorf("%s (-want +got):\n%s", path, cmp.Diff(want, got))
	}
	return want
}
