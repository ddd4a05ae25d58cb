// Package atomicfile replaces files in one step: after a crash or a full disk
// a path holds its old content or the new one, never a part. Any package may
// import it; it knows nothing of what the files hold.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write replaces path by data; only the owner may read it.
func Write(path string, data []byte) error {
	return WriteFunc(path, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// WriteFunc replaces path by what fill writes into an empty file (mode 0600)
// in the same folder; fill may also seek and truncate. Errors wrap those of
// the operating system, so that a full disk can be told apart.
func WriteFunc(path string, fill func(f *os.File) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("temporary file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := fill(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync: %w", err), f.Close())
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	SyncFolder(dir)
	return nil
}

// SyncFolder makes a rename in a folder durable. Not every system can do it, and
// without it a crash shows the old content, or the old name.
func SyncFolder(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	_ = d.Sync()
	_ = d.Close()
}
