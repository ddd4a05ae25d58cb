package syserr_test

import (
	"os"
	"testing"

	"neuron/internal/syserr"
)

// TestFullDevice writes to a device that is always full.
func TestFullDevice(t *testing.T) {
	t.Parallel()
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("SKIPPED: no /dev/full: %v", err)
	}
	defer f.Close()
	if _, err := f.WriteString("x"); !syserr.DiskFull(err) {
		t.Errorf("%v is no full disk", err)
	}
}
