// Package sqlite keeps the tracker's facts in one SQLite file, in WAL mode with
// one writer per process, whose answers wait for the disk. The publishing
// commands open the file beside a running tracker, and change the catalog only.
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
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/store/sqlite/direct"
)

// Store implements store.Store. One connection writes, so that writers queue up
// instead of failing with "busy"; others read beside it, each a state between
// two transactions.
type Store struct {
	o    Options
	db   *sql.DB // of the writer
	read *sql.DB
	path string
	log  string // the WAL's path, as SQLite names it

	pen    sync.Mutex   // held while a group is written, or nobody may write
	writer *direct.Conn // of the goroutine of writes
	wal    *os.File     // of the goroutine of syncs; nil until it is needed
	// lost says that a sync of the WAL has failed.
	lost atomic.Bool
	// views are the connections of ViewLedger and of reads that come often.
	views  chan *direct.Conn
	owners owners

	mu        sync.Mutex
	came      *sync.Cond    // of mu: waiting or closing has changed, or a group is due
	waiting   queue         // guarded by mu
	closing   bool          // nothing is taken any more; guarded by mu
	committed []*write      // and not synced; guarded by mu
	unsynced  chan struct{} // tells of committed; capacity 1
	written   chan struct{} // closed at the end of writes
	synced    chan struct{} // closed at the end of syncs, which is later

	commits atomic.Uint64
	once    sync.Once
	stop    chan struct{} // ends checkpoints, which closes copied
	copied  chan struct{}
}

// How many may read at one time: in views, and beside them.
const (
	maxViews = 4
	readers  = 2
)

// Options are for a store that many write to. The zero value is good for all
// others.
type Options struct {
	// Pace and PaceLater are the least times between two transactions of writes
	// that cannot wait, and that can (store.Later): what comes meanwhile shares
	// the next one. A single write after a pause does not wait.
	Pace, PaceLater time.Duration
	// Begun is told how long a write has waited for its transaction, Synced how
	// long the disk took. They must not block. Nil ones are left out.
	Begun  func(later bool, waited time.Duration)
	Synced func(took time.Duration)
}

// Open opens or creates the database file and brings its schema up to date.
// Errors: data_folder for a damaged or newer file, disk_full.
func Open(ctx context.Context, path string) (*Store, error) { return OpenWith(ctx, path, Options{}) }

// OpenWith is Open with options.
func OpenWith(ctx context.Context, path string, o Options) (*Store, error) {
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
	db, err := sql.Open("sqlite", dsn(filepath.ToSlash(path), "NORMAL"))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	s := newStore(db, path, o)
	err = s.check(ctx)
	if err == nil {
		err = s.migrate(ctx)
	}
	if err == nil {
		if s.read, err = sql.Open("sqlite", readDSN(filepath.ToSlash(path))); err != nil {
			err = protocol.Errorf(protocol.CodeInternal, "open %s: %w", path, err)
		}
	}
	if err != nil {
		s.endWrites()
		s.writer.Discard()
		db.Close()
		return nil, err
	}
	s.read.SetMaxOpenConns(maxViews + readers)
	s.read.SetMaxIdleConns(maxViews + readers)
	for range maxViews {
		s.views <- direct.New(s.read)
	}
	s.stop, s.copied = make(chan struct{}), make(chan struct{})
	go s.checkpoints()
	return s, nil
}

// newStore is a store that only writes, until endWrites; its writer begins with
// the first operation.
func newStore(db *sql.DB, path string, o Options) *Store {
	if o.Begun == nil {
		o.Begun = func(bool, time.Duration) {}
	}
	if o.Synced == nil {
		o.Synced = func(time.Duration) {}
	}
	s := &Store{
		o: o, db: db, path: path, log: path + "-wal", writer: direct.New(db), views: make(chan *direct.Conn, maxViews),
		unsynced: make(chan struct{}, 1), written: make(chan struct{}), synced: make(chan struct{}),
	}
	s.waiting.first.pace, s.waiting.later.pace = o.Pace, o.PaceLater
	s.came = sync.NewCond(&s.mu)
	go s.writes()
	go s.syncs()
	return s
}

