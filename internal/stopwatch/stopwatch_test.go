package stopwatch

import (
	"testing"
	"time"
)

// TestFineAndTrue wants the watch to tell microseconds apart, which Windows'
// clock does not, and to agree with the clock over a longer time.
func TestFineAndTrue(t *testing.T) {
	w := Start()
	last, steps := time.Duration(0), 0
	var longest time.Duration
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		d := w.Elapsed()
		if d < last {
			t.Fatalf("went back from %v to %v", last, d)
		}
		if d > last {
			steps++
			longest = max(longest, d-last)
			last = d
		}
	}
	if steps < 500 {
		t.Errorf("%d steps in %v, the longest %v", steps, last, longest)
	}
	if d := w.Elapsed(); d < 30*time.Millisecond || d > 5*time.Second {
		t.Errorf("%v passed, the clock says 50 ms", d)
	}
}

func TestNeverNegative(t *testing.T) {
	t.Parallel()
	if d := (Watch{at: now() + time.Hour}).Elapsed(); d != 0 {
		t.Errorf("%v", d)
	}
}
