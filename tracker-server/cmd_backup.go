package main

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/keys"
	"neuron/tracker-server/store/sqlite"
)

// backupCommand saves what a tracker cannot do without: the database and the
// keys. Telemetry is history, and not in it.
func backupCommand(flags *flag.FlagSet) runner {
	data := dataFlag(flags)
	return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		if len(args) != 1 {
			return &usageError{"name the file to write, as in neuron-tracker backup tracker.tar"}
		}
		n, err := backup(ctx, *data, args[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "%s: %d bytes. It holds the tracker's keys: keep it where only you can read it.\n", args[0], n)
		return err
	}
}

// backup writes a tar file with mode 0600. It appears under its name when it is
// whole and on the disk.
func backup(ctx context.Context, data, to string) (size int64, err error) {
	dir, err := datadir.Share(data, false)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	if _, err := os.Lstat(to); err == nil {
		return 0, protocol.Errorf(protocol.CodeDataFolder, "%s is there already", to)
	}
	// Beside the target: both files go to one disk, and the copy of the database
	// never lies where others may read.
	tmp, err := os.MkdirTemp(filepath.Dir(to), ".neuron-backup-")
	if err != nil {
		return 0, datadir.Coded(err, "write beside "+to)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	copied := filepath.Join(tmp, databaseFile)
	if err := sqlite.Backup(ctx, dir.File(databaseFile), copied); err != nil {
		return 0, err
	}
	whole := filepath.Join(tmp, "whole.tar")
	size, err = writeTar(whole, copied, dir.File(keys.FileName), dir.File(operatorKeyFile))
	if err == nil {
		err = os.Rename(whole, to)
	}
	if err != nil {
		return 0, datadir.Coded(err, "write "+to)
	}
	return size, nil
}

// operatorKeyFile is the key of the operator's area.
const operatorKeyFile = "operator.key"

// writeTar makes a file of files by their last names, those that exist, and
// puts it on the disk.
func writeTar(path string, files ...string) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	for _, name := range files {
		if err := addFile(w, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	if err := errors.Join(w.Close(), f.Sync()); err != nil {
		return 0, err
	}
	return f.Seek(0, io.SeekCurrent)
}

func addFile(w *tar.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: filepath.Base(path), Mode: 0o600, Size: info.Size(), ModTime: time.Now(), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.CopyN(w, f, info.Size())
	return err
}
