package shapes

import "time"

// What routes are predicted for.
var (
	HopCounts  = []int{4, 8, 16}
	RoundTrips = []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond}
)

// uplink is what a node sends per second in the predictions of prompts: a home
// line of 100 Mbit/s.
const uplink = 100_000_000 / 8

// Prediction is a route of equal nodes that compute like the machine of a
// measurement.
type Prediction struct {
	Hops int
	// Token is the time of a token for each round trip in RoundTrips.
	Token []time.Duration
	// Busy is how many tokens per second all sessions together get when there are
	// enough of them to keep every hop busy.
	Busy float64
	// Prefill is tokens per second of a long prompt in chunks that follow each
	// other; Link the most that lines of 100 Mbit/s let through in F32.
	Prefill, Link float64
}

// Predict computes routes from measured layers:
//
//	time per token = all layers and the output matrix, one after the other, and n
//	times half a round trip (docs/performance.md, "One token per round trip");
//	prompt = the slowest of n equal hops, or the line between two.
//
// The output matrix was not measured: it counts as the layers' bytes do.
func (s *Shape) Predict(m *Measured) ([]Prediction, error) {
	r, _ := s.Recipe(m.Recipe)
	all, err := m.Total(s)
	if err != nil {
		return nil, err
	}
	read := int64(0)
	for i := range s.Kinds {
		read += s.ReadBytes(i, r)
	}
	_, tail := s.GlobalBytes(r)
	step := all.Step + time.Duration(float64(all.Step)*float64(tail)/float64(read))
	var out []Prediction
	for _, n := range HopCounts {
		p := Prediction{Hops: n, Busy: float64(n) / step.Seconds(), Prefill: float64(n) * ChunkRows / all.Chunk.Seconds(), Link: uplink / float64(4*s.Seam)}
		for _, rtt := range RoundTrips {
			p.Token = append(p.Token, step+time.Duration(n)*rtt/2)
		}
		out = append(out, p)
	}
	return out, nil
}
