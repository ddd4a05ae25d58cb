package policy

import "time"

// Usage counts the bytes of a local day, both directions together. The zero
// value has counted nothing. Who keeps it stores it too: it is of use only when
// it survives a restart.
type Usage struct {
	Day   string `json:"day"` // 2026-11-30
	Bytes int64  `json:"bytes"`
}

// Add counts n more bytes; with another local day the count begins anew. Sums
// that would not fit stay at the largest number, negative n counts nothing.
func (u Usage) Add(now time.Time, n int64) Usage {
	u = Usage{Day: day(now), Bytes: u.Today(now)}
	if n > 0 {
		if u.Bytes += n; u.Bytes < 0 {
			u.Bytes = 1<<63 - 1
		}
	}
	return u
}

// Today is what was counted on the local day of the time.
func (u Usage) Today(now time.Time) int64 {
	if u.Day != day(now) {
		return 0
	}
	return max(0, u.Bytes)
}

func day(t time.Time) string { return t.Format(time.DateOnly) }

// nextDay is the first moment of the next local day. In some zones a day can
// begin at one o'clock.
func nextDay(now time.Time) time.Time {
	y, m, d := now.Date()
	t := time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())
	for day(t) == day(now) {
		t = t.Add(look)
	}
	return t
}