// The page caches of a connection that writes and of one that reads, in KiB as
// SQLite counts them. In memory they are 2.3 times as large: the driver's
// allocator takes slots of a power of two, seven of 8 KiB in 64 KiB, and a page
// of 4 KiB with its header needs one. The writer's holds what the transaction of
// a full group changes, a reader finds a few rows by their keys. With 16,384 and
// 2,000 the tracker was no faster under the load, and its memory went on growing
// with the file until all were full, at some 75 MB.
const (
	writerCache = 4096
	readerCache = 512
)

// dsn is the driver's name for the file at an absolute path with slashes, as a
// URI without an authority: "C:/a" becomes "file:///C:/a" (SQLite, "Uniform
// Resource Identifiers", section 3.2).
func dsn(path, synchronous string) string {
	return uri(path, url.Values{
		// Another process writes between two groups of ours, when it is quick. The
		// WAL (pages) is copied by checkpoints, long before a commit does it. What a
		// statement would have to undo stays in memory.
		"_pragma": {"busy_timeout(30000)", "journal_mode(WAL)", "synchronous(" + synchronous + ")", "foreign_keys(1)", cache(writerCache), "wal_autocheckpoint(20000)", "temp_store(2)"},
	})
}

// readDSN is the same for connections that only read, and copy the WAL.
func readDSN(path string) string {
	return uri(path, url.Values{"_pragma": {"busy_timeout(5000)", "synchronous(FULL)", "query_only(1)", cache(readerCache)}})
}

func cache(kib int) string { return fmt.Sprintf("cache_size(-%d)", kib) }

func uri(path string, query url.Values) string {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

// check reads the whole file once: a damaged database must show at the start,
// not in the middle of a session.
func (s *Store) check(ctx context.Context) error {
	var answer string
	if err := s.connect(ctx); err != nil {
		return s.wrap("open", err)
	}
	if err := s.writer.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&answer); err != nil {
		return s.wrap("check", err)
	}
	if answer != "ok" {
		return s.damaged(errors.New(answer))
	}
	var mode, file string
	if err := s.writer.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return s.wrap("open", err)
	}
	if err := s.writer.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file); err != nil {
		return s.wrap("open", err)
	}
	if mode != "wal" {
		return protocol.Errorf(protocol.CodeDataFolder, "the file system of the database %s keeps no WAL", s.path)
	}
	s.log = file + "-wal" // SQLite follows links
	return nil
}

// Times of connect.
const (
	busyFor   = 30 * time.Second // as busy_timeout
	busyAgain = 10 * time.Millisecond
)

// connect opens the writer's connection. Of several that make a new file a WAL
// database at one time, SQLite sends all but one away at once: to become its
// writer, each would give up what it has read of it, for which no busy_timeout
// waits, since two could wait for each other (sqlite3_busy_handler). They find it
// done a moment later.
func (s *Store) connect(ctx context.Context) error {
	for begun := time.Now(); ; {
		err := s.writer.Open(ctx)
		var e *sqlite.Error
		if err == nil || !errors.As(err, &e) || e.Code()&0xff != sqlite3.SQLITE_BUSY || time.Since(begun) > busyFor {
			return err
		}
		again := time.NewTimer(busyAgain)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		}
	}
}

func (s *Store) damaged(err error) error {
	return protocol.Errorf(protocol.CodeDataFolder,
		"the database %s is damaged (%w); restore it from a backup, or move it away to start with an empty one", s.path, err)
}

// Close writes what waits and ends the connections; the WAL is merged into the
// file by the last one.
func (s *Store) Close() error {
	s.once.Do(func() { close(s.stop) })
	<-s.copied
	s.endWrites()
	s.pen.Lock() // another one may close
	defer s.pen.Unlock()
	var errs []error
	views := make([]*direct.Conn, maxViews)
	for i := range views {
		views[i] = <-s.views
		errs = append(errs, views[i].Close())
	}
	for _, c := range views {
		s.views <- c // who comes later is told that the database is closed
	}
	errs = append(errs, s.writer.Close(), s.read.Close(), s.db.Close())
	return s.wrap("close", errors.Join(errs...))
}

// view runs f on a connection that only reads. f calls nothing of the store.
func (s *Store) view(ctx context.Context, f func(c *direct.Conn) error) error {
	c := <-s.views
	defer func() { s.views <- c }()
	if err := c.Open(ctx); err != nil {
		return err
	}
	return f(c)
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
