// Package sqlite keeps the tracker's facts in one SQLite file, in WAL mode
// with full synchronisation and one writer per process. The publishing
// commands open the file beside a running tracker.
//
// The server and those commands import it. The SQL keeps to what PostgreSQL also
// understands, apart from the pragmas in this file.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
)

// Store implements store.Store. database/sql guards the connection; there is
// exactly one, so writers queue up instead of failing with "busy".
type Store struct {
	db   *sql.DB
	path string
}

// Open opens or creates the database file and brings its schema up to date.
// Errors: data_folder for a damaged or newer file, disk_full.
func Open(ctx context.Context, path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, datadir.Coded(err, "find "+path)
	}
	// The driver would make the file readable for others.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, datadir.Coded(err, "open "+path)
	}
	f.Close()
	db, err := sql.Open("sqlite", dsn(filepath.ToSlash(path)))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	s := &Store{db: db, path: path}
	if err := s.check(ctx); err != nil {
		db.Close()
		return nil, err
	}
	if err := s.migrate(ctx); err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

// dsn is the driver's name for the file at an absolute path with slashes, as a
// URI without an authority: "C:/a" becomes "file:///C:/a" (SQLite, "Uniform
// Resource Identifiers", section 3.2).
func dsn(path string) string {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"},
		// A transaction that reads before it writes would fail at once, without
		// the busy timeout, when another process wrote in between.
		"_txlock": {"immediate"},
	}.Encode()}).String()
}

// check reads the whole file once: a damaged database must show at the start,
// not in the middle of a session.
func (s *Store) check(ctx context.Context) error {
	var answer string
	if err := s.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&answer); err != nil {
		return s.wrap("check", err)
	}
	if answer != "ok" {
		return s.damaged(errors.New(answer))
	}
	return nil
}

func (s *Store) damaged(err error) error {
	return protocol.Errorf(protocol.CodeDataFolder,
		"the database %s is damaged (%w); restore it from a backup, or move it away to start with an empty one", s.path, err)
}

// Close ends the connection; the WAL is merged into the file.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return s.wrap("close", err)
	}
	return nil
}

// wrap adds the operation and finds the codes that a person can act on.
func (s *Store) wrap(op string, err error) error {
	var coded *protocol.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return s.damaged(err)
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return protocol.Errorf(protocol.CodeUnavailable, "database %s: %s: another process is writing: %w", s.path, op, err)
		case sqlite3.SQLITE_FULL:
			return protocol.Errorf(protocol.CodeDiskFull, "database %s: %s: %w", s.path, op, err)
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM:
			return protocol.Errorf(protocol.CodeDataFolder, "database %s: %s: %w", s.path, op, err)
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return datadir.Coded(err, "database "+op)
	}
	return fmt.Errorf("database: %s: %w", op, err)
}

// inTx runs f in a transaction. Transactions are short and never wait for
// anything but the disk.
func (s *Store) inTx(ctx context.Context, op string, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.wrap(op, err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the first error is the one to tell
		return s.wrap(op, err)
	}
	return s.wrap(op, tx.Commit())
}
