package report

import (
	"cmp"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// Quantile of v; q from 0 to 1. v must not be empty, and stays as it is: pairs
// belong together by their order.
func Quantile[T cmp.Ordered](v []T, q float64) T {
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

// Median is the middle time, the later one of two.
func Median(v []time.Duration) time.Duration { return Quantile(v, 0.5) }

// Millis is d in milliseconds.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Pairs are times of the same work, measured in turns. The median of the
// ratios of neighbours is steadier than a ratio of medians: what disturbs a
// machine for a second disturbs both.
type Pairs struct{ Base, Other []time.Duration }

// Add adds the times of two neighbours.
func (p *Pairs) Add(base, other time.Duration) {
	p.Base, p.Other = append(p.Base, base), append(p.Other, other)
}

// Ratio is the median of other / base.
func (p *Pairs) Ratio() float64 {
	r := make([]float64, len(p.Base))
	for i := range r {
		r[i] = float64(p.Other[i]) / float64(p.Base[i])
	}
	return MedianOf(r)
}

// Speed is the median of base / other: below 1 means that other is slower.
func (p *Pairs) Speed() float64 {
	r := make([]float64, len(p.Base))
	for i := range r {
		r[i] = float64(p.Base[i]) / float64(p.Other[i])
	}
	return MedianOf(r)
}

// Spread is the interval of speeds that holds the true median with at least 90 %,
// by the order of the pairs alone, whatever they are distributed like: of 8 pairs
// from the second lowest to the second highest. Fewer than 5 pairs cannot say
// that; then it is from the lowest to the highest.
func (p *Pairs) Spread() (low, high float64) {
	r := make([]float64, len(p.Base))
	for i := range r {
		r[i] = float64(p.Base[i]) / float64(p.Other[i])
	}
	slices.Sort(r)
	// The true median is outside when all but a few pairs are on one side of it,
	// as with a coin thrown once for each pair.
	n := len(r)
	out, ways, sum := 0, 1.0, 0.0
	for i := range n / 2 {
		if sum += ways / math.Exp2(float64(n-1)); sum > 0.1 {
			break
		}
		out = i
		ways *= float64(n-i) / float64(i+1)
	}
	return r[out], r[n-1-out]
}

// Settled says whether more pairs are of no use: the spread is at most that
// share of the speed.
func (p *Pairs) Settled(share float64) bool {
	if len(p.Base) < 5 {
		return false
	}
	low, high := p.Spread()
	return high-low <= share*p.Speed()
}

// Slowest is the least of base / other.
func (p *Pairs) Slowest() float64 {
	least := math.Inf(1)
	for i := range p.Base {
		least = min(least, float64(p.Base[i])/float64(p.Other[i]))
	}
	return least
}

// MedianOf is the middle of v, or the mean of the two in the middle.
func MedianOf(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// LoadAverage is what the system says about the last minute, "" where it does
// not.
func LoadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	if f := strings.Fields(string(raw)); len(f) > 0 {
		return f[0]
	}
	return ""
}
