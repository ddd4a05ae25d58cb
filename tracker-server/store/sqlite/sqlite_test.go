package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite/direct"
	"neuron/tracker-server/store/storetest"
)

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSuite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Opener {
		path := filepath.Join(t.TempDir(), "with space%.db")
		return func(t *testing.T) store.Store { return open(t, path) }
	})
}

func TestDSN(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/var/lib/neuron/t.db":       "file:///var/lib/neuron/t.db?",
		"/with space?/100%/#.db":     "file:///with%20space%3F/100%25/%23.db?",
		"C:/Users/A B/Neuron/t.db":   "file:///C:/Users/A%20B/Neuron/t.db?",
		"//server/share/neuron/t.db": "file:////server/share/neuron/t.db?",
		"/a/\u00e4/t.db":             "file:///a/%C3%A4/t.db?",
	} {
		if got := dsn(path, "NORMAL"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s...", path, got, want)
		}
	}
}

// TestPageCachesAreSmall: SQLite's own 2 MB for each of all connections that
// read, and 16 MB to write, made the tracker's memory grow with its database.
func TestPageCachesAreSmall(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "t.db"))
	defer s.Close()
	size := func(row interface{ Scan(...any) error }) (kib int64) {
		t.Helper()
		if err := row.Scan(&kib); err != nil || kib >= 0 {
			t.Fatalf("a cache of %d pages, %v", kib, err)
		}
		return -kib
	}
	const q = "PRAGMA cache_size"
	sum := size(s.writer.QueryRowContext(t.Context(), q))
	if sum != writerCache {
		t.Errorf("the writer's cache has %d KiB", sum)
	}
	var kib int64
	if err := s.view(t.Context(), func(c *direct.Conn) error {
		kib = size(c.QueryRowContext(t.Context(), q))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if other := size(s.read.QueryRowContext(t.Context(), q)); other != kib {
		t.Errorf("the caches of two readers have %d and %d KiB", kib, other)
	}
	sum += (maxViews + readers) * kib
	if sum > 8<<10 {
		t.Errorf("all caches have %d KiB", sum)
	}
}

func wantCode(t *testing.T, err error, code protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: code}) {
		t.Fatalf("got %v, want code %s", err, code)
	}
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.db")
	s := open(t, path)
	for i := range 200 {
		x := store.Session{ID: protocol.SessionID(fmt.Sprint(i)), Lease: []byte(strings.Repeat("x", 500)), Issued: time.Unix(1, 0)}
		if err := s.AddSession(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"text":      []byte(strings.Repeat("not a database\n", 1000)),
		"truncated": whole[:len(whole)/2],
		"zeroed":    append(append([]byte{}, whole[:4096]...), make([]byte, len(whole)-4096)...),
	} {
		t.Run(name, func(t *testing.T) {
			bad := filepath.Join(t.TempDir(), "t.db")
			if err := os.WriteFile(bad, b, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), bad)
			wantCode(t, err, protocol.CodeDataFolder)
			if !strings.Contains(err.Error(), "damaged") {
				t.Errorf("the message does not help: %v", err)
			}
		})
	}
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.db")
	s := open(t, path)
	defer s.Close()
	all, err := loadMigrations(migrations)
	if err != nil {
		t.Fatal(err)
	}
	next := append(append([]migration{}, all...), migration{version: len(all) + 1, name: "x.sql", sql: "CREATE TABLE extra (a TEXT); INSERT INTO extra VALUES ('1')", sum: "1"})
	broken := append(append([]migration{}, next...), migration{version: len(next) + 1, name: "y.sql", sql: "CREATE TABLE half (a TEXT); CREATE GARBAGE", sum: "2"})
	if err := s.apply(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(t.Context(), broken); err == nil {
		t.Fatal("a broken migration passed")
	}
	if _, err := s.read.Exec("SELECT * FROM half"); err == nil {
		t.Error("half of a migration stayed")
	}
	if err := s.apply(t.Context(), next); err != nil {
		t.Errorf("again: %v", err)
	}
	wantCode(t, s.apply(t.Context(), all), protocol.CodeDataFolder) // written by a newer build
	changed := append([]migration{}, next...)
	changed[0].sum = "other"
	wantCode(t, s.apply(t.Context(), changed), protocol.CodeDataFolder)
	if _, err := loadMigrations(fstest.MapFS{"migrations/0002_x.sql": {}}); err == nil {
		t.Error("a gap passed")
	}
}

