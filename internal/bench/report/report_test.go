package report

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPairsTakeTheMedianOfNeighbours(t *testing.T) {
	t.Parallel()
	var p Pairs
	for _, x := range [][2]time.Duration{{10, 20}, {100, 200}, {10, 1000}, {7, 14}} {
		p.Add(x[0], x[1])
	}
	if r, s := p.Ratio(), p.Speed(); r != 2 || s != 0.5 {
		t.Errorf("ratio %g, speed %g; want 2 and 0.5", r, s)
	}
}

// The spread leaves out as many pairs at each end as a coin thrown once for each
// of them falls on one side in less than 5 %.
func TestSpread(t *testing.T) {
	t.Parallel()
	for n, out := range map[int]int{1: 0, 2: 0, 4: 0, 5: 0, 7: 0, 8: 1, 10: 1, 11: 2, 12: 2, 13: 3, 24: 7} {
		var p Pairs
		for i := range n {
			p.Add(time.Duration(i+1), 1)
		}
		if low, high := p.Spread(); low != float64(1+out) || high != float64(n-out) {
			t.Errorf("of 1 to %d: %g to %g, want %d to %d", n, low, high, 1+out, n-out)
		}
	}
}

// A median that sorted what it was given took pairs apart: a ratio lay outside its
// own spread.
func TestMediansLeavePairsTogether(t *testing.T) {
	t.Parallel()
	var p Pairs
	for _, x := range []time.Duration{400, 100, 300, 200} {
		p.Add(x, x)
	}
	if m := Median(p.Base); m != 300 {
		t.Errorf("median %s", m)
	}
	Quantile(p.Other, 1)
	p.Other[0] *= 2 // of the first pair
	if low, high := p.Spread(); low != 0.5 || high != 1 || p.Speed() != 1 {
		t.Errorf("%g, %g to %g", p.Speed(), low, high)
	}
}

func TestSettled(t *testing.T) {
	t.Parallel()
	var p Pairs
	for _, x := range []time.Duration{100, 101, 99, 100} {
		p.Add(x, 100)
	}
	if p.Settled(1) {
		t.Error("settled by four pairs")
	}
	p.Add(100, 100)
	if !p.Settled(0.021) || p.Settled(0.019) {
		t.Errorf("spread of 0.02: settled to 0.021 %t, to 0.019 %t", p.Settled(0.021), p.Settled(0.019))
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	v := []time.Duration{5, 1, 4, 2, 3}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := Quantile(v, q); got != want {
			t.Errorf("quantile %g: %d, want %d", q, got, want)
		}
	}
}

func TestRewriteKeepsTheRest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "p.md")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := &Report{At: time.Unix(0, 0), Machine: "a machine", Version: "v", Llama: "l", CPU: "c", Out: io.Discard}
	r.Section("First")
	r.AtLeast("one", 0.5, 0.9, "note")
	r.AtMost("two", 1.5, 3, "", "")
	r.Section("Second", "load", "rate")
	r.Cells("four", "5.5")
	r.Section("First") // goes on
	r.Add(Row{Name: "three", Figure: "7 us"})
	write("head\n" + markBegin + "\nold\n" + markEnd + "\ntail\n")
	for range 2 { // a second time finds its own marks
		if err := r.Rewrite(path); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := string(raw)
	for _, want := range []string{"head\n" + markBegin, markEnd + "\ntail\n", "a machine",
		"| one | 0.500 | >= 0.90 | below | note |", "| two | 1.50 | <= 3 | ok |  |", "| three | 7 us |  |  |  |",
		"### First\n\n| figure | value | target |  | behind it |\n| --- | --- | --- | --- | --- |\n| one |", "### Second\n\n| load | rate |\n| --- | --- |\n| four | 5.5 |\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not once in\n%s", want, got)
		}
	}
	if strings.Contains(got, "old") {
		t.Error("the old table is still there")
	}
	write("no marks")
	if err := r.Rewrite(path); !errors.Is(err, errMarks) {
		t.Errorf("without marks: %v", err)
	}
}
