package worker

import (
	"cmp"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// next chooses the sessions of the next call, by the two legal layouts of a
// batch (package exec, Legal):
//
//   - decode and verify rows first: the one that waits longest, together with
//     all sessions of its pool that stop at the same layer, have equally many
//     rows waiting, and whose sequence ids join it without a gap;
//   - else one prefill frame of one session, in turn by slot; also before decode
//     rows when these have had as much time since the last slice as a slice may
//     take (share): sessions that never leave the stage idle would keep
//     every prompt waiting for ever.
//
// No group with a time means to wait for rows until then (see gather.go), no
// group without one that nothing waits.
func (st *state) next(now time.Time) (group []*session, until time.Time) {
	oldest, prefill := oldestRows(st.sessions), nextPrefill(st.sessions, st.turn)
	switch {
	case oldest == nil || prefill != nil && st.sinceSlice >= st.share():
		return prefill, until
	case prefill == nil: // else its next slice brings the sessions together
		if until = st.gather(oldest, now); now.Before(until) {
			return nil, until
		}
	}
	return together(oldest, st.callRows(oldest), func(o *session) bool { return joins(o, oldest) }), time.Time{}
}

// oldestRows is the session whose decode or verify rows wait longest.
func oldestRows(sessions map[uint32]*session) (oldest *session) {
	for _, s := range sessions {
		if len(s.queue) == 0 || s.queue[0].f.Kind == protocol.KindPrefill {
			continue
		}
		if oldest == nil {
			oldest = s
			continue
		}
		// Of rows that came together the first slot's: its neighbours follow it, and
		// no call begins between two that could share one.
		if c := s.queue[0].at.Compare(oldest.queue[0].at); c < 0 || c == 0 && s.slot < oldest.slot {
			oldest = s
		}
	}
	return oldest
}

// joins reports whether o's rows wait and may share a call with s's.
func joins(o, s *session) bool {
	return o.exit == s.exit && len(o.queue) > 0 &&
		o.queue[0].f.Kind != protocol.KindPrefill && o.queue[0].f.Rows == s.queue[0].f.Rows
}

// together collects the run of sequences around s that fit.
func together(s *session, mostRows int, fits func(*session) bool) []*session {
	seqs := s.pool.seqs
	lo, hi := s.seq, s.seq+1
	most := max(1, mostRows/int(s.queue[0].f.Rows))
	for lo > 0 && hi-lo < most && seqs[lo-1] != nil && fits(seqs[lo-1]) {
		lo--
	}
	for hi < len(seqs) && hi-lo < most && seqs[hi] != nil && fits(seqs[hi]) {
		hi++
	}
	return slices.Clone(seqs[lo:hi])
}

// nextPrefill takes the session with a waiting prefill frame and the lowest
// slot above turn, or the lowest of all.
func nextPrefill(sessions map[uint32]*session, turn uint32) []*session {
	var waiting []*session
	for _, s := range sessions {
		if len(s.queue) > 0 && s.queue[0].f.Kind == protocol.KindPrefill {
			waiting = append(waiting, s)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	slices.SortFunc(waiting, func(a, b *session) int { return cmp.Compare(a.slot, b.slot) })
	for _, s := range waiting {
		if s.slot > turn {
			return []*session{s}
		}
	}
	return waiting[:1]
}
