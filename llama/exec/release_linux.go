package exec

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ReleaseFiles gives up this process's pages of the stage's files. The library
// has read all weights by then; what it repacked into memory of its own it
// never reads from the file again, but the mapping would keep those pages
// resident. The mapping stays as it is, read-only and unchanged, so pages that
// are still needed come back from the page cache at their next use. It returns
// the bytes of the mappings.
func (s *Stage) ReleaseFiles() (int64, error) {
	names := map[string]bool{}
	for _, p := range s.cfg.Paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return 0, fmt.Errorf("release model files: %w", err)
		}
		// The kernel shows the file itself, not a link to it.
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			abs = real
		}
		names[abs] = true
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, fmt.Errorf("release model files: %w", err)
	}
	defer f.Close()
	var n int64
	var failed error
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		from, to, ok := readOnlyMapping(lines.Text(), names)
		if !ok {
			continue
		}
		// A clean page of a file is read again: nothing can be lost.
		if _, _, no := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); no != 0 {
			failed = errors.Join(failed, fmt.Errorf("release model files: %w", no))
			continue
		}
		n += int64(to - from)
	}
	return n, errors.Join(failed, lines.Err())
}

// readOnlyMapping reads a line of /proc/self/maps (proc_pid_maps(5)):
// "from-to perms offset device inode path".
func readOnlyMapping(line string, names map[string]bool) (from, to uintptr, ok bool) {
	fields := strings.Fields(line)
	at := strings.IndexByte(line, '/')
	if len(fields) < 6 || at < 0 || !names[line[at:]] || !strings.HasPrefix(fields[1], "r-") {
		return 0, 0, false
	}
	a, b, _ := strings.Cut(fields[0], "-")
	lo, err1 := strconv.ParseUint(a, 16, 64)
	hi, err2 := strconv.ParseUint(b, 16, 64)
	if err1 != nil || err2 != nil || hi <= lo {
		return 0, 0, false
	}
	return uintptr(lo), uintptr(hi), true
}
