package worker

import "time"

// Sessions do not wait for each other: each sends its next row when its driver
// has the last token. Two that miss each other once would take turns for ever,
// each row in a call of its own, since the rows of one arrive while the other's
// run. A call with several rows costs little more than one with one row, so the
// owner waits a moment for rows that usually come in time.

const (
	// gatherShare of a step, at most gatherMost, is what a row may wait for
	// others.
	gatherShare = 8
	gatherMost  = 5 * time.Millisecond
	// replySlack is what a session may come later than twice its usual time.
	replySlack = 500 * time.Microsecond
	// replyMost bounds what one late row adds to the usual time: a client that
	// pauses once is waited for as before, after a second time it is not.
	replyMost = 4 * gatherMost
)

// habit is how soon a session sends its next row after its last one was
// answered.
type habit struct {
	answered time.Time // zero when no row is expected
	rows     uint32    // of the frame that was answered
	reply    time.Duration
}

// answer notes that a frame of so many rows was answered.
func (h *habit) answer(now time.Time, rows uint32) { h.answered, h.rows = now, rows }

// rest notes that no further row is expected.
func (h *habit) rest() { h.answered = time.Time{} }

// arrive notes that the next row is here. The usual time falls at once and
// grows slowly: most of what is measured while another session's call runs is
// the waiting of other programs for a core.
func (h *habit) arrive(at time.Time) {
	if h.answered.IsZero() {
		return
	}
	d := min(max(at.Sub(h.answered), time.Microsecond), replyMost)
	if h.reply == 0 || d < h.reply {
		h.reply = d
	} else {
		h.reply += (d - h.reply) / 8
	}
	h.rest()
}

// due is until when the next row is worth waiting for.
func (h *habit) due() time.Time { return h.answered.Add(2*h.reply + replySlack) }

// patience is how long a row may wait for others.
func (st *state) patience() time.Duration {
	return min(time.Duration(st.stepMicros)*time.Microsecond/gatherShare, gatherMost)
}

// gather is until when s's rows should wait for those of sessions that could
// share their call; a time that is not after now when they should not. A lone
// session never waits.
func (st *state) gather(s *session, now time.Time) time.Time {
	patience := st.patience()
	since := s.queue[0].at
	if st.idle.After(since) {
		since = st.idle // before, it waited for a call to end
	}
	var until time.Time
	expected := func(o *session) bool {
		return o.exit == s.exit && len(o.queue) == 0 && !o.habit.answered.IsZero() && o.habit.rows == s.queue[0].f.Rows &&
			o.habit.reply > 0 && o.habit.reply <= patience && now.Before(o.habit.due())
	}
	for _, o := range together(s, st.callRows(s), func(o *session) bool { return joins(o, s) || expected(o) }) {
		if len(o.queue) == 0 && o.habit.due().After(until) {
			until = o.habit.due()
		}
	}
	if end := since.Add(patience); until.After(end) {
		return end
	}
	return until
}
