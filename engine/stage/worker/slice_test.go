package worker

import (
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
)

func prefilling(rows, done int) *session {
	return &session{slot: 1, queue: []queued{{f: &protocol.Frame{Header: protocol.Header{Kind: protocol.KindPrefill, Rows: uint32(rows)}}, done: done}}}
}

func TestSliceSizes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		name        string
		rows, done  int
		long, short time.Duration // per row, as known of the stage
		decoded     time.Duration // ago; 0: nobody decodes
		want        int
	}{
		{"alone", 256, 0, 10 * time.Millisecond, 0, 0, 256},
		{"others decoded long ago", 256, 0, 10 * time.Millisecond, 0, time.Minute, 256},
		{"fast stage", 512, 0, time.Millisecond, 0, time.Millisecond, 192},
		{"rest of a frame", 512, 448, time.Millisecond, 0, time.Millisecond, 64},
		// 63 rows cost more than 64, by another kernel.
		{"rest below a full kernel", 512, 449, time.Millisecond, 5 * time.Millisecond, time.Millisecond, 40},
		{"slow stage", 256, 0, 8 * time.Millisecond, 0, time.Millisecond, 12},
		{"slow stage, short slices measured", 256, 0, 8 * time.Millisecond, 20 * time.Millisecond, time.Millisecond, 8},
		{"short slices that take as long as a full one", 256, 0, 3200 * time.Microsecond, 3200 * time.Microsecond, time.Millisecond, 60},
		{"full ones are cheaper per row", 256, 0, 9 * time.Millisecond, 3 * time.Millisecond, time.Millisecond, 64},
		{"behind a long prompt", 256, 0, 20 * time.Millisecond, 55 * time.Millisecond, time.Millisecond, 3},
		{"very slow stage", 256, 0, time.Second, 0, time.Millisecond, 1},
		{"last rows", 100, 98, 10 * time.Millisecond, 0, time.Millisecond, 2},
		{"nothing measured", 100, 0, 0, 0, time.Millisecond, 4},
	} {
		s := prefilling(c.rows, c.done)
		st := &state{sessions: map[uint32]*session{1: s}, cfg: wire.Load{ChunkRows: 256}}
		st.pace = pace{long: float64(c.long.Microseconds()), short: float64(c.short.Microseconds())}
		if c.decoded > 0 {
			st.sessions[2] = &session{slot: 2, decoded: now.Add(-c.decoded)}
		}
		if got := st.slice(s, now); got != c.want {
			t.Errorf("%s: %d rows, want %d", c.name, got, c.want)
		}
	}
}

// TestSlicesFollowTheirOwnSession: a row costs more and more along a prompt;
// another session at its beginning is not slowed by that, nor does it make the
// long one's slices longer than they may be.
func TestSlicesFollowTheirOwnSession(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	deep, fresh := prefilling(4096, 0), prefilling(4096, 0)
	st := &state{sessions: map[uint32]*session{1: deep, 2: fresh, 3: {slot: 3, decoded: now}}, cfg: wire.Load{ChunkRows: 4096}}
	st.pace.took(64*8*time.Millisecond, 64)
	// The cost of rows of the 1B model with one thread, from measurements.
	cost := func(pos, rows int) time.Duration {
		if rows >= fullRows {
			return time.Duration(rows) * time.Duration(8500+3*pos) * time.Microsecond
		}
		return time.Duration(rows) * time.Duration(11000+11*pos) * time.Microsecond
	}
	run := func(s *session) time.Duration {
		q := &s.queue[0]
		n := st.slice(s, now)
		took := cost(q.done, n)
		st.sliced(s, uint32(q.done), took, n)
		q.done += n
		return took
	}
	var longest time.Duration
	for deep.queue[0].done < 3800 {
		longest = max(longest, run(deep))
		if fresh.queue[0].done < 300 {
			longest = max(longest, run(fresh))
		}
	}
	if longest > shareTime*5/4 {
		t.Errorf("a slice took %v", longest)
	}
	for range 3 {
		run(deep)
	}
	if took := run(deep); took < shareTime/2 {
		t.Errorf("slices of %v behind a long prompt", took)
	}
	third := prefilling(4096, 0)
	if n := st.slice(third, now); n < 12 || n > 20 {
		t.Errorf("a new session begins with %d rows", n)
	}
}

// TestSlowSliceIsBelievedSoon: the next one is not too long as well.
func TestSlowSliceIsBelievedSoon(t *testing.T) {
	t.Parallel()
	p := pace{long: 8000, short: 10000}
	if n := p.rows(shareTime, true, 1); n != 20 {
		t.Fatalf("%d rows, want 20", n)
	}
	p.took(800*time.Millisecond, 20)
	if n := p.rows(shareTime, true, 1); n != 8 {
		t.Errorf("%d rows after a slow slice, want 8", n)
	}
	for range 20 {
		p.took(40*time.Millisecond, 4)
	}
	if n := p.rows(shareTime, true, 1); n != 16 {
		t.Errorf("%d rows after quick slices, want 16", n)
	}
}

// TestLongSlicesAreTriedAgain: one that was slow by accident does not end them
// for the rest of a prompt.
func TestLongSlicesAreTriedAgain(t *testing.T) {
	t.Parallel()
	known := pace{long: 2500, short: 6000}
	p := known
	if n := p.rows(shareTime, true, known.ratio()); n != 64 {
		t.Fatalf("%d rows, want 64", n)
	}
	p.took(64*10*time.Millisecond, 64)
	p.short = 0
	if n := p.rows(shareTime, true, known.ratio()); n >= fullRows {
		t.Errorf("%d rows after a slow slice", n)
	}
	p.took(12*6*time.Millisecond, 12)
	if n := p.rows(shareTime, true, known.ratio()); n != 64 {
		t.Errorf("%d rows when short slices are quick, want 64", n)
	}
}

// TestPromptOnASlowStageIsNotOneRowPerCall: slices were 200 ms also where a step
// takes longer, which made each of them a single row.
func TestPromptOnASlowStageIsNotOneRowPerCall(t *testing.T) {
	t.Parallel()
	const step, row, prompt = 300 * time.Millisecond, 8 * time.Millisecond, 1024
	now := time.Unix(1000, 0)
	s := prefilling(prompt, 0)
	st := &state{sessions: map[uint32]*session{1: s, 2: {slot: 2}}, cfg: wire.Load{ChunkRows: prompt}, stepMicros: step.Microseconds()}
	st.pace.took(step+64*row, 64)
	calls, longest := 0, time.Duration(0)
	for done := 0; done < prompt; calls++ {
		st.sessions[2].decoded = now
		s.queue[0].done = done
		n := st.slice(s, now)
		took := step + time.Duration(n)*row
		st.sliced(s, uint32(done), took, n)
		now, done, longest = now.Add(took+step), done+n, max(longest, took)
	}
	if calls > prompt/16 {
		t.Errorf("%d calls for %d rows", calls, prompt)
	}
	if longest > 2*st.share() {
		t.Errorf("a slice took %s, more than twice its share of %s", longest, st.share())
	}
}
