package worker

import (
	"log/slog"
	"math"
	"time"

	"neuron/engine/probe"
)

const (
	// sampleEvery is how often foreign load is read while the stage computes, in
	// place of pingEvery.
	sampleEvery = 500 * time.Millisecond
	// computing is the share of a core from which a stage does; an idle one needs
	// a hundredth at most.
	computing = 0.05
	// sameLoad is how many cores a reading differs from the one before without
	// saying anything new.
	sameLoad = 0.1
)

// foreign gives the owner readings of how busy other programs keep the computer.
// The writer uses it.
type foreign struct {
	log   *slog.Logger
	loads chan float64
	from  *probe.LoadSampler // nil where it cannot be read
	told  float64            // the newest reading that the owner got
}

func (w *Worker) newForeign() *foreign {
	l := &foreign{log: w.log, loads: w.loads, told: math.Inf(1)}
	var err error
	if l.from, err = probe.NewLoadSampler(); err != nil {
		l.log.Warn("Foreign load cannot be read", "error", err)
		l.from = nil
	}
	return l
}

func (l *foreign) close() {
	if l.from != nil {
		l.from.Close()
	}
}

// sample gives the owner a reading, which replaces one that was not taken yet,
// and returns the time until the next one.
func (l *foreign) sample() time.Duration {
	if l.from == nil {
		return pingEvery
	}
	v, err := l.from.Foreign()
	if err != nil {
		l.log.Warn("Foreign load cannot be read", "error", err)
		l.from.Close()
		l.from = nil
		return pingEvery
	}
	idle := l.from.Own() < computing
	l.tell(v, idle)
	if idle {
		return pingEvery
	}
	return sampleEvery
}

// tell gives the owner a reading. That of an idle stage, which has a thread of its
// own, is not woken for the same again.
func (l *foreign) tell(v float64, idle bool) {
	if idle && math.Abs(v-l.told) <= sameLoad {
		return
	}
	l.told = v
	select {
	case <-l.loads:
	default:
	}
	l.loads <- v // room: the writer alone sends
}
