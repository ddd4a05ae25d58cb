package receipts

import (
	"sync"
	"time"

	"neuron/engine/protocol"
)

// What a node may send that is refused or known, before it has to wait. Work
// that is accepted is bounded by the leases; this bounds the processor time
// that signatures take. A node that lost its power sends some thousand again.
const (
	uselessBurst     = 4000
	uselessPerSecond = 50
	// maxLimits bounds the nodes that are remembered.
	maxLimits = 1 << 14
)

// limits counts what nodes send in vain.
type limits struct {
	now func() time.Time
	mu  sync.Mutex
	of  map[protocol.NodeID]debt
}

// debt is how much a node has used of its burst, at a time.
type debt struct {
	used float64
	at   time.Time
}

func (d debt) now(t time.Time) float64 {
	return max(0, d.used-max(0, t.Sub(d.at).Seconds())*uselessPerSecond)
}

// allow reports whether the node may send now.
func (l *limits) allow(id protocol.NodeID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[id].now(l.now()) < uselessBurst
}

// charge adds what was of no use.
func (l *limits) charge(id protocol.NodeID, n int) {
	if n == 0 {
		return
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = make(map[protocol.NodeID]debt)
	}
	if len(l.of) >= maxLimits {
		for k, d := range l.of {
			if d.now(now) == 0 {
				delete(l.of, k)
			}
		}
	}
	l.of[id] = debt{l.of[id].now(now) + float64(n), now}
}
