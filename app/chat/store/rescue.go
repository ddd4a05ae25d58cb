package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"neuron/engine/protocol"
)

// Gone says that the file is not in its place any more: it was deleted, moved, or
// another one was put there. What is written meanwhile ends with this process.
func (s *Store) Gone() bool {
	if s.opened == nil {
		return false // in memory
	}
	now, err := os.Stat(s.path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(s.opened, now)
}

// magic is how a database's file begins.
const magic = "SQLite format 3\x00"

// Spoilt says that the file does not begin as a database any more: something has
// written over it. SQLite goes on with what it remembers of such a file, and what
// it writes is lost at the next opening.
func (s *Store) Spoilt() bool {
	if s.opened == nil {
		return false
	}
	f, err := os.Open(s.path)
	if err != nil {
		return false // Gone, or the next write says why
	}
	defer f.Close()
	head := make([]byte, len(magic))
	_, err = io.ReadFull(f, head)
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || err == nil && string(head) != magic
}

// Rescue writes all that the store has to its place again and opens that; this
// store is closed then. A file that lies there meanwhile is set aside. After an
// error this store goes on. Errors: those of Open.
func (s *Store) Rescue(ctx context.Context, now time.Time) (*Store, Opened, error) {
	var o Opened
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, o, protocol.Errorf(protocol.CodeDataFolder, "make the folder of the chats: %w", err)
	}
	copied := s.path + ".rescue"
	if err := os.Remove(copied); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, o, protocol.Errorf(protocol.CodeDataFolder, "remove an old copy of the chats: %w", err)
	}
	// The driver would make the file readable for others.
	f, err := os.OpenFile(copied, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, o, protocol.Errorf(protocol.CodeDataFolder, "write the chats again: %w", err)
	}
	f.Close()
	if _, err := s.db.ExecContext(ctx, "VACUUM INTO ?", copied); err != nil {
		return nil, o, errors.Join(s.wrap("write again", err), os.Remove(copied))
	}
	if _, err := os.Lstat(s.path); err == nil {
		if o.SetAside, err = setAside(s.path, now); err != nil {
			return nil, o, err
		}
	}
	// What this connection leaves behind must not lie beside the new file.
	_ = s.db.Close() // all that it had is copied
	for _, suffix := range []string{"-shm", "-wal"} {
		_ = os.Remove(s.path + suffix)
	}
	if err := os.Rename(copied, s.path); err != nil {
		return nil, o, protocol.Errorf(protocol.CodeDataFolder, "put the chats back: %w", err)
	}
	again, err := open(ctx, s.path, migrations)
	return again, o, err
}
