package worker

import "time"

// meter turns a growing count into bytes per second over the last seconds.
// Only its owner uses it.
type meter struct {
	samples []sample // oldest first
}

type sample struct {
	at    time.Time
	total int64
}

// meterSpan is the time over which a rate counts.
const meterSpan = 5 * time.Second

// note adds a reading of the count.
func (m *meter) note(now time.Time, total int64) {
	if k := len(m.samples); k > 0 && (total < m.samples[k-1].total || !now.After(m.samples[k-1].at)) {
		m.samples = m.samples[:0] // a new count, or a clock that went back
	}
	m.samples = append(m.samples, sample{now, total})
	// One reading that is just older than the span stays, so that the span is
	// covered.
	for len(m.samples) > 2 && now.Sub(m.samples[1].at) >= meterSpan {
		m.samples = m.samples[1:]
	}
}

// rate is bytes per second between the readings that are kept.
func (m *meter) rate() int64 {
	k := len(m.samples)
	if k < 2 {
		return 0
	}
	first, last := m.samples[0], m.samples[k-1]
	return int64(float64(last.total-first.total) / last.at.Sub(first.at).Seconds())
}
