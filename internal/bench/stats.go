package bench

import (
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// quantile of v, which it sorts; q from 0 to 1. v must not be empty.
func quantile(v []time.Duration, q float64) time.Duration {
	slices.Sort(v)
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

func median(v []time.Duration) time.Duration { return quantile(v, 0.5) }

// pairs are times of the same work, measured in turns. The median of the
// ratios of neighbours is steadier than a ratio of medians: what disturbs a
// machine for a second disturbs both.
type pairs struct{ base, other []time.Duration }

func (p *pairs) add(base, other time.Duration) {
	p.base, p.other = append(p.base, base), append(p.other, other)
}

// ratio is the median of other / base.
func (p *pairs) ratio() float64 {
	r := make([]float64, len(p.base))
	for i := range r {
		r[i] = float64(p.other[i]) / float64(p.base[i])
	}
	return medianOf(r)
}

// speed is the median of base / other: below 1 means that other is slower.
func (p *pairs) speed() float64 {
	r := make([]float64, len(p.base))
	for i := range r {
		r[i] = float64(p.base[i]) / float64(p.other[i])
	}
	return medianOf(r)
}

// slowest is the least of base / other.
func (p *pairs) slowest() float64 {
	least := math.Inf(1)
	for i := range p.base {
		least = min(least, float64(p.base[i])/float64(p.other[i]))
	}
	return least
}

func medianOf(v []float64) float64 {
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// loadAverage is what the system says about the last minute, "" where it does
// not.
func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	if f := strings.Fields(string(raw)); len(f) > 0 {
		return f[0]
	}
	return ""
}
