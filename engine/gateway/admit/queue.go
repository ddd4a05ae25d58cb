package admit

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// Queue admits a bounded number of requests at a time, first come first
// served, and lets a bounded number wait. It starts no goroutine.
type Queue struct {
	// Constant.
	maxRunning int
	maxWaiting int
	now        func() time.Time

	mu      sync.Mutex
	running int
	waiting []*Ticket
	usual   time.Duration // how long a request runs: a moving average
}

// Ticket is one request's place. Its owner must call Leave.
type Ticket struct {
	q     *Queue
	ready chan struct{} // closed when the request may run

	// Under q.mu.
	admitted bool
	left     bool
	began    time.Time // when it was admitted
}

// NewQueue returns a queue that lets maxRunning requests run and maxWaiting wait
// (negative: none).
func NewQueue(maxRunning, maxWaiting int, now func() time.Time) *Queue {
	return &Queue{maxRunning: maxRunning, maxWaiting: maxWaiting, now: now}
}

// Ready is closed when the request may run.
func (t *Ticket) Ready() <-chan struct{} { return t.ready }

// Join returns a ticket, or a 429 when too many wait already.
func (q *Queue) Join() (*Ticket, *protocol.Error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &Ticket{q: q, ready: make(chan struct{})}
	switch {
	case q.running < q.maxRunning && len(q.waiting) == 0:
		q.admitLocked(t)
	case len(q.waiting) < q.maxWaiting:
		q.waiting = append(q.waiting, t)
	default:
		return nil, protocol.Errorf(protocol.CodeRateLimited, "%d requests run and %d wait already", q.running, len(q.waiting)).
			With("retry_after", strconv.Itoa(q.retryLocked())).With("waiting", strconv.Itoa(len(q.waiting)))
	}
	return t, nil
}

// Bounds of Retry-After, in seconds, and what it says before anything is known.
const (
	retryLeast   = 1
	retryMost    = 60
	retryUnknown = 5
)

// retryLocked is after how many seconds there will be a place: when one of
// the running requests has ended, as far as the last ones tell.
func (q *Queue) retryLocked() int {
	if q.usual == 0 {
		return retryUnknown
	}
	return min(max(int(math.Ceil(q.usual.Seconds()/float64(q.maxRunning))), retryLeast), retryMost)
}

func (q *Queue) admitLocked(t *Ticket) {
	t.began = q.now()
	q.running++
	t.admitted = true
	close(t.ready)
}

// Position is 1 for the next to run, 0 when it runs.
func (t *Ticket) Position() int {
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	return slices.Index(t.q.waiting, t) + 1
}

// Leave gives the place back; idempotent.
func (t *Ticket) Leave() {
	q := t.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.left {
		return
	}
	t.left = true
	if !t.admitted {
		q.waiting = slices.DeleteFunc(q.waiting, func(o *Ticket) bool { return o == t })
		return
	}
	q.running--
	if took := q.now().Sub(t.began); q.usual == 0 {
		q.usual = took
	} else {
		q.usual += (took - q.usual) / 8
	}
	for q.running < q.maxRunning && len(q.waiting) > 0 {
		next := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.admitLocked(next)
	}
}

// Counts is the number of running and of waiting requests.
func (q *Queue) Counts() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running, len(q.waiting)
}
