package telemetry

import (
	"context"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// ringSize is the number of minutes in memory.
const ringSize = 24 * 60

// ring holds the newest day of minutes.
type ring struct {
	mu      sync.Mutex
	minutes [ringSize]Figures // by minute modulo size
}

func newRing() *ring { return new(ring) }

func (r *ring) slot(at time.Time) *Figures {
	n := at.Unix() / 60 % ringSize
	return &r.minutes[(n+ringSize)%ringSize]
}

// put adds a minute; a second part of the same one (after a restart, or a clock
// that was set back) is added to the first.
func (r *ring) put(m Figures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.slot(m.At)
	if s.At.Equal(m.At) {
		s.add(&m)
		s.Measured = 1
		return
	}
	*s = m
}

// fill adds an older minute where there is nothing newer.
func (r *ring) fill(m Figures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slot(m.At); s.At.Before(m.At) {
		*s = m
	} else if s.At.Equal(m.At) {
		s.add(&m)
		s.Measured = 1
	}
}

func (r *ring) list(from, to time.Time) []Figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Figures
	for at := from.Truncate(time.Minute); at.Before(to); at = at.Add(time.Minute) {
		if s := r.slot(at); s.At.Equal(at) && !at.Before(from) {
			out = append(out, *s)
		}
	}
	return out
}

// MaxSteps bounds a series, MaxSpan its length.
const (
	MaxSteps = 2000
	MaxSpan  = 400 * 24 * time.Hour
)

// Figures sums the minutes since a time into steps, the newest minute last.
// Steps begin at multiples of step; steps without any figure are left out. A
// step is a whole number of minutes. Errors: invalid_request, unavailable,
// timeout.
func (r *Recorder) Figures(ctx context.Context, since time.Time, step time.Duration) ([]Figures, error) {
	now := r.o.Now()
	if step < time.Minute || step%time.Minute != 0 || step > 31*24*time.Hour {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "a step is a whole number of minutes, at most 31 days")
	}
	if span := now.Sub(since); span < 0 || span > MaxSpan || span/step > MaxSteps {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "a series has at most %d steps, begins in the past and at most %d days ago", MaxSteps, int(MaxSpan.Hours()/24))
	}
	since = since.Truncate(step)
	memory := now.Truncate(time.Minute).Add(-(ringSize - 1) * time.Minute)
	var list []Figures
	if since.Before(memory) && r.o.Open != nil {
		old, err := r.older(ctx, since, memory)
		if err != nil {
			return nil, err
		}
		list = old
	}
	if since.After(memory) {
		memory = since
	}
	list = append(list, r.ring.list(memory, now)...)
	out := []Figures{}
	for i := range list {
		at := list[i].At.Truncate(step)
		if n := len(out); n == 0 || !out[n-1].At.Equal(at) {
			out = append(out, Figures{At: at})
		}
		out[len(out)-1].add(&list[i])
	}
	return out, nil
}

func (r *Recorder) older(ctx context.Context, from, to time.Time) ([]Figures, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.store == nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the history cannot be read now")
	}
	list, err := r.store.Minutes(ctx, from, to)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, protocol.Errorf(protocol.CodeTimeout, "reading the history took too long")
	case err != nil:
		r.o.Logger.Error("read the figures", "err", err)
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the history cannot be read now")
	}
	return list, nil
}
