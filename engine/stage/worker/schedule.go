package worker

import (
	"cmp"
	"slices"

	"neuron/engine/protocol"
)

// pick chooses the sessions of the next call, by the two legal layouts of a
// batch (package exec, Legal):
//
//   - decode and verify rows first: the one that waits longest, together with
//     all sessions of its pool that stop at the same layer, have equally many
//     rows waiting, and whose sequence ids join it without a gap;
//   - else one prefill chunk of one session, in turn by slot.
//
// It returns nil when nothing waits.
func pick(sessions map[uint32]*session, turn uint32, mostRows int) []*session {
	var oldest *session
	for _, s := range sessions {
		if len(s.queue) == 0 || s.queue[0].f.Kind == protocol.KindPrefill {
			continue
		}
		if oldest == nil || s.queue[0].at.Before(oldest.queue[0].at) {
			oldest = s
		}
	}
	if oldest != nil {
		return together(oldest, mostRows)
	}
	return nextPrefill(sessions, turn)
}

// together collects the run of sequences around s that may share its call.
func together(s *session, mostRows int) []*session {
	rows := s.queue[0].f.Rows
	fits := func(o *session) bool {
		return o != nil && o.exit == s.exit && len(o.queue) > 0 &&
			o.queue[0].f.Kind != protocol.KindPrefill && o.queue[0].f.Rows == rows
	}
	lo, hi := s.seq, s.seq+1
	most := max(1, mostRows/int(rows))
	for lo > 0 && hi-lo < most && fits(s.pool.seqs[lo-1]) {
		lo--
	}
	for hi < len(s.pool.seqs) && hi-lo < most && fits(s.pool.seqs[hi]) {
		hi++
	}
	return slices.Clone(s.pool.seqs[lo:hi])
}

// nextPrefill takes the waiting session with the lowest slot above turn, or
// the lowest of all.
func nextPrefill(sessions map[uint32]*session, turn uint32) []*session {
	var waiting []*session
	for _, s := range sessions {
		if len(s.queue) > 0 {
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
