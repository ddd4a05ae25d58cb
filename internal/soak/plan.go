package soak

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Each stream of random numbers has a place of its own behind the seed, so
// that the plan of one does not hang on the speed of another.
func stream(seed, place uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, place)) }

// between draws a duration.
func between(r *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(r.Int64N(int64(b-a)+1))
}

// job is one request of the plan.
type job struct {
	ref    int // which reference
	stream bool
	// leave is when the client leaves; 0: it stays.
	leave time.Duration
	// stop makes the gateway cancel the answer at its first space.
	stop bool
	// pause comes before it.
	pause time.Duration
}

func nextJob(r *rand.Rand, refs int) job {
	j := job{ref: r.IntN(refs), stream: r.IntN(3) > 0, pause: between(r, 0, 60*time.Millisecond)}
	switch r.IntN(10) {
	case 0:
		j.leave = between(r, time.Millisecond, 40*time.Millisecond)
	case 1:
		j.leave = between(r, 20*time.Millisecond, 600*time.Millisecond)
	case 2:
		j.stop = true
	}
	return j
}

// blow is one thing that breaks.
type blow struct {
	after time.Duration // since the blow before was over
	what  string
	node  int
	lasts time.Duration // until an engine is started or thawed, or of the pressure
	cores int
}

// The blows.
const (
	killStage    = "kill stage"
	freezeStage  = "freeze stage"
	killEngine   = "kill engine"
	freezeEngine = "freeze engine"
	pressure     = "busy cores"
)

// survivor is the node whose engine is never killed, so that its figures can
// be compared from start to end.
const survivor = 0

func nextBlow(r *rand.Rand, nodes int) blow {
	b := blow{
		after: between(r, 500*time.Millisecond, 3*time.Second), node: r.IntN(nodes),
		what:  []string{killStage, killStage, freezeStage, killEngine, freezeEngine, pressure}[r.IntN(6)],
		lasts: between(r, 300*time.Millisecond, 5*time.Second), cores: 1 + r.IntN(3),
	}
	if b.what == killEngine && b.node == survivor {
		b.node = survivor + 1
	}
	return b
}

func (b blow) String() string {
	switch b.what {
	case pressure:
		return fmt.Sprintf("%s: %d for %s", b.what, b.cores, b.lasts.Round(time.Millisecond))
	case killEngine, freezeEngine:
		return fmt.Sprintf("%s %d for %s", b.what, b.node, b.lasts.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s %d", b.what, b.node)
}
