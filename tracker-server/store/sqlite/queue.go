package sqlite

import (
	"slices"
	"time"
)

// lane holds operations in their order.
type lane struct {
	list []*write
	// pace is the least time between two groups with operations of this lane,
	// opens when the next one may begin.
	pace  time.Duration
	opens time.Time
}

// crowded is how many operations begin a group before its time.
const crowded = 16

// due is the time until a group may take from the lane.
func (l *lane) due(now time.Time) time.Duration {
	if len(l.list) >= crowded {
		return 0
	}
	return max(0, l.opens.Sub(now))
}

// take removes up to n operations. The lane is open until nothing is left in it,
// and then closed for its pace.
func (l *lane) take(n int, now time.Time) []*write {
	if n = min(n, len(l.list)); n == 0 {
		return nil
	}
	out := l.list[:n:n]
	l.opens = now
	if l.list = l.list[n:]; len(l.list) == 0 {
		l.list, l.opens = nil, now.Add(l.pace)
	}
	return out
}

// queue holds the operations that nobody has begun: those that cannot wait, and
// those that can (store.Later).
type queue struct{ first, later lane }

func (q *queue) empty() bool { return len(q.first.list)+len(q.later.list) == 0 }

// put adds an operation; true when it may change when the next group is due.
func (q *queue) put(w *write) bool {
	l := &q.first
	if w.later {
		l = &q.later
	}
	l.list = append(l.list, w)
	return len(l.list) == 1 || len(l.list) >= crowded
}

// due is the time until a group may begin, of a queue that is not empty.
func (q *queue) due(now time.Time) time.Duration {
	switch {
	case len(q.later.list) == 0:
		return q.first.due(now)
	case len(q.first.list) == 0:
		return q.later.due(now)
	}
	return min(q.first.due(now), q.later.due(now))
}

// overdue reports whether one that can wait has waited long enough.
func (q *queue) overdue(now time.Time) bool {
	return len(q.later.list) > 0 && now.Sub(q.later.list[0].since) > laterWaits
}

// leave removes an operation that nobody has begun.
func (q *queue) leave(w *write) bool {
	for _, l := range []*lane{&q.first, &q.later} {
		if i := slices.Index(l.list, w); i >= 0 {
			l.list = slices.Delete(slices.Clone(l.list), i, i+1) // parts of the old one may be in use
			return true
		}
	}
	return false
}
