// Package lastwords keeps the end of what a child process wrote to its standard
// error, and finds the line in it that says why the child died.
//
// What starts child processes imports it (engine/stage, engine/swarm); it
// imports only the standard library.
package lastwords

import (
	"strings"
	"sync"
)

// Ring keeps the last bytes that were written to it. It is safe for concurrent
// use, and an io.Writer that never fails.
type Ring struct {
	most int

	mu  sync.Mutex
	buf []byte // guarded by mu
}

// New returns a Ring of at most so many bytes.
func New(most int) *Ring { return &Ring{most: most} }

// Write implements io.Writer.
func (r *Ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, p...)
	if over := len(r.buf) - r.most; over > 0 {
		r.buf = append(r.buf[:0], r.buf[over:]...)
	}
	return len(p), nil
}

// String is what is kept.
func (r *Ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.buf)
}

// longestFault bounds the line that Fault gives, in bytes; marks stand in lines that tell a death's reason: of ggml, of Go's runtime, of
// the system.
const longestFault = 300

var marks = []string{"GGML_ASSERT", "fatal error:", "panic:", "SIGSEGV", "SIGBUS"}

// Fault is the last line that tells why the child died, or "". Other lines are
// not for logs: libllama prints grammars, which belong to a request, and
// BitTorrent addresses.
func (r *Ring) Fault() string {
	found := ""
	for line := range strings.Lines(r.String()) {
		for _, mark := range marks {
			if strings.Contains(line, mark) {
				found = strings.TrimSpace(line)
			}
		}
	}
	return found[:min(len(found), longestFault)]
}
