// Package filelock takes advisory locks on files, so that two processes (or
// two owners in one) never use the same folder at the same time. It knows
// nothing of what is locked; any package may import it.
package filelock

import (
	"errors"
	"fmt"
	"os"
)

// ErrLocked says that another owner holds the lock.
var ErrLocked = errors.New("locked by another process")

// Lock is a held lock; Unlock it once.
type Lock struct{ f *os.File }

// Try takes the lock on path, creating the file, or fails at once with
// ErrLocked.
func Try(path string) (*Lock, error) { return acquire(path, false) }

// Wait takes the lock on path and blocks until it is free. Keep what is done
// under it short.
func Wait(path string) (*Lock, error) { return acquire(path, true) }

func acquire(path string, wait bool) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	if err := lock(f, wait); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Lock{f: f}, nil
}

// Unlock frees the lock. The file stays: removing it would race with others.
// Closing a file that was never written has nothing to report.
func (l *Lock) Unlock() { _ = l.f.Close() }
