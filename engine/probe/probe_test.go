package probe

import (
	"strings"
	"testing"
)

func TestThisComputer(t *testing.T) {
	t.Parallel()
	h, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if h.Cores < 1 || h.MemoryBytes < 1<<28 || !strings.Contains(h.String(), "cores") {
		t.Errorf("host %+v (%s)", h, h)
	}
	m, err := ReadMemory()
	if err != nil {
		t.Fatal(err)
	}
	if m.AvailableBytes <= 0 || m.AvailableBytes > h.MemoryBytes || m.Pressure < 0 || m.Pressure > 1 {
		t.Errorf("memory %+v", m)
	}
	if n, err := FreeDisk(t.TempDir()); err != nil || n < 0 {
		t.Errorf("free disk %d, %v", n, err)
	}
}
