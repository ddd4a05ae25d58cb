// Package governor decides how many threads a stage computes with while the
// computer's owner works on it. It is pure: times and loads in, a number out.
//
// Only engine/stage/worker imports it; it imports the standard library alone.
package governor

import (
	"slices"
	"time"
)

// Governor decides how many threads a call gets. ggml's workers meet at
// barriers and spin: with a busy program on each core two threads fall far
// behind one (measured: steps of seconds), so threads are given only while
// cores are free, and taken away at the first slow step.
//
// It has no clock of its own and starts nothing; the owner asks and tells.
type Governor struct {
	most  int // threads that the settings allow
	cores int

	// foreign is the newest reading of cores that other programs keep busy,
	// quietSince since when it has left room for a thread more.
	foreign    float64
	quietSince time.Time

	threads int
	// calmUntil: no raise before; set by slow steps.
	calmUntil time.Time
	penalty   time.Duration

	// steps are the newest times of steps of the same kind, for the median.
	steps map[stepKind][]time.Duration
	// best are the fastest steps with one thread, by rows; that of one row is
	// the promise to the tracker.
	best map[int]time.Duration
	// late counts slow steps in a row with one thread.
	late int
	busy bool
}

// stepKind are the decode calls whose times can be compared.
type stepKind struct{ threads, rows int }

const (
	// quietTime must pass with a core free before a thread is added.
	quietTime = time.Second
	// slowFactor over the median makes a step slow, busyFactor over the best
	// makes it late.
	slowFactor = 3
	busyFactor = 3
	// lateSteps in a row with one thread mean that the host is busy.
	lateSteps = 8
	// medianOf is the number of steps remembered per thread count.
	medianOf = 33
	// medianFrom is how many are needed before a step can be called slow.
	medianFrom = 5

	firstPenalty = time.Second
	mostPenalty  = 30 * time.Second
	// freeCore is how much of a core others may use that is still called free.
	freeCore = 0.3
)

// New makes a governor for at most so many threads on so many cores; it begins
// with one thread.
func New(most, cores int) *Governor {
	return &Governor{most: max(1, most), cores: max(1, cores), threads: 1, penalty: firstPenalty, steps: map[stepKind][]time.Duration{}, best: map[int]time.Duration{}}
}

// room is the number of threads that free cores allow, at least one.
func (g *Governor) room() int {
	busy := int(g.foreign)
	if g.foreign-float64(busy) > freeCore {
		busy++
	}
	return min(g.most, max(1, g.cores-busy))
}

// Load takes a reading of foreign load, in cores that other programs keep busy.
func (g *Governor) Load(now time.Time, foreign float64) {
	g.foreign = foreign
	if g.room() <= g.threads {
		g.quietSince = time.Time{}
	} else if g.quietSince.IsZero() {
		g.quietSince = now
	}
	if g.busy && g.cores-int(foreign+1-freeCore) >= 1 {
		g.busy, g.late = false, 0
	}
}

// Next is the number of threads for the call that starts now.
func (g *Governor) Next(now time.Time) int {
	room := g.room()
	switch {
	case room < g.threads:
		g.threads = room
	case room > g.threads && !g.quietSince.IsZero() && now.Sub(g.quietSince) >= quietTime && now.After(g.calmUntil):
		g.threads = room
		g.quietSince = time.Time{}
	}
	return g.threads
}

// Step tells how long a decode call of so many rows took with the threads of
// Next.
func (g *Governor) Step(now time.Time, took time.Duration, rows int) {
	kind := stepKind{g.threads, rows}
	past := g.steps[kind]
	if len(past) >= medianFrom && took > slowFactor*median(past) && g.threads > 1 {
		// Barriers wait for a core that somebody else has.
		g.threads = 1
		g.quietSince = time.Time{}
		g.calmUntil = now.Add(g.penalty)
		g.penalty = min(2*g.penalty, mostPenalty)
		return
	}
	if len(past) == medianOf {
		past = append(past[:0], past[1:]...)
	}
	g.steps[kind] = append(past, took)
	if g.threads > 1 {
		if len(past) == medianOf-1 {
			g.penalty = firstPenalty // a calm run forgives
		}
		return
	}
	best, known := g.best[rows]
	if !known || took < best {
		best, g.best[rows] = took, took
	}
	if took > busyFactor*best {
		g.late++
	} else {
		g.late = 0
	}
	if g.late >= lateSteps {
		g.busy = true
	}
}

// HostBusy reports that even one thread misses the promised step time.
func (g *Governor) HostBusy() bool { return g.busy }

func median(v []time.Duration) time.Duration {
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}
