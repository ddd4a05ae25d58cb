// Package history keeps telemetry in one SQLite file. It implements
// telemetry.Store; the server opens it and nobody else imports it.
//
// The file may be deleted at any time the tracker is not running; only history
// is lost. For the same reason it has no migrations: a file that is damaged,
// or of another version, is moved aside and a new one begun.
package history

import (
	"context"
	"database/sql"
	_ "embed" // schema.sql
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/telemetry"
)

//go:embed schema.sql
var schema string

// version is what PRAGMA user_version says of a file with this schema.
const version = 1

// maxBytes bounds the file: above it the oldest sessions go, whatever their age.
const maxBytes = 4 << 30

// Deleted in one step, so that no write waits long.
const (
	pruneSessions = 20
	pruneMinutes  = 2000
)

// maxSamples bounds what History returns; a session has about 500.
const maxSamples = 2000

// File is an open history. database/sql guards its connections: one that
// writes, and two that read beside it.
type File struct {
	path        string
	write, read *sql.DB
	put         statements // on the connection that writes
	max         int64      // maxBytes, apart from tests
}

// Open opens or creates the file at path (mode 0600). A damaged file, or one
// of another version, becomes path+".old" and a new one is begun; an earlier
// .old is lost. Errors: data_folder, disk_full.
func Open(ctx context.Context, path string, log *slog.Logger) (*File, error) {
	f, err := open(ctx, path)
	var bad *unusableError
	if !errors.As(err, &bad) {
		return f, err
	}
	log.Warn("the history of sessions is moved aside and begun anew", "file", path, "reason", bad.why)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if suffix == "" {
			err = os.Rename(path, path+".old")
		} else if err = os.Remove(path + suffix); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return nil, datadir.Coded(err, "move "+path+suffix+" aside")
		}
	}
	return open(ctx, path)
}

// unusableError says that a file has to be begun anew.
type unusableError struct{ why string }

func (e *unusableError) Error() string { return e.why }

func open(ctx context.Context, path string) (_ *File, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, datadir.Coded(err, "find "+path)
	}
	// The driver would make the file readable for others.
	fd, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, datadir.Coded(err, "open "+path)
	}
	fd.Close()
	f := &File{path: path, max: maxBytes}
	if f.write, err = sql.Open("sqlite", dsn(path, "synchronous(NORMAL)")); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f.write.SetMaxOpenConns(1)
	if f.read, err = sql.Open("sqlite", dsn(path, "query_only(1)")); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.write.Close())
	}
	f.read.SetMaxOpenConns(2)
	if err = f.prepare(ctx); err == nil {
		err = f.keep(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func dsn(path, pragma string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // "C:/a" becomes "file:///C:/a"
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		// What a statement would have to undo stays in memory. The cache (KiB) takes
		// 2.3 times as much, see store/sqlite; each batch writes a few pages.
		"_pragma": {"busy_timeout(2000)", "journal_mode(WAL)", "temp_store(2)", "cache_size(-512)", pragma}, "_txlock": {"immediate"},
	}.Encode()}).String()
}

func (f *File) prepare(ctx context.Context) error {
	var answer string
	if err := f.write.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&answer); err != nil {
		return f.wrap("check", err)
	}
	if answer != "ok" {
		return &unusableError{answer}
	}
	var have, tables int
	if err := f.write.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return f.wrap("read the version", err)
	}
	if have == version {
		return nil
	}
	if err := f.write.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return f.wrap("read the tables", err)
	}
	if have != 0 || tables != 0 {
		return &unusableError{fmt.Sprintf("it has version %d, this tracker writes %d", have, version)}
	}
	return f.tx(ctx, "make the tables", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, schema+fmt.Sprintf("; PRAGMA user_version = %d", version))
		return err
	})
}

// wrap adds the operation and finds the codes that a person can act on.
func (f *File) wrap(op string, err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return &unusableError{fmt.Sprintf("%s: %v", op, err)}
		case sqlite3.SQLITE_FULL:
			return protocol.Errorf(protocol.CodeDiskFull, "history %s: %s: %w", f.path, op, err)
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM:
			return protocol.Errorf(protocol.CodeDataFolder, "history %s: %s: %w", f.path, op, err)
		}
	}
	return fmt.Errorf("history: %s: %w", op, err)
}

func (f *File) tx(ctx context.Context, op string, do func(*sql.Tx) error) error {
	tx, err := f.write.BeginTx(ctx, nil)
	if err != nil {
		return f.wrap(op, err)
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the first error is the one to tell
		return f.wrap(op, err)
	}
	if err := tx.Commit(); err != nil {
		return f.wrap(op, err)
	}
	return nil
}

// Close implements telemetry.Store.
func (f *File) Close() error { return errors.Join(f.put.close(), f.read.Close(), f.write.Close()) }

