package shelf_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"neuron/engine/artifact/shelf"
	"neuron/engine/protocol"
	"neuron/internal/testdisk"
)

// fill takes all free space of a file system; the returned function gives it
// back.
func fill(t *testing.T, dir string) func() {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			break
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDiskLosesNothing: each step says disk_full, and goes on when there
// is room.
func TestFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	p := publish(t, variants()["untied"])
	rnd := rand.New(rand.NewPCG(8, 8))
	disk := testdisk.Mount(t, "size=4m")
	dir := filepath.Join(disk, "folder")
	r := protocol.Range{First: 2, Last: 9}
	full := func(step string, err error) {
		t.Helper()
		if code(err) != protocol.CodeDiskFull || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s on a full disk: %v", step, err)
		}
	}
	free := fill(t, disk)
	_, err := shelf.Open(dir, p.m, shelf.Options{})
	full("open", err)
	free()
	s := open(t, p, dir)
	s.SetKeepFree(4 << 20)
	_, err = s.Want([]protocol.Range{r})
	full("want", err)
	s.SetKeepFree(0)
	list := missing(s, want(t, s, r))
	free = fill(t, disk)
	_, err = s.WriteAt(list[0], p.piece(list[0]), 0)
	full("write", err)
	free()
	for _, i := range list {
		stage(t, p, s, i, rnd)
	}
	free = fill(t, disk)
	failed := 0
	for _, i := range list {
		if err := s.Commit(i); err != nil {
			failed++
			full("commit", err)
			if s.Complete(i) {
				t.Errorf("piece %d is complete", i)
			}
		}
	}
	if failed == 0 {
		t.Error("nothing failed on a full disk")
	}
	readsAs2(t, p, s, list)
	free()
	for _, i := range list {
		if err := s.Commit(i); err != nil {
			t.Errorf("commit %d when there is room: %v", i, err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameStore(t, p, dir, r)
	readsAs(t, p, s, rnd)
}

// readsAs2 reads pieces that are staged or complete.
func readsAs2(t *testing.T, p *model, s *shelf.Shelf, list []int) {
	t.Helper()
	for _, i := range list {
		got := make([]byte, len(p.piece(i)))
		if _, err := s.ReadAt(i, got, 0); err != nil || !p.ok(i, got) {
			t.Errorf("piece %d: %v", i, err)
		}
	}
}
