package worker

import (
	"slices"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
)

// shift plays the owner with a clock of its own: calls take what step says,
// sessions answer after their own time.
type shift struct {
	t   *testing.T
	st  *state
	now time.Time
	// reply is what each session, by slot, takes for its next row; 0: it sends
	// none.
	reply map[uint32]time.Duration
	due   map[uint32]time.Time
	step  func(rows int) time.Duration

	calls   [][]uint32    // slots of each call, 0 for a slice
	waited  time.Duration // with a row at hand
	longest time.Duration // between decode calls of slot 1
	lastAt  time.Time     // its newest one
}

func newShift(t *testing.T, seqs int, reply ...time.Duration) *shift {
	p := &pool{seqs: make([]*session, seqs)}
	h := &shift{t: t, st: &state{sessions: map[uint32]*session{}, cfg: wire.Load{ChunkRows: 64}}, now: time.Unix(1000, 0),
		reply: map[uint32]time.Duration{}, due: map[uint32]time.Time{}, step: func(int) time.Duration { return 40 * time.Millisecond }}
	h.st.stepMicros = 40_000
	for i, d := range reply {
		slot := uint32(i + 1)
		s := &session{slot: slot, pool: p, seq: i, exit: 4}
		p.seqs[i], h.st.sessions[slot], h.reply[slot] = s, s, d
		h.due[slot] = h.now.Add(time.Duration(i) * 13 * time.Millisecond) // out of step
	}
	return h
}

// deliver brings the rows that have come by now.
func (h *shift) deliver() {
	for slot, at := range h.due {
		if s := h.st.sessions[slot]; !at.After(h.now) {
			delete(h.due, slot)
			s.take(arrival{&protocol.Frame{Header: protocol.Header{Kind: protocol.KindDecode, Slot: slot, Pos: s.end(), Rows: 1}}, at})
		}
	}
}

// run makes calls until there are so many.
func (h *shift) run(calls int) {
	h.t.Helper()
	h.calls, h.waited, h.longest, h.lastAt = nil, 0, 0, time.Time{}
	for turns := 0; len(h.calls) < calls; turns++ {
		if turns > 100*calls {
			h.t.Fatal("nothing gets done")
		}
		h.deliver()
		group, until := h.st.next(h.now)
		if group == nil {
			// Until the next row, or the time that next gave.
			wake := until
			for _, at := range h.due {
				if wake.IsZero() || at.Before(wake) {
					wake = at
				}
			}
			if wake.IsZero() {
				h.t.Fatal("nothing will ever come")
			}
			if !until.IsZero() {
				h.waited += wake.Sub(h.now)
			}
			h.now = wake
			continue
		}
		h.call(group)
	}
}

func (h *shift) call(group []*session) {
	prefill := group[0].queue[0].f.Kind == protocol.KindPrefill
	var slots []uint32
	if prefill {
		s := group[0]
		n := h.st.slice(s, h.now)
		took := time.Duration(n) * 11 * time.Millisecond
		h.now = h.now.Add(took)
		h.st.count(s, true, took, n)
		h.st.turn = s.slot
		if s.advance(n, given{}); s.queue[0].done == int(s.queue[0].f.Rows) {
			s.queue = s.queue[1:]
		}
		slots = []uint32{0}
	} else {
		took := h.step(len(group))
		start := h.now
		h.now = h.now.Add(took)
		h.st.count(group[0], false, took, 1)
		for _, s := range group {
			slots = append(slots, s.slot)
			s.decoded = start
			s.nextPos++
			s.queue = s.queue[1:]
			s.habit.answer(h.now, 1)
			if d := h.reply[s.slot]; d > 0 {
				h.due[s.slot] = h.now.Add(d)
			}
			if s.slot == 1 {
				if !h.lastAt.IsZero() {
					h.longest = max(h.longest, start.Sub(h.lastAt))
				}
				h.lastAt = start
			}
		}
	}
	h.st.idle = h.now
	h.calls = append(h.calls, slots)
}