// Write implements telemetry.Store.
func (f *File) Write(ctx context.Context, b *telemetry.Batch) error {
	return f.tx(ctx, "write", func(tx *sql.Tx) error {
		put := f.put.in(ctx, tx)
		updated := make(map[protocol.SessionID]int64, len(b.Samples))
		for i := range b.Samples {
			r := &b.Samples[i]
			updated[r.Session] = max(updated[r.Session], r.At.UnixMicro())
		}
		nums := make(map[protocol.SessionID]int64, len(updated))
		for i := range b.Samples {
			r := &b.Samples[i]
			n, ok := nums[r.Session]
			if !ok {
				if err := put.session.QueryRowContext(ctx, r.Session, r.Model, r.Name, r.Private, updated[r.Session]).Scan(&n); err != nil {
					return err
				}
				nums[r.Session] = n
			}
			if err := put.row(ctx, n, r); err != nil {
				return err
			}
		}
		for i := range b.Minutes {
			m := &b.Minutes[i]
			if _, err := tx.ExecContext(ctx, `INSERT INTO minute (at, tokens, prefill, started, ended, failed, nodes, credit, dropped)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (at) DO UPDATE SET tokens = tokens + excluded.tokens,
				prefill = prefill + excluded.prefill, started = started + excluded.started, ended = ended + excluded.ended,
				failed = failed + excluded.failed, nodes = max(nodes, excluded.nodes), credit = credit + excluded.credit, dropped = dropped + excluded.dropped`,
				m.At.UnixMicro(), m.Tokens, m.Prefill, m.Started, m.Ended, m.Failed, m.Nodes, m.Credit, m.Dropped); err != nil {
				return err
			}
		}
		return nil
	})
}

// statements are those that Write runs often: reading the text of one costs as
// much as running it.
type statements struct{ session, end, phase, sample *sql.Stmt }

// keep prepares them for as long as the file is open. A file that says that it
// has this version, and has not its tables, is unusable.
func (f *File) keep(ctx context.Context) error {
	for _, p := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&f.put.session, `INSERT INTO session (id, model, name, private, updated) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET updated = max(updated, excluded.updated) RETURNING n`},
		{&f.put.end, `UPDATE session SET finish = ?, code = ?, hop = ? WHERE n = ?`},
		{&f.put.phase, `INSERT INTO phase (session, at, phase) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`},
		{&f.put.sample, `INSERT INTO sample (session, at, phase, prefill_done, prefill_total, tokens, rate, first_us, hops) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (session, at) DO UPDATE SET phase = excluded.phase, prefill_done = excluded.prefill_done,
			prefill_total = excluded.prefill_total, tokens = excluded.tokens, rate = excluded.rate, first_us = excluded.first_us, hops = excluded.hops`},
	} {
		st, err := f.write.PrepareContext(ctx, p.text) //nolint:sqlclosecheck // close does
		if err != nil {
			var e *sqlite.Error
			if errors.As(err, &e) && e.Code() == sqlite3.SQLITE_ERROR {
				return &unusableError{fmt.Sprintf("its tables are others: %v", err)}
			}
			return f.wrap("read the tables", err)
		}
		*p.to = st
	}
	return nil
}

// in are the statements for a transaction, which ends them.
func (s *statements) in(ctx context.Context, tx *sql.Tx) *statements {
	return &statements{tx.StmtContext(ctx, s.session), tx.StmtContext(ctx, s.end), tx.StmtContext(ctx, s.phase), tx.StmtContext(ctx, s.sample)}
}

func (s *statements) close() error {
	var errs []error
	for _, st := range []*sql.Stmt{s.session, s.end, s.phase, s.sample} {
		if st != nil {
			errs = append(errs, st.Close())
		}
	}
	return errors.Join(errs...)
}

// row writes a row of the session with number n.
func (s *statements) row(ctx context.Context, n int64, r *telemetry.Row) error {
	at := r.At.UnixMicro()
	if r.End != nil {
		if _, err := s.end.ExecContext(ctx, string(r.End.Finish), string(r.End.Code), r.End.Hop, n); err != nil {
			return err
		}
	}
	if r.NewPhase {
		if _, err := s.phase.ExecContext(ctx, n, at, string(r.Phase)); err != nil {
			return err
		}
	}
	if !r.Sampled {
		return nil
	}
	hops, err := json.Marshal(r.Hops)
	if err != nil {
		return err
	}
	_, err = s.sample.ExecContext(ctx, n, at, string(r.Phase), r.PrefillDone, r.PrefillTotal, r.Tokens, r.TokensPerSecond, r.FirstToken.Microseconds(), string(hops))
	return err
}

// Prune implements telemetry.Store.
func (f *File) Prune(ctx context.Context, before time.Time) (more bool, err error) {
	used, err := f.used(ctx)
	if err != nil {
		return false, err
	}
	err = f.tx(ctx, "forget", func(tx *sql.Tx) error {
		list, err := ids(ctx, tx, before, used > f.max)
		if err != nil {
			return err
		}
		for _, n := range list {
			for _, text := range []string{"DELETE FROM sample WHERE session = ?", "DELETE FROM phase WHERE session = ?", "DELETE FROM session WHERE n = ?"} {
				if _, err := tx.ExecContext(ctx, text, n); err != nil {
					return err
				}
			}
		}
		gone, err := tx.ExecContext(ctx, "DELETE FROM minute WHERE at IN (SELECT at FROM minute WHERE at < ? ORDER BY at LIMIT ?)", before.UnixMicro(), pruneMinutes)
		if err != nil {
			return err
		}
		minutes, err := gone.RowsAffected()
		more = len(list) == pruneSessions || minutes == pruneMinutes
		return err
	})
	return more && err == nil, err
}

// ids lists some of the sessions to forget.
func ids(ctx context.Context, tx *sql.Tx, before time.Time, full bool) (out []int64, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT n FROM session WHERE updated < ? OR ? ORDER BY updated LIMIT ?", before.UnixMicro(), full, pruneSessions)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, rows.Err()
}

// used is the number of bytes in use; pages that are free count as room.
func (f *File) used(ctx context.Context) (int64, error) {
	var pages, free, size int64
	err := f.read.QueryRowContext(ctx, "SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count), (SELECT page_size FROM pragma_page_size)").Scan(&pages, &free, &size)
	if err != nil {
		return 0, f.wrap("measure", err)
	}
	return (pages - free) * size, nil
}
