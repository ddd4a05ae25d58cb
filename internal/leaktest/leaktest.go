// Package leaktest finds goroutines that outlive the test that started them.
//
// Any test may import it. It compares all goroutines of the process, so a test
// that uses it must not run in parallel with others.
package leaktest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// Patience is how long Check waits for goroutines to end. net/http keeps a
// closing connection for half a second to avoid a reset.
const Patience = 5 * time.Second

// Check remembers the goroutines that run now and, when the test and its later
// cleanups are over, fails it if others are still there after Patience. Call
// it first in a test.
func Check(t testing.TB) {
	t.Helper()
	check(t, Patience)
}

func check(t testing.TB, patience time.Duration) {
	t.Helper()
	before := map[string]bool{}
	for _, g := range stacks() {
		before[g.id] = true
	}
	t.Cleanup(func() {
		deadline := time.Now().Add(patience)
		for {
			var leaked []goroutine
			for _, g := range stacks() {
				if !before[g.id] && !g.ours() {
					leaked = append(leaked, g)
				}
			}
			if len(leaked) == 0 {
				return
			}
			if time.Now().After(deadline) {
				for _, g := range leaked {
					t.Errorf("goroutine outlived the test:\n%s", g.text)
				}
				return
			}
			time.Sleep(10 * time.Millisecond) // polling, bounded by patience
		}
	})
}

type goroutine struct {
	id   string
	text string
}

// ours tells goroutines of the testing package and of the runtime, which come
// and go by themselves.
func (g goroutine) ours() bool {
	for _, s := range []string{
		"testing.tRunner(", "testing.(*T).Run(", "testing.(*M).", "testing.runTests",
		"runtime.goexit0", "runtime.ensureSigM", "os/signal.signal_recv", "created by runtime.",
		"leaktest.stacks(",
	} {
		if strings.Contains(g.text, s) {
			return true
		}
	}
	return false
}

// stacks lists all goroutines; a block begins with "goroutine ID [state]:".
func stacks() []goroutine {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	var out []goroutine
	for _, text := range strings.Split(string(buf), "\n\n") {
		rest, ok := strings.CutPrefix(text, "goroutine ")
		if !ok {
			continue
		}
		id, _, _ := strings.Cut(rest, " ")
		out = append(out, goroutine{id: id, text: text})
	}
	return out
}