// shared is the share of calls with all n sessions.
func (h *shift) shared(n int) float64 {
	all := 0
	for _, c := range h.calls {
		if len(c) == n {
			all++
		}
	}
	return float64(all) / float64(len(h.calls))
}

// TestSessionsOutOfStepShareCalls: without waiting they would take turns for
// ever.
func TestSessionsOutOfStepShareCalls(t *testing.T) {
	t.Parallel()
	for _, reply := range [][]time.Duration{
		{700 * time.Microsecond, 700 * time.Microsecond},
		{300 * time.Microsecond, 2 * time.Millisecond},
		{500 * time.Microsecond, 900 * time.Microsecond, 700 * time.Microsecond, 1100 * time.Microsecond},
	} {
		h := newShift(t, 4, reply...)
		h.run(10)
		h.run(100)
		if s := h.shared(len(reply)); s < 1 {
			t.Errorf("%d sessions: %.0f %% of the calls are for all", len(reply), 100*s)
		}
		if h.waited > 100*slices.Max(reply) {
			t.Errorf("%d sessions: rows waited %v in 100 calls", len(reply), h.waited)
		}
	}
}

func TestLoneSessionNeverWaits(t *testing.T) {
	t.Parallel()
	h := newShift(t, 4, 700*time.Microsecond)
	// One that was answered and sends nothing, one that has not begun.
	for i, slot := range []uint32{2, 3} {
		s := &session{slot: slot, pool: h.st.sessions[1].pool, seq: i + 1, exit: 4}
		s.pool.seqs[i+1], h.st.sessions[slot] = s, s
	}
	h.st.sessions[2].habit = habit{answered: h.now.Add(-time.Second), rows: 1, reply: time.Millisecond}
	h.run(100)
	if h.waited != 0 {
		t.Errorf("waited %v", h.waited)
	}
}

// TestSlowClientIsNotWaitedFor: one whose rows take longer than it pays to
// wait, one on a longer route for example, and one that stalls.
func TestSlowClientIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	h := newShift(t, 4, 20*time.Millisecond, 20*time.Millisecond)
	h.run(100)
	if h.waited != 0 {
		t.Errorf("waited %v for sessions that are always late", h.waited)
	}
	// The late one waits for the quick one, not the other way round.
	h = newShift(t, 4, 700*time.Microsecond, 20*time.Millisecond)
	h.run(100)
	if h.waited > 100*700*time.Microsecond {
		t.Errorf("waited %v for a session that is always late", h.waited)
	}
	h = newShift(t, 4, 700*time.Microsecond, 900*time.Microsecond)
	h.run(20)
	h.reply[2] = 0 // its client reads no more
	h.run(50)
	if h.waited > gatherMost {
		t.Errorf("waited %v for a session that does not come back", h.waited)
	}
}

// TestPauseIsNoHabit: a client that pauses once is as quick as before; one that
// does so again and again is not waited for.
func TestPauseIsNoHabit(t *testing.T) {
	t.Parallel()
	h := habit{reply: 700 * time.Microsecond}
	at := time.Unix(1000, 0)
	pause := func() {
		h.answer(at, 1)
		at = at.Add(time.Second)
		h.arrive(at)
	}
	if pause(); h.reply > gatherMost {
		t.Errorf("usually %v after one pause", h.reply)
	}
	if pause(); h.reply <= gatherMost {
		t.Errorf("usually %v after two pauses", h.reply)
	}
	h.answer(at, 1)
	if h.arrive(at.Add(800 * time.Microsecond)); h.reply != 800*time.Microsecond {
		t.Errorf("usually %v after a quick row", h.reply)
	}
	h.arrive(at.Add(time.Hour)) // nothing was answered since
	if h.reply != 800*time.Microsecond {
		t.Errorf("usually %v after a row that was not expected", h.reply)
	}
}

