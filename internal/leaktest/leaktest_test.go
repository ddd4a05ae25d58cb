package leaktest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// recorder is a testing.TB that keeps what Check reports.
type recorder struct {
	testing.TB
	cleanup []func()
	errors  []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }
func (r *recorder) Errorf(f string, a ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, a...))
}

func leakyWait(c chan struct{}) { <-c }

func TestCheckFindsALeak(t *testing.T) {
	r := &recorder{TB: t}
	check(r, 50*time.Millisecond)
	release := make(chan struct{})
	defer close(release)
	go leakyWait(release)
	r.cleanup[0]()
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "leakyWait") {
		t.Fatalf("reports: %q", r.errors)
	}
}

func TestCheckWaitsForTheEnd(t *testing.T) {
	r := &recorder{TB: t}
	Check(r)
	c := make(chan struct{})
	go leakyWait(c)
	close(c)
	r.cleanup[0]()
	if len(r.errors) != 0 {
		t.Fatalf("reports: %q", r.errors)
	}
}
