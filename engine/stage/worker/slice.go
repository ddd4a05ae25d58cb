package worker

import (
	"time"

	"neuron/engine/protocol"
)

// A prefill frame is as long as the driver thought right for a route that it
// has to itself; a chunk of a second would hold up every session that decodes
// here. While others decode, a frame is therefore run in slices, with their
// steps in between. Its rows leave together when the last slice is done.
//
// Slices are bounded by measured time, not by rows: a row costs several times
// more behind a long prompt than at its beginning, and more in short slices,
// which other kernels run.

const (
	// shareTime is what a slice may take while others decode, shareSteps how many
	// of the stage's steps if that is longer: where the weights are read for longer
	// than shareTime, a slice would have one row, and a prompt would take as long as
	// an answer of its length.
	shareTime  = 200 * time.Millisecond
	shareSteps = 2
	// fullRows is where the attention kernel for long chunks begins; slices
	// are multiples of it when they can be, and then give the same bits.
	fullRows = 64
	// groupRows: kernels for short slices work in groups of four rows.
	groupRows = 4
	// shortCost is what a row of a slice below 64 costs over one of a long
	// chunk until it has been measured.
	shortCost = 1.6
	// shallow is up to where a slice says what new sessions will begin with.
	shallow = 256
	// decodesFor is how long after its last step a session counts as one that
	// decodes.
	decodesFor = 2 * time.Second
)

// pace is what a prefill row costs, in microseconds; 0 until measured. A
// session's own follows it to longer positions, the stage's is what new
// sessions begin with.
type pace struct {
	long  float64 // in slices of fullRows and more
	short float64 // in shorter ones
}

// took learns from a slice. A cost that grows is believed sooner than one that
// falls, so that the next slice is not too long as well.
func (p *pace) took(d time.Duration, rows int) {
	perRow := float64(d.Microseconds()) / float64(rows)
	cost := &p.short
	if rows >= fullRows {
		cost = &p.long
	}
	switch {
	case *cost == 0:
		*cost = perRow
	case perRow > *cost:
		*cost += (perRow - *cost) / 2
	default:
		*cost += (perRow - *cost) / 4
	}
}

// share is what a slice may take here while others decode.
func (st *state) share() time.Duration {
	return max(shareTime, shareSteps*time.Duration(st.stepMicros)*time.Microsecond)
}

// slice is the number of rows of s's front frame that the next call runs.
func (st *state) slice(s *session, now time.Time) int {
	q := s.queue[0]
	left := int(q.f.Rows) - q.done
	if !st.othersDecode(s, now) {
		return left
	}
	if s.pace.long == 0 {
		s.pace.long = st.pace.long
	}
	if s.pace.short == 0 {
		s.pace.short = st.pace.short
	}
	return min(left, s.pace.rows(st.share(), left >= fullRows, st.pace.ratio()))
}

// ratio is what a row of a long slice costs over one of a short slice, at most:
// along a prompt it falls.
func (p *pace) ratio() float64 {
	if p.long == 0 || p.short == 0 {
		return 1
	}
	return min(1, p.long/p.short)
}

// rows is how many rows take about so long, at least one; a multiple of
// fullRows when that is possible and wanted. By the ratio, long slices are gone
// back to when one was slow by accident.
func (p *pace) rows(took time.Duration, long bool, ratio float64) int {
	share := float64(took.Microseconds())
	short := p.short
	if short == 0 {
		short = p.long * shortCost
	}
	if short == 0 {
		return groupRows // nothing is known of this stage
	}
	if long {
		cost := short * ratio
		if p.long > 0 {
			cost = min(cost, p.long)
		}
		if n := int(share / cost); n >= fullRows {
			return n / fullRows * fullRows
		}
	}
	n := min(int(share/short), fullRows-groupRows)
	if n > groupRows {
		n -= n % groupRows
	}
	return max(1, n)
}

// sliced learns what a prefill call of s took, at the position where it began.
func (st *state) sliced(s *session, pos uint32, took time.Duration, rows int) {
	s.pace.took(took, rows)
	if pos >= shallow {
		return
	}
	perRow := float64(took.Microseconds()) / float64(rows)
	cost := &st.pace.short
	if rows >= fullRows {
		cost = &st.pace.long
	}
	if *cost == 0 {
		*cost = perRow
	} else {
		*cost += (perRow - *cost) / 8
	}
}

func (st *state) othersDecode(s *session, now time.Time) bool {
	for _, o := range st.sessions {
		if o != s && !o.decoded.IsZero() && now.Sub(o.decoded) < decodesFor {
			return true
		}
	}
	return false
}

// advance records that n more rows of the front frame have run; g are their
// results, in memory that the next call overwrites.
func (s *session) advance(n int, g given) {
	q := &s.queue[0]
	q.done += n
	s.nextPos = q.f.Pos + uint32(q.done)
	if whole := n == int(q.f.Rows); g.hidden != nil && !whole {
		q.rows.grow(g, n, int(q.f.Rows))
	}
}

// rewind forgets what has run of the front frame.
func (st *state) rewind(s *session) error {
	q := &s.queue[0]
	if q.done == 0 {
		return nil
	}
	q.done, q.rows = 0, given{}
	s.nextPos = q.f.Pos
	if err := st.takeBack(s, q.f.Pos); err != nil {
		return protocol.AsError(coded(err))
	}
	return nil
}
