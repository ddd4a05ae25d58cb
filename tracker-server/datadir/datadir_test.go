package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"neuron/engine/protocol"
)

func wantCode(t *testing.T, err error, code protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: code}) {
		t.Fatalf("got %v, want code %s", err, code)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(path)
	wantCode(t, err, protocol.CodeAlreadyRunning)
	if err := d.WriteFile("x", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteFile("x", []byte("two")); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(d.File("x"))
	if err != nil || string(b) != "two" {
		t.Fatalf("got %q, %v", b, err)
	}
	d.Close()
	d, err = Open(path)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	entries, _ := os.ReadDir(path)
	if len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestOpenUnusable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", file, filepath.Join(file, "below"), "/proc/neuron-tracker"} {
		_, err := Open(path)
		wantCode(t, err, protocol.CodeDataFolder)
	}
}

func TestCoded(t *testing.T) {
	t.Parallel()
	wantCode(t, Coded(&os.PathError{Op: "write", Err: syscall.ENOSPC}, "op"), protocol.CodeDiskFull)
	wantCode(t, Coded(&os.PathError{Op: "open", Err: syscall.EACCES}, "op"), protocol.CodeDataFolder)
	own := protocol.Errorf(protocol.CodePortInUse, "x")
	wantCode(t, Coded(own, "op"), protocol.CodePortInUse)
	if Coded(nil, "op") != nil {
		t.Error("nil became an error")
	}
}

// TestShare: a command works in the folder of a running tracker.
func TestShare(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	_, err := Share(path, false)
	wantCode(t, err, protocol.CodeDataFolder)
	_, err = Share("", true)
	wantCode(t, err, protocol.CodeDataFolder)
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := Share(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteFile("x", []byte("one")); err != nil {
		t.Error(err)
	}
	var inside, most atomic.Int64 // the race detector does not see file locks
	done := make(chan error, 4)
	for range cap(done) {
		go func() {
			done <- s.Exclusive("x", func() error {
				if inside.Add(1) > 1 {
					most.Store(2)
				}
				runtime.Gosched()
				inside.Add(-1)
				return nil
			})
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if most.Load() > 1 {
		t.Error("two at once")
	}
	want := errors.New("mine")
	if err := s.Exclusive("x", func() error { return want }); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
	s.Close()
	_, err = Open(path)
	wantCode(t, err, protocol.CodeAlreadyRunning)
}