// TestKilled kills a process that writes without pause and checks that
// everything it had reported as written is there.
func TestKilled(t *testing.T) {
	if path := os.Getenv("NEURON_STORE_WRITER"); path != "" {
		s, err := Open(context.Background(), path)
		for i := 0; err == nil; i++ {
			err = s.AddSession(context.Background(), store.Session{ID: protocol.SessionID(fmt.Sprint(i)), Issued: time.Unix(1, 0)})
			if _, e := s.NodeConnected(context.Background(), store.Node{ID: "n"}); e != nil {
				err = e
			}
			fmt.Println(i)
		}
		fmt.Println("error", err)
		return
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.db")
	written := 0
	for range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "NEURON_STORE_WRITER="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n < 20 && lines.Scan(); n++ {
			if _, err := fmt.Sscan(lines.Text(), &written); err != nil {
				break // the second writer finds session 0 and stops
			}
		}
		_ = cmd.Process.Kill() // SIGKILL, in the middle of a write
		_ = cmd.Wait()
		s := open(t, path)
		all, err := s.Sessions(t.Context(), 1_000_000)
		if err != nil || len(all) < written+1 {
			t.Fatalf("%d sessions of %d, %v", len(all), written+1, err)
		}
		if e, err := s.NodeConnected(t.Context(), store.Node{ID: "n"}); err != nil || e < uint64(written+2) {
			t.Fatalf("epoch %d after %d, %v", e, written+1, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// fieldMigrations are the checksums of what databases out there were made by.
var fieldMigrations = []string{
	"7af4f3711c63da2ac2ea274584b9c8f039fab3b8cff76c61e7babdcb865401ad",
	"1b01db77a9673d8d9d14183c8881cf1066ffcb9b6aa0a9b67f6ca9c72a772ece",
	"f44e6f9f14ed26db791d565487a6a075bc1404eb82f516538ba3ca4f4ec6fc93",
}

// TestOlderSchema opens a database that was written before there was a
// catalog: what it held is still there, and the catalog works.
func TestOlderSchema(t *testing.T) {
	t.Parallel()
	all, err := loadMigrations(migrations)
	if err != nil {
		t.Fatal(err)
	}
	// These are in the field: they may never change.
	for i, sum := range fieldMigrations {
		if all[i].sum != sum {
			t.Fatalf("migration %s has checksum %s", all[i].name, all[i].sum)
		}
	}
	for n := 1; n < len(all); n++ {
		t.Run(all[n-1].name, func(t *testing.T) {
			t.Parallel()
			fromSchema(t, all[:n])
		})
	}
}

// fromSchema makes a database as a build with these migrations left it, and
// opens it with this one.
func fromSchema(t *testing.T, old []migration) {
	path := filepath.Join(t.TempDir(), "t.db")
	db, err := sql.Open("sqlite", dsn(filepath.ToSlash(path), "NORMAL"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	then := newStore(db, path, Options{})
	if err := then.apply(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		x := store.Session{ID: protocol.SessionID(fmt.Sprint(i)), Name: "guide", Lease: []byte(`{}`), Issued: time.Unix(int64(i+1), 0)}
		if err := then.AddSession(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		if _, err := then.NodeConnected(t.Context(), store.Node{ID: "n", LastSeen: time.Unix(5, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	then.endWrites()
	if err := errors.Join(then.writer.Close(), then.db.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second opening finds nothing to do
		s := open(t, path)
		live, err := s.LiveSessions(t.Context())
		if err != nil || len(live) != 3 || live[2].Name != "guide" {
			t.Errorf("sessions: %+v, %v", live, err)
		}
		nodes, err := s.Nodes(t.Context(), 10)
		if err != nil || len(nodes) != 1 || nodes[0].Epoch != 3 {
			t.Errorf("nodes: %+v, %v", nodes, err)
		}
		if _, err := s.Publish(t.Context(), storetest.Model(1)); err != nil {
			t.Error(err)
		}
		if list, err := s.Catalog(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("catalog: %v, %v", list, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMigratedByTwo opens an old database from several sides at once, as a
// tracker and a publishing command of a new build do.
func TestMigratedByTwo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.db")
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			s, err := Open(context.Background(), path)
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestWritesShareATransaction: operations of many callers, some of which fail
// after they wrote, leave exactly what the good ones wrote, and reads see it as
// soon as a caller is told.
func TestWritesShareATransaction(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	bad := errors.New("no")
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for j := range 10 {
				id := fmt.Sprintf("%d-%d", i, j)
				err := s.inTx(t.Context(), "test", func(ctx context.Context, tx *txn) error {
					if _, err := tx.ExecContext(ctx, `INSERT INTO nodes (id, role, addr, host, engine, llama, first_seen, last_seen) VALUES (?, 'node', '', '', '', '', 0, 0)`, id); err != nil {
						return err
					}
					if j%3 == 1 {
						return bad
					}
					if j%3 == 2 { // the same row again: the statement fails
						_, err := tx.ExecContext(ctx, `INSERT INTO nodes SELECT * FROM nodes WHERE id = ?`, id)
						return err
					}
					return nil
				})
				var n int
				if qerr := s.read.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM nodes WHERE id = ?`, id).Scan(&n); qerr != nil {
					t.Error(qerr)
				}
				if want := j % 3; (want == 0) != (err == nil) || (want == 0) != (n == 1) || want == 1 && !errors.Is(err, bad) {
					t.Errorf("%s: %v, %d rows", id, err, n)
				}
			}
		})
	}
	wg.Wait()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.inTx(ended, "test", func(context.Context, *txn) error { t.Error("it ran"); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
