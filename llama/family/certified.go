package family

import (
	_ "embed"
	"slices"
	"strings"
	"sync/atomic"
)

// certifiedList names the architectures that passed the parity suite on the
// pinned version at every legal cut, one a line; the suite writes and checks
// it. An architecture that does not stand there is not cut.
//
//go:embed certified.txt
var certifiedList string

var certified = sortedLines(certifiedList)

func sortedLines(s string) []string {
	out := []string{}
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

// Certified lists the architectures that may be cut, sorted.
func Certified() []string { return slices.Clone(certified) }

// trial is set by AllowTrial.
var trial atomic.Bool

// AllowTrial lets this process cut also what the table knows and no test has
// certified. Only the parity suite calls it: a wrong claim of the table gives
// wrong answers without an error.
func AllowTrial() { trial.Store(true) }

// mayCut reports whether an entry may be used.
func mayCut(arch string) bool {
	_, ok := slices.BinarySearch(certified, arch)
	return ok || trial.Load()
}
