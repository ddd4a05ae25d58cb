package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/server"
	"neuron/tracker-server/store/sqlite"
)

// TestBackupOfARunningTracker: while the books are written all the time, each
// backup holds one moment of them, and a tracker starts from it with the same
// identity.
func TestBackupOfARunningTracker(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s, err := server.New(server.Options{Listen: "127.0.0.1:0", Data: data})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- s.Run(ctx) }()
	// A second writer, as the publishing commands are one.
	db, err := sqlite.Open(t.Context(), filepath.Join(data, databaseFile))
	if err != nil {
		t.Fatal(err)
	}
	books, err := ledger.Open(t.Context(), db, ledger.Config{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	writing, enough := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := books.AddClient(writing, "somebody"); err != nil {
				if writing.Err() != nil {
					err = nil
				}
				done <- err
				return
			}
		}
	}()
	for range 3 {
		dir := t.TempDir()
		file := filepath.Join(dir, "tracker.tar")
		var out bytes.Buffer
		if c := run(t.Context(), []string{"backup", file, "--data", data}, &out, &out); c != 0 {
			t.Fatalf("backup: %d %s", c, out.String())
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the backup: %v, %v", info, err)
		}
		if c := run(t.Context(), []string{"backup", file, "--data", data}, &out, &out); c != 1 || !strings.Contains(out.String(), "is there already") {
			t.Errorf("onto a file: %d %s", c, out.String())
		}
		restored := filepath.Join(dir, "restored")
		unpack(t, file, restored)
		again, err := server.New(server.Options{Listen: "127.0.0.1:0", Data: restored})
		if err != nil {
			t.Fatal(err)
		}
		if !again.Key().Equal(s.Key()) {
			t.Error("the restored tracker has another key")
		}
		if err := again.Close(t.Context()); err != nil {
			t.Error(err)
		}
		check(t, filepath.Join(restored, databaseFile))
		left, err := filepath.Glob(filepath.Join(dir, ".neuron-backup-*"))
		if err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	enough()
	stop()
	for range 2 {
		if err := <-done; err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	if c := run(t.Context(), []string{"backup", filepath.Join(t.TempDir(), "x"), "--data", filepath.Join(t.TempDir(), "nothing")}, &out, &out); c != 1 || !strings.Contains(out.String(), string(protocol.CodeDataFolder)) {
		t.Errorf("of no folder: %d %s", c, out.String())
	}
}

func check(t *testing.T, database string) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	books, err := ledger.Open(t.Context(), db, ledger.Config{Now: time.Now})
	if err == nil {
		err = books.Check(t.Context())
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Error(err)
	}
}

func unpack(t *testing.T, file, to string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(h.Name)), raw, h.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}
