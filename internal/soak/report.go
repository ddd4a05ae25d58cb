package soak

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"text/tabwriter"

	"neuron/engine/protocol"
	"neuron/internal/chaos"
)

// Report is what a run found.
type Report struct {
	// Set by the run's own goroutine.
	first, last map[int]figures
	leaked      int
	grown       []string

	mu         sync.Mutex
	counts     map[string]int        // guarded by mu
	failures   map[protocol.Code]int // guarded by mu
	blows      map[string]int        // guarded by mu
	fakes      []string              // false successes; guarded by mu
	violations []string              // guarded by mu
}

func newReport() *Report {
	return &Report{counts: map[string]int{}, failures: map[protocol.Code]int{}, blows: map[string]int{}}
}

func (r *Report) count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what]++
}

func (r *Report) blow(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blows[what]++
}

func (r *Report) violation(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

// wrong notes a false success.
func (r *Report) wrong(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fakes = append(r.fakes, fmt.Sprintf(format, args...))
}

// outcome judges a request to which the client listened to the end.
func (r *Report) outcome(ref *reference, a *chaos.Answer, err error) {
	var coded *protocol.Error
	switch {
	case errors.As(err, &coded):
		r.mu.Lock()
		r.failures[coded.Code]++
		r.mu.Unlock()
	case err != nil:
		r.wrong("%v", err)
	default:
		if bad := ref.check(a); bad != "" {
			r.wrong("%d bytes, %d sure of %d: %s", len(a.Text), ref.sure, len(ref.text), bad)
			return
		}
		r.count("completed")
	}
}

// Failed reports whether there was anything that must not be.
func (r *Report) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.fakes) > 0 || len(r.violations) > 0 || r.leaked > 0 || len(r.grown) > 0
}

// Write prints the table.
func (r *Report) Write(out io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	defer w.Flush()
	requests, failed := len(r.fakes), 0
	for _, n := range r.counts {
		requests += n
	}
	for _, n := range r.failures {
		failed += n
	}
	fmt.Fprintf(w, "requests\t%d\n", requests+failed)
	for _, k := range slices.Sorted(maps.Keys(r.counts)) {
		fmt.Fprintf(w, "  %s\t%d\n", k, r.counts[k])
	}
	fmt.Fprintf(w, "  structured failures\t%d\n", failed)
	for _, k := range slices.Sorted(maps.Keys(r.failures)) {
		fmt.Fprintf(w, "    %s\t%d\n", k, r.failures[k])
	}
	fmt.Fprintf(w, "  false successes\t%d\t(must be 0)\n", len(r.fakes))
	for _, k := range slices.Sorted(maps.Keys(r.blows)) {
		fmt.Fprintf(w, "%s\t%d\n", k, r.blows[k])
	}
	fmt.Fprintf(w, "leaked sessions\t%d\t(must be 0)\n", r.leaked)
	fmt.Fprintf(w, "grown\t%d\t(must be 0; beyond %d goroutines, %d files, %d MB of a surviving process)\n",
		len(r.grown), moreGoroutines, moreFiles, moreMemory>>20)
	fmt.Fprintf(w, "process\tgoroutines\topen files\tMB in RAM\n")
	for _, f := range slices.SortedFunc(maps.Values(r.last), func(a, b figures) int { return cmp.Compare(a.name, b.name) }) {
		if b, ok := r.first[f.pid]; ok {
			fmt.Fprintf(w, "  %s\t%d to %d\t%d to %d\t%d to %d\n", f.name, b.goroutines, f.goroutines, b.files, f.files, b.memory>>20, f.memory>>20)
		} else {
			fmt.Fprintf(w, "  %s (started again)\t%d\t%d\t%d\n", f.name, f.goroutines, f.files, f.memory>>20)
		}
	}
	for _, list := range [][]string{r.fakes, r.grown, r.violations} {
		for _, v := range list {
			fmt.Fprintf(w, "VIOLATION: %s\n", v)
		}
	}
}
