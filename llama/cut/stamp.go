package cut

import (
	"os"
	"time"
)

// stamp is what tells a file from a changed one without reading it.
type stamp struct {
	Size int64 `json:"size"`
	// Modified and Changed are Unix nanoseconds: the content's time, and the
	// one that no program can set.
	Modified int64  `json:"modified"`
	Changed  int64  `json:"changed"`
	Inode    uint64 `json:"inode"`
}

// Granularity is the coarsest time stamp of a file system in use (FAT: two
// seconds). A write within it leaves the time as it was.
const granularity = 2 * time.Second

// settled says that a file whose time is at could not have been written since
// without its time changing.
func (s stamp) settled(now time.Time) bool {
	return now.UnixNano()-max(s.Modified, s.Changed) > int64(granularity)
}

// age sets the file's time back, so that each later write changes it, also one
// in the same tick of the clock; and returns the stamp. This is why a record
// may be made right after our own write. ok is false when the file system (or
// its owner) does not allow it: then nothing may be remembered.
func age(f *os.File, path string) (s stamp, ok bool, err error) {
	past := time.Now().Add(-5 * granularity)
	if err := os.Chtimes(path, time.Time{}, past); err != nil {
		return s, false, nil //nolint:nilerr // not allowed: costs hashing again, no more
	}
	if s, err = stampOf(f); err != nil {
		return s, false, err
	}
	off := s.Modified - past.UnixNano()
	return s, -int64(granularity) <= off && off <= int64(granularity), nil
}
