package stage_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"neuron/engine/seam"
	"neuron/engine/stage/wire"
)

// TestMemoryInLargePages: in small ones each step paid again for every page of
// the weights whenever the system had looked which pages are in use, and threads
// were given up for these steps (docs/decisions/0016).
func TestMemoryInLargePages(t *testing.T) {
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(mode), "[never]") {
		t.Skipf("SKIPPED: this kernel gives no large pages on request: %q, %v", mode, err)
	}
	// "glibc 2.36"; another C library has no such command, or says another name.
	libc, err := exec.Command("getconf", "GNU_LIBC_VERSION").Output()
	var major, minor int
	if n, _ := fmt.Sscanf(string(libc), "glibc %d.%d", &major, &minor); n != 2 || major == 2 && minor < 35 {
		t.Skipf("SKIPPED: the C library does not ask for large pages: %q, %v", libc, err)
	}
	// With small pages of 64 KiB a large one has 512 MiB.
	raw, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	if err != nil {
		t.Fatal(err)
	}
	size, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if size > 2<<20 {
		t.Skipf("SKIPPED: large pages have %d bytes here, too many for the guide's memory", size)
	}
	const cells = 8192
	p := start(t, layers(t, guidePath(), 0, 8), func(l *wire.Load) {
		l.MaxContext, l.KVBudget = cells, cells*l.KVBytesPerCell
	})
	mustOpen(t, p, func(o *seam.StageOpen) { o.Context = cells })
	if got := largePages(t, p.Pid()); got < size {
		t.Errorf("%d bytes of the stage are in large pages, with %d of KV memory", got, p.KVBudget())
	}
}

// largePages is how much of a process's own memory is in large pages.
func largePages(t *testing.T, pid int) int64 {
	t.Helper()
	all, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(all)) {
		rest, ok := strings.CutPrefix(line, "AnonHugePages:")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return kb << 10
	}
	t.Fatal("the kernel does not say how much is in large pages")
	return 0
}
