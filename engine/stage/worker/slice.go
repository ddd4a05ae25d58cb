package worker

import (
	"slices"
	"time"

	"neuron/engine/protocol"
)

// A prefill frame is as long as the driver thought right for a route that it
// has to itself; a chunk of a second would hold up every session that decodes
// here. While others decode, a frame is therefore run in slices, with their
// steps in between. Its rows leave together when the last slice is done.

const (
	// shareTime is what a slice may take while others decode.
	shareTime = 200 * time.Millisecond
	// fullRows is where the attention kernel for long chunks begins; slices
	// are multiples of it when they can be, and then give the same bits.
	fullRows = 64
	// leastRows bounds the loss of a short slice: kernels work in groups of
	// four rows.
	leastRows = 4
	// shortCost is what a row of a slice below 64 costs over one of a long
	// chunk until it has been measured: other kernels run.
	shortCost = 1.6
	// decodesFor is how long after its last step a session counts as one that
	// decodes.
	decodesFor = 2 * time.Second
)

// slice is the number of rows of s's front frame that the next call runs.
func (st *state) slice(s *session, now time.Time) int {
	q := s.queue[0]
	left := int(q.f.Rows) - q.done
	if !st.othersDecode(s, now) {
		return left
	}
	perRow := float64(st.chunkMicros) / float64(st.cfg.ChunkRows)
	if perRow <= 0 {
		return min(left, fullRows)
	}
	rows := int(float64(shareTime.Microseconds()) / perRow)
	if rows >= fullRows {
		return min(left, rows/fullRows*fullRows)
	}
	short := perRow * shortCost
	if st.shortRow > 0 {
		short = st.shortRow
	}
	return min(left, max(leastRows, int(float64(shareTime.Microseconds())/short)/4*4))
}

// shortSlice takes the time of a prefill slice below fullRows.
func (st *state) shortSlice(took time.Duration, rows int) {
	perRow := float64(took.Microseconds()) / float64(rows)
	if st.shortRow == 0 {
		st.shortRow = perRow
		return
	}
	st.shortRow += (perRow - st.shortRow) / 4
}

func (st *state) othersDecode(s *session, now time.Time) bool {
	for _, o := range st.sessions {
		if o != s && !o.decoded.IsZero() && now.Sub(o.decoded) < decodesFor {
			return true
		}
	}
	return false
}

// advance records that n more rows of the front frame have run; hidden are
// their results, in memory that the next call overwrites.
func (s *session) advance(n int, hidden []float32) {
	q := &s.queue[0]
	q.done += n
	s.nextPos = q.f.Pos + uint32(q.done)
	if whole := n == int(q.f.Rows); hidden != nil && !whole {
		if q.hidden == nil {
			q.hidden = make([]float32, 0, len(hidden)/n*int(q.f.Rows))
		}
		q.hidden = append(q.hidden, hidden...)
	}
}

// rewind forgets what has run of the front frame.
func (s *session) rewind() error {
	q := &s.queue[0]
	if q.done == 0 {
		return nil
	}
	q.done, q.hidden = 0, slices.Delete(q.hidden, 0, len(q.hidden))
	s.nextPos = q.f.Pos
	if err := s.pool.run.Truncate(s.seq, int32(q.f.Pos)); err != nil {
		return protocol.AsError(coded(err))
	}
	return nil
}
