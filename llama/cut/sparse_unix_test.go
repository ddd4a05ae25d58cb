//go:build unix

package cut_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestStandInsTakeNoSpace: tensors that a stage never reads are holes.
func TestStandInsTakeNoSpace(t *testing.T) {
	t.Parallel()
	sh := shape()
	sh.Vocab = 200_000 // an output matrix of some 3 MB
	s := imported(t, open(t, write(t, sh)), t.TempDir(), 0, 10)
	p := prepared(t, s, 0, 4)
	st, err := os.Stat(filepath.Join(s.Dir(), "standin-0-4.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() < 3<<20 {
		t.Fatalf("the stand-in has %d bytes", st.Size())
	}
	if used := st.Sys().(*syscall.Stat_t).Blocks * 512; used > 2*64<<10 {
		t.Errorf("the stand-in takes %d of its %d bytes", used, st.Size())
	}
	p.Release()
}
