package feed

import (
	"cmp"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// Version is a version as semantic versioning 2.0.0 orders it; build metadata
// (+...) does not count.
type Version struct {
	numbers [3]int
	pre     []string
}

var versionForm = regexp.MustCompile(`^v?(\d{1,5})\.(\d{1,5})\.(\d{1,5})(?:-([0-9A-Za-z.-]{1,64}))?(?:\+[0-9A-Za-z.-]{1,64})?$`)

var errVersion = errors.New("not MAJOR.MINOR.PATCH[-PRE]")

// ParseVersion reads a version, with or without a leading v.
func ParseVersion(s string) (Version, error) {
	m := versionForm.FindStringSubmatch(s)
	if m == nil {
		return Version{}, errVersion
	}
	var v Version
	for i := range v.numbers {
		n, err := strconv.Atoi(m[i+1])
		if err != nil {
			return Version{}, errVersion
		}
		v.numbers[i] = n
	}
	if m[4] != "" {
		v.pre = strings.Split(m[4], ".")
	}
	return v, nil
}

// Compare is -1 when v is the older one, 1 when it is the newer one.
func (v Version) Compare(o Version) int {
	for i := range v.numbers {
		if c := cmp.Compare(v.numbers[i], o.numbers[i]); c != 0 {
			return c
		}
	}
	switch {
	case len(v.pre) == 0 && len(o.pre) == 0:
		return 0
	case len(v.pre) == 0:
		return 1
	case len(o.pre) == 0:
		return -1
	}
	for i := range min(len(v.pre), len(o.pre)) {
		if c := comparePart(v.pre[i], o.pre[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(v.pre), len(o.pre))
}

// comparePart orders numbers by their size and in front of words.
func comparePart(a, b string) int {
	x, aerr := strconv.ParseUint(a, 10, 64)
	y, berr := strconv.ParseUint(b, 10, 64)
	switch {
	case aerr == nil && berr == nil:
		return cmp.Compare(x, y)
	case aerr == nil:
		return -1
	case berr == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// Newer says whether version a is newer than b; false when one of them cannot
// be read.
func Newer(a, b string) bool {
	x, aerr := ParseVersion(a)
	y, berr := ParseVersion(b)
	return aerr == nil && berr == nil && x.Compare(y) > 0
}
