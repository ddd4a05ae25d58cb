// Package datadir owns the tracker's data folder: it creates it, makes sure
// that it can be written, and keeps every other tracker out while it is open.
// Commands that work beside a running tracker share it: they write only what
// has its own protection against writers at the same time.
//
// All parts of the tracker that write files may import it. It knows nothing of
// what the files hold.
package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
	"neuron/internal/filelock"
	"neuron/internal/syserr"
)

const lockName = "tracker.lock"

// Dir is an open data folder. It is safe for concurrent use.
type Dir struct {
	path string
	lock *filelock.Lock // nil when shared
}

// Open creates path (mode 0700) when it is missing, checks that it can be
// written, and takes the folder's lock. Errors: data_folder, disk_full,
// already_running.
func Open(path string) (*Dir, error) {
	if path == "" {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "no data folder is given")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, Coded(err, "find data folder "+path)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, Coded(err, "create data folder "+abs)
	}
	lock, err := filelock.Try(filepath.Join(abs, lockName))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, protocol.Errorf(protocol.CodeAlreadyRunning, "another tracker uses the data folder %s", abs)
	}
	if err != nil {
		return nil, Coded(err, "lock data folder "+abs)
	}
	d := &Dir{path: abs, lock: lock}
	if err := d.probe(); err != nil {
		lock.Unlock()
		return nil, err
	}
	return d, nil
}

// Share opens path for a command that may run beside a tracker: without the
// folder's lock. Only files that several processes may write are for it. With
// create it makes the folder (mode 0700) when it is missing. Error:
// data_folder.
func Share(path string, create bool) (*Dir, error) {
	if path == "" {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "no data folder is given")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, Coded(err, "find data folder "+path)
	}
	if create {
		err = os.MkdirAll(abs, 0o700)
	} else {
		_, err = os.Stat(abs)
	}
	if err != nil {
		return nil, Coded(err, "open data folder "+abs)
	}
	return &Dir{path: abs}, nil
}

// Exclusive runs f while no other process that shares the folder runs an f of
// the same name. Keep f short.
func (d *Dir) Exclusive(name string, f func() error) error {
	lock, err := filelock.Wait(d.File(name + ".lock"))
	if err != nil {
		return Coded(err, "lock data folder "+d.path)
	}
	defer lock.Unlock()
	return f()
}

// probe writes a few bytes, so that a full disk shows at the start and with
// its own code.
func (d *Dir) probe() error {
	if err := d.WriteFile(".probe", make([]byte, 4096)); err != nil {
		return err
	}
	if err := os.Remove(d.File(".probe")); err != nil {
		return Coded(err, "write data folder "+d.path)
	}
	return nil
}

// Path is the folder's absolute path.
func (d *Dir) Path() string { return d.path }

// File is the path of a file in the folder.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// WriteFile replaces a file of the folder in one step, mode 0600: after a
// crash it holds the old content or the new, never a part.
func (d *Dir) WriteFile(name string, data []byte) error {
	if err := atomicfile.Write(d.File(name), data); err != nil {
		return Coded(err, "write "+d.File(name))
	}
	return nil
}

// Close gives the folder back. The lock file stays: removing it would let two
// processes lock two different files of the same name.
func (d *Dir) Close() {
	if d.lock != nil {
		d.lock.Unlock()
	}
}

// Coded turns an operating system error into one with a stable code that a
// person can act on.
func Coded(err error, op string) error {
	var coded *protocol.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded):
		return err
	case syserr.DiskFull(err):
		return protocol.Errorf(protocol.CodeDiskFull, "%s: no space left: %w", op, err)
	case errors.Is(err, fs.ErrPermission):
		return protocol.Errorf(protocol.CodeDataFolder, "%s: this user may not write there: %w", op, err)
	default:
		return protocol.Errorf(protocol.CodeDataFolder, "%s: %w", op, err)
	}
}
