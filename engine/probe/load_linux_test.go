package probe

import (
	"testing"
	"time"

	"github.com/shirou/gopsutil/v3/cpu"
)

func TestBusyTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want uint64
		ok   bool
	}{
		{"cpu  1 20 300 4000 50000 600000 7000000 80000000 1 1\ncpu0 1 1\n", 87600321, true},
		{"cpu 1 2 3 4 5 6 7 8\n", 27, true},
		{"cpu  0 0 0 0 0 0 0 0 0 0\n", 0, true},
		{"cpu  1 2 3 4 5 6 7 8 9 10", 0, false}, // cut off, maybe within a number
		{"cpu  1 2 3 4 5 6 7\n", 0, false},
		{"cpu  1 2 x 4 5 6 7 8\n", 0, false},
		{"cpu  1 2 3y 4 5 6 7 8\n", 0, false},
		{"cpu  -1 2 3 4 5 6 7 8\n", 0, false},
		{"cpu  1 2 3 4 5 6 7 99999999999999999999\n", 0, false},
		{"cpu0 1 2 3 4 5 6 7 8\n", 0, false},
		{"", 0, false},
	} {
		if got, ok := busyTicks([]byte(c.text)); got != c.want || ok != c.ok {
			t.Errorf("%q: %d, %v; want %d, %v", c.text, got, ok, c.want, c.ok)
		}
	}
}

// What we read ourselves is what gopsutil, which other systems use, reads.
func TestBusyTimeIsThatOfGopsutil(t *testing.T) {
	c, err := newClocks()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	sum := func() float64 {
		all, err := cpu.Times(false)
		if err != nil {
			t.Fatal(err)
		}
		x := all[0]
		return x.User + x.Nice + x.System + x.Irq + x.Softirq + x.Steal
	}
	before := sum()
	busy, _, err := c.read()
	if err != nil {
		t.Fatal(err)
	}
	if after := sum(); busy < before-0.001 || busy > after+0.001 {
		t.Errorf("busy for %f s, gopsutil says %f to %f", busy, before, after)
	}
}

// A stage that has nothing to do read its load with over thirty system calls
// twice a second, which were most of what it cost.
func TestReadingLoadMakesNoGarbage(t *testing.T) {
	s, err := NewLoadSampler()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := testing.AllocsPerRun(100, func() {
		if _, err := s.Foreign(); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("a reading makes %v objects", n)
	}
}

// Every reading is a new one, though the file stays open.
func TestReadingsMoveOn(t *testing.T) {
	s, err := NewLoadSampler()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	busy, spent := s.busy, s.spent
	for s.spent < spent+0.1 { // not by the clock: the machine may be full
		for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
		}
		if _, err := s.Foreign(); err != nil {
			t.Fatal(err)
		}
		if s.Own() <= 0 {
			t.Errorf("a busy loop used %f cores", s.Own())
		}
	}
	if s.busy < busy+0.05 {
		t.Errorf("all cores were busy for %f s, this process alone for %f s", s.busy-busy, s.spent-spent)
	}
}
