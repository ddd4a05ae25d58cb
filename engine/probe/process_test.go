//go:build unix

package probe

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestProcessMemory lets this process grow by a known amount.
func TestProcessMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only Linux tells anonymous memory exactly")
	}
	before := ProcessMemory(os.Getpid())
	if before.Anonymous <= 0 || before.File <= 0 {
		t.Fatalf("%+v", before)
	}
	const size = 64 << 20
	// Mapped, not from Go's heap: the race detector shadows the heap.
	held, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(held)
	for i := 0; i < size; i += 4096 {
		held[i] = 1
	}
	grown := ProcessMemory(os.Getpid()).Anonymous - before.Anonymous
	if grown < size*9/10 || grown > size*11/10 {
		t.Errorf("grew by %d bytes, want %d", grown, size)
	}
	if r := ProcessMemory(-1, 1<<30); r != (Resident{}) {
		t.Errorf("processes that are not there have %+v", r)
	}
	if r := ProcessMemory(os.Getpid(), -1); r.Anonymous <= 0 {
		t.Errorf("an ended process hides another: %+v", r)
	}
	if _, err := os.Stat(filepath.Join("/proc", "self", "smaps_rollup")); err != nil {
		t.Error(err)
	}
}

func TestParseRollup(t *testing.T) {
	t.Parallel()
	got, err := parseRollup("00400000-7fff000 ---p 00000000 00:00 0 [rollup]\nRss:  300 kB\nAnonymous:   100 kB\nLazyFree: 0 kB\n")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Resident{Anonymous: 100 << 10, File: 200 << 10}, got); d != "" {
		t.Error(d)
	}
	for _, text := range []string{"", "Rss: 1 kB\n", "Rss: 1 kB\nAnonymous: 2 kB\n", "Rss: x kB\nAnonymous: 0 kB\n", "Rss: -1 kB\nAnonymous: 0 kB\n"} {
		if _, err := parseRollup(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
