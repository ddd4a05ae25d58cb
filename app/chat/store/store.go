// Package store keeps chats in one SQLite file of this computer. The chat page
// alone uses it; it knows no network and no screen.
//
// What was written stays when the window is killed at any moment. A file that
// is damaged is set aside under another name, never deleted, and a new one is
// begun. What the user deletes is overwritten in the file.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"neuron/engine/protocol"
)

//go:embed migrations/*.sql
var files embed.FS

// migrations are the steps from an empty file to the present form, in order;
// user_version counts those that a file has had. A step is never changed once
// it is released.
var migrations = func() []string {
	entries, err := files.ReadDir("migrations")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	var out []string
	for _, e := range entries {
		raw, err := files.ReadFile("migrations/" + e.Name())
		if err != nil {
			panic(err)
		}
		out = append(out, string(raw))
	}
	return out
}()

// Store is an open database. It is safe for concurrent use; calls wait for
// each other.
type Store struct {
	db     *sql.DB
	path   string      // "" in memory
	opened fs.FileInfo // what was at path; nil in memory
}

// Opened says what happened when a file was opened.
type Opened struct {
	// SetAside is where a damaged file lies now, "" when it was good.
	SetAside string
}

// Open opens or creates the file at path (mode 0600), and its folder. Answers
// that were being written when the window ended become thread.StateLost, and
// chats that were deleted are gone for good. now names a file that is set aside.
// Errors: disk_full; data_folder, also for the file of a newer version, which is
// left as it is.
func Open(ctx context.Context, path string, now time.Time) (*Store, Opened, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, Opened{}, protocol.Errorf(protocol.CodeDataFolder, "find %s: %w", path, err)
	}
	s, err := open(ctx, path, migrations)
	var damaged *damagedError
	if !errors.As(err, &damaged) {
		return s, Opened{}, err
	}
	aside, err := setAside(path, now)
	if err != nil {
		return nil, Opened{}, err
	}
	s, err = open(ctx, path, migrations)
	return s, Opened{SetAside: aside}, err
}

// Memory is a store that ends with the window, for when no file can be had.
func Memory(ctx context.Context) (*Store, error) {
	return start(ctx, &Store{}, "file::memory:?_pragma=foreign_keys(1)&_txlock=immediate", migrations)
}

// damagedError says that a file is no database any more.
type damagedError struct{ cause error }

func (e *damagedError) Error() string { return "the database of chats is damaged: " + e.cause.Error() }
func (e *damagedError) Unwrap() error { return e.cause }

// setAside renames a database with its side files.
func setAside(path string, now time.Time) (string, error) {
	stamp := path + ".damaged-" + now.Format("20060102-150405")
	to := stamp
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
		to = fmt.Sprintf("%s-%d", stamp, n)
	}
	for _, suffix := range []string{"-shm", "-wal", ""} {
		if err := os.Rename(path+suffix, to+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", protocol.Errorf(protocol.CodeDataFolder, "set the damaged database of chats aside: %w", err)
		}
	}
	return to, nil
}

func open(ctx context.Context, path string, steps []string) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "make the folder of the chats: %w", err)
	}
	// The driver would make the file readable for others.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "open the database of chats: %w", err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "open the database of chats: %w", err)
	}
	return start(ctx, &Store{path: path, opened: opened}, dsn(path), steps)
}

func start(ctx context.Context, s *Store, name string, steps []string) (*Store, error) {
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "open the database of chats: %w", err)
	}
	// One connection: the page asks for one thing at a time, and a database in
	// memory belongs to its connection.
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	db.SetConnMaxLifetime(0)
	s.db = db
	for _, f := range []func(context.Context) error{s.check, func(ctx context.Context) error { return s.migrate(ctx, steps) }, s.mend} {
		if err := f(ctx); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return s, nil
}

// dsn is the driver's name for a file: "C:/a" becomes "file:///C:/a".
func dsn(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "secure_delete(1)"},
		"_txlock": {"immediate"},
	}.Encode()}).String()
}

// check reads the whole file once. The index for searching can be made again
// from the messages, so its damage is none.
func (s *Store) check(ctx context.Context) error {
	var answer string
	for again := false; ; again = true {
		if err := s.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&answer); err != nil {
			return s.wrap("check", err)
		}
		if answer == "ok" {
			return nil
		}
		if again {
			return &damagedError{errors.New(answer)}
		}
		if _, err := s.db.ExecContext(ctx, "INSERT INTO found (found) VALUES ('rebuild')"); err != nil {
			return &damagedError{fmt.Errorf("%s; %w", answer, err)}
		}
	}
}

// migrate brings a file to the present form, step by step.
func (s *Store) migrate(ctx context.Context, steps []string) error {
	var have int
	if err := s.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return s.wrap("read the version", err)
	}
	if have > len(steps) {
		return protocol.Errorf(protocol.CodeDataFolder, "the chats were written by a newer version of Neuron")
	}
	for i, step := range steps[have:] {
		if err := s.tx(ctx, "change the form", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, step+fmt.Sprintf("; PRAGMA user_version = %d", have+i+1))
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// mend repairs what an end in the middle left behind.
func (s *Store) mend(ctx context.Context) error {
	if err := s.Purge(ctx); err != nil {
		return err
	}
	return s.tx(ctx, "mend", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE message SET state = 'lost' WHERE state = 'writing';
			DELETE FROM chat WHERE head = 0 AND trim(draft, ' ' || char(9, 10, 13)) = ''`)
		return err
	})
}

// Close ends the connection; side files are merged into the file.
func (s *Store) Close() error { return s.wrap("close", s.db.Close()) }

func (s *Store) tx(ctx context.Context, op string, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.wrap(op, err)
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the first error is the one to tell
		return s.wrap(op, err)
	}
	return s.wrap(op, tx.Commit())
}

// wrap finds the codes that a person can act on. Messages of SQLite name tables
// and pages, never what stands in them.
func (s *Store) wrap(op string, err error) error {
	var coded *protocol.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return &damagedError{err}
		case sqlite3.SQLITE_FULL:
			return protocol.Errorf(protocol.CodeDiskFull, "chats: %s: %w", op, err)
		}
		if slices.Contains([]int{sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY}, e.Code()&0xff) {
			return protocol.Errorf(protocol.CodeDataFolder, "chats: %s: %w", op, err)
		}
	}
	return fmt.Errorf("chats: %s: %w", op, err)
}
