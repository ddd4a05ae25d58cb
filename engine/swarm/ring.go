package swarm

import "sync"

// ring keeps the last bytes that were written to it: a child's stderr, which
// has addresses and paths at most.
type ring struct {
	mu   sync.Mutex
	buf  []byte // guarded by mu
	most int
}

func newRing(most int) *ring { return &ring{most: most} }

// Write implements io.Writer and never fails.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, p...)
	if over := len(r.buf) - r.most; over > 0 {
		r.buf = append(r.buf[:0], r.buf[over:]...)
	}
	return len(p), nil
}

// String is what is kept.
func (r *ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.buf)
}
