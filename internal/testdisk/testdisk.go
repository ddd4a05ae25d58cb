// Package testdisk gives tests a small file system of their own, to fill or to
// find read-only. Tests import it; no product code does.
package testdisk

import (
	"os"
	"os/exec"
	"testing"
)

// Mount mounts a tmpfs with options ("size=24m") on a new folder until the test
// ends, or skips the test where that is not possible.
func Mount(t testing.TB, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: mounting a small file system needs root")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "neuron-test", dir).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no tmpfs can be mounted here: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return dir
}
