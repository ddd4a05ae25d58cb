package bench

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// An idle stage was measured in steps of 10 ms, an eighth of a percent of the
// time that it was watched.
func TestProcessorTimeIsFine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only Linux tells it finely")
	}
	before, err := spent(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for time.Since(began) < 3*time.Millisecond {
	}
	after, err := spent(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if d := after - before; d <= 0 || d%(10*time.Millisecond) == 0 {
		t.Errorf("%s of work counted as %s", 3*time.Millisecond, d)
	}
	if _, err := spent(1 << 22); err == nil {
		t.Error("a process that does not exist has computed")
	}
}
