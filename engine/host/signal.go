package host

import (
	"context"
	"log/slog"
	"time"

	"neuron/engine/policy"
)

// Times of asking.
const (
	// tick is the shortest time between two questions to a source.
	tick = 2 * time.Second
	// slowly is for what changes seldom, or is not urgent.
	slowly = 10 * time.Second
	// limit bounds an answer.
	limit = time.Second
	// A source that fails is left alone for a while, longer each time.
	firstPause = 10 * time.Second
	lastPause  = 2 * time.Minute
	// early lets a question be asked a little before its time, so that a Read that
	// comes a moment too soon does not double the time.
	early = tick / 4
)

// signal is one source with what it said last. Read's goroutine uses it, but for
// ask, which runs beside the other signals' ask.
type signal[T any] struct {
	name string
	read func(ctx context.Context) (T, error)

	told   policy.Told[T]
	asked  time.Time     // zero: never, since it is needed
	pause  time.Duration // after a failure; 0: it answers
	failed string        // the last failure, "" while it answers
}

// due reports whether to ask now; what nothing needs is forgotten.
func (g *signal[T]) due(needed bool, now time.Time, every time.Duration) bool {
	if !needed {
		g.forget()
		return false
	}
	return g.asked.IsZero() || now.Before(g.asked) || now.Sub(g.asked) >= max(every, g.pause)-early
}

func (g *signal[T]) forget() { g.told, g.asked, g.pause = policy.Told[T]{}, time.Time{}, 0 }

func (g *signal[T]) ask(ctx context.Context, now time.Time, log *slog.Logger) {
	soon, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v, err := g.read(soon)
	if ctx.Err() != nil {
		return // the caller wants no answer any more
	}
	g.asked = now
	if err == nil {
		if g.failed != "" {
			log.Info("Source answers again", "signal", g.name)
		}
		g.told, g.pause, g.failed = policy.Tell(v), 0, ""
		return
	}
	if g.failed == "" {
		log.Info("Source does not answer", "signal", g.name, "error", err)
	}
	g.told, g.failed = policy.NotTold[T](), err.Error()
	g.pause = min(max(2*g.pause, firstPause), lastPause)
}

// asker is a signal of any type.
type asker interface {
	ask(ctx context.Context, now time.Time, log *slog.Logger)
	forget()
}

// answer tells of a signal to people.
func answer[T any](g *signal[T], from string) Answer {
	a := Answer{Signal: g.name}
	switch {
	case g.told.Known:
		a.From = from
	case g.told.Asked:
		a.Failed = g.failed
	}
	return a
}
