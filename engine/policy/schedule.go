package policy

import "time"

// look is the step in which Next searches. All zones of today lie whole
// quarters of an hour from UTC, so a local hour begins at one of these steps,
// also where the clocks change by half an hour.
const look = 15 * time.Minute

// Open reports whether the schedule allows sharing at the time, in its location.
// A schedule that is off always does.
func (h Schedule) Open(now time.Time) bool {
	if !h.On {
		return true
	}
	day := (int(now.Weekday()) + 6) % 7 // Monday first
	return h.Hours[day]>>now.Hour()&1 == 1
}

// Next is when Open changes; the zero time when it never does.
func (h Schedule) Next(now time.Time) time.Time {
	if !h.On {
		return time.Time{}
	}
	open := h.Open(now)
	start := now.Round(0).Truncate(look)
	// A week and a day: a change of the clocks can hide an hour of the week.
	for n := time.Duration(1); n <= 8*24*time.Hour/look; n++ {
		if t := start.Add(n * look); h.Open(t) != open {
			return t
		}
	}
	return time.Time{}
}
