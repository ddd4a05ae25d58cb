package probe

import (
	"runtime"
	"time"
)

// LoadSampler measures how many cores other programs keep busy: the system's
// busy time less that of this process, between two calls. Other stages of the
// same computer count as others, since they compete for the same cores. One
// goroutine uses it, and closes it.
type LoadSampler struct {
	clocks *clocks
	busy   float64 // seconds of all cores, since boot
	spent  float64 // seconds of this process
	own    float64 // cores that this process used between the last two readings
	at     time.Time
}

// NewLoadSampler takes the first reading.
func NewLoadSampler() (*LoadSampler, error) {
	c, err := newClocks()
	if err != nil {
		return nil, err
	}
	s := &LoadSampler{clocks: c}
	if _, err := s.Foreign(); err != nil {
		c.close()
		return nil, err
	}
	return s, nil
}

// Close frees what readings need.
func (s *LoadSampler) Close() { s.clocks.close() }

// Foreign is the number of cores, 0 to the number of all, that other programs
// kept busy on average since the last call.
func (s *LoadSampler) Foreign() (float64, error) {
	busy, spent, err := s.clocks.read()
	if err != nil {
		return 0, err
	}
	now := time.Now()
	wall := now.Sub(s.at).Seconds()
	cores := 0.0
	if !s.at.IsZero() && wall > 0 {
		s.own = (spent - s.spent) / wall
		cores = (busy-s.busy)/wall - s.own
	}
	s.busy, s.spent, s.at = busy, spent, now
	return min(max(0, cores), float64(runtime.NumCPU())), nil
}

// Own is the number of cores that this process kept busy between the last two
// calls of Foreign.
func (s *LoadSampler) Own() float64 { return s.own }
