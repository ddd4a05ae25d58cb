package datadir

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// errLocked says that another process holds the lock.
var errLocked = errors.New("locked by another process")

// lockFile takes a lock that ends with the handle or the process.
func lockFile(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}
