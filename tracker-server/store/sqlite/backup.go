package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
)

// Backup writes a consistent copy of the database file at from to a new file
// to, mode 0600, while others may read and write it. The copy has the state of
// one moment between two transactions, and needs no WAL beside it. Errors:
// data_folder, disk_full.
func Backup(ctx context.Context, from, to string) error {
	from, err := filepath.Abs(from)
	if err == nil {
		_, err = os.Stat(from) // the driver would make an empty one
	}
	if err != nil {
		return datadir.Coded(err, "read "+from)
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return protocol.Errorf(protocol.CodeDataFolder, "%s is there already", to)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return datadir.Coded(err, "write "+to)
	}
	db, err := sql.Open("sqlite", dsn(filepath.ToSlash(from), "FULL"))
	if err != nil {
		return protocol.Errorf(protocol.CodeInternal, "open %s: %w", from, err)
	}
	s := &Store{path: from} // for its errors
	// VACUUM INTO takes an empty file that is there, with its mode, and reads
	// under one snapshot (SQLite, "VACUUM", section 3).
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	if err = errors.Join(s.wrap("back up", err), db.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}
