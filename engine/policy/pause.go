package policy

import (
	"time"

	"neuron/engine/protocol"
)

// Limits of a pause with an end.
const (
	MinPause = time.Minute
	MaxPause = 7 * 24 * time.Hour
)

// morning is the local hour at which "until tomorrow" ends.
const morning = 6

// Active reports whether sharing is paused at the time.
func (p Pause) Active(now time.Time) bool {
	return p.UntilResumed || !p.Until.IsZero() && now.Before(p.Until)
}

// PauseFor is a pause from now on, MinPause to MaxPause long; others are
// invalid_request.
func PauseFor(now time.Time, d time.Duration) (Pause, error) {
	if d < MinPause || d > MaxPause {
		return Pause{}, invalid("pause", "a pause is one minute to seven days long")
	}
	return Pause{Until: now.Round(0).Add(d)}, nil
}

// PauseTomorrow is a pause until six in the morning of the next local day, also
// when a change of the clocks lies between.
func PauseTomorrow(now time.Time) Pause {
	y, m, day := now.Date()
	return Pause{Until: time.Date(y, m, day+1, morning, 0, 0, 0, now.Location())}
}

func invalid(field, format string, args ...any) *protocol.Error {
	e := protocol.Errorf(protocol.CodeInvalidRequest, format, args...)
	e.Param = field
	return e
}
