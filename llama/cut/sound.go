package cut

import (
	"os"
	"slices"
)

// Sound lists the files that are remembered as verified and unchanged since,
// sorted; for displays. Nothing is hashed or locked.
func (s *Store) Sound() []string {
	rec, x := readRecords(s.dir), s.Index()
	var out []string
	for file := range x.Files {
		c := newCheck(s.dir, file, x)
		r, ok := rec[file]
		if !ok || r.Digest != c.digest {
			continue
		}
		f, err := os.Open(c.path)
		if err != nil {
			continue
		}
		if now, err := stampOf(f); err == nil && now == r.stamp {
			out = append(out, file)
		}
		_ = f.Close() // only read
	}
	slices.Sort(out)
	return out
}