// TestWaitIsBounded: by the eighth part of a step, and by what is left of it
// for rows that waited already.
func TestWaitIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step, reply time.Duration
		late        time.Duration // since the other's answer
		want        time.Duration // from now
	}{
		{40 * time.Millisecond, time.Millisecond, time.Millisecond, 1500 * time.Microsecond}, // twice a reply and a half
		{40 * time.Millisecond, 3 * time.Millisecond, 0, gatherMost},
		{16 * time.Millisecond, 1500 * time.Microsecond, 0, 2 * time.Millisecond},
		{8 * time.Millisecond, 1500 * time.Microsecond, 0, -1},              // it would take too long
		{40 * time.Millisecond, time.Millisecond, 3 * time.Millisecond, -1}, // it is late already
	} {
		h := newShift(t, 2, time.Hour, time.Hour)
		h.st.stepMicros = c.step.Microseconds()
		h.st.sessions[2].habit = habit{answered: h.now.Add(-c.late), rows: 1, reply: c.reply}
		h.deliver()
		until := h.st.gather(h.st.sessions[1], h.now)
		if got := until.Sub(h.now); c.want < 0 && got > 0 || c.want >= 0 && got != c.want {
			t.Errorf("step %v, reply %v, %v late: waits %v, want %v", c.step, c.reply, c.late, got, c.want)
		}
	}
}

// TestNobodyWaitsAcrossAGap: only sessions whose sequences join can share a
// call.
func TestNobodyWaitsAcrossAGap(t *testing.T) {
	t.Parallel()
	h := newShift(t, 4, time.Hour, time.Hour, time.Hour)
	h.st.sessions[3].habit = habit{answered: h.now, rows: 1, reply: time.Millisecond}
	h.deliver()
	if until := h.st.gather(h.st.sessions[1], h.now); until.After(h.now) {
		t.Error("waits for a session whose sequence does not join")
	}
	h.st.sessions[2].habit = h.st.sessions[3].habit
	if until := h.st.gather(h.st.sessions[1], h.now); !until.After(h.now) {
		t.Error("does not wait for two sessions that join")
	}
	h.st.sessions[2].habit.rows = 4 // verifies
	if until := h.st.gather(h.st.sessions[1], h.now); until.After(h.now) {
		t.Error("waits for rows of another width")
	}
}

// TestPromptAndAnswersShareTheStage: an answer waits for at most one slice
// beside the calls of others, and a prompt for at most shareTime of answers,
// also when those never leave the stage idle.
func TestPromptAndAnswersShareTheStage(t *testing.T) {
	t.Parallel()
	h := newShift(t, 5, 700*time.Microsecond, 800*time.Microsecond, 900*time.Microsecond)
	// Two more in a pool of their own keep the stage busy.
	far := &pool{seqs: make([]*session, 2)}
	for i := range 2 {
		slot := uint32(10 + i)
		s := &session{slot: slot, pool: far, seq: i, exit: 4}
		far.seqs[i], h.st.sessions[slot], h.reply[slot], h.due[slot] = s, s, 700*time.Microsecond, h.now
	}
	h.run(50)
	s := &session{slot: 5, pool: h.st.sessions[1].pool, seq: 4, exit: 4}
	s.pool.seqs[4], h.st.sessions[5] = s, s
	h.st.pace.short = 11_000
	s.take(arrival{&protocol.Frame{Header: protocol.Header{Kind: protocol.KindPrefill, Slot: 5, Rows: 2000}}, h.now})
	h.run(200)
	since, slicesRun := time.Duration(0), 0
	for _, c := range h.calls {
		if c[0] != 0 {
			if since += 40 * time.Millisecond; since > shareTime {
				t.Fatalf("the prompt waited %v", since)
			}
			continue
		}
		since = 0
		slicesRun++
	}
	if most := 3*40*time.Millisecond + shareTime + gatherMost; h.longest > most {
		t.Errorf("an answer waited %v, want at most %v", h.longest, most)
	}
	if slicesRun < 20 {
		t.Errorf("%d slices in %d calls", slicesRun, len(h.calls))
	}
}
