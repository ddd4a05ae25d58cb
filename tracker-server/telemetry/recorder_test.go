package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/protocol"
)

// memory is a Store that can be broken and slow.
type memory struct {
	mu      sync.Mutex
	rows    []Row
	minutes map[time.Time]Figures
	err     error
	block   chan struct{} // Write waits for it, where it is not nil
	closed  int
	opened  int
	more    int // calls of Prune that find something
	pruned  []time.Time
}

func (m *memory) open(context.Context) (Store, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened++
	if m.err != nil {
		return nil, m.err
	}
	return m, nil
}

// written is a copy of the rows: the recorder may write on meanwhile.
func (m *memory) written() []Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.rows)
}

func (m *memory) minute(at time.Time) Figures {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.minutes[at]
}

func (m *memory) counts() (rows, opened, closed int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows), m.opened, m.closed
}

func (m *memory) Write(_ context.Context, b *Batch) error {
	m.mu.Lock()
	block := m.block
	m.mu.Unlock()
	if block != nil {
		<-block
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.rows = append(m.rows, b.Samples...)
	if m.minutes == nil {
		m.minutes = map[time.Time]Figures{}
	}
	for _, f := range b.Minutes {
		m.minutes[f.At] = f
	}
	return nil
}

func (m *memory) History(context.Context, protocol.SessionID) (*History, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return nil, m.err
}

func (m *memory) Minutes(_ context.Context, from, to time.Time) (out []Figures, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		if f, ok := m.minutes[at]; ok {
			out = append(out, f)
		}
	}
	return out, m.err
}

func (m *memory) Prune(_ context.Context, before time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pruned = append(m.pruned, before)
	m.more--
	return m.more >= 0, m.err
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed++
	return nil
}

func (m *memory) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// sink keeps what was published.
type sink struct {
	mu   sync.Mutex
	list []*Snapshot
}

func (s *sink) Publish(t *Snapshot, _ bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, t)
}

func (s *sink) published() []*Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// start runs a recorder in the test's bubble; the bubble's clock starts on a
// full minute.
func start(t *testing.T, o Options) *Recorder {
	r := New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

func sid(i int) protocol.SessionID { return protocol.SessionID(fmt.Sprintf("s-%026d", i)) }

func snap(i int, p protocol.Phase, prefill, tokens int) *Snapshot {
	return &Snapshot{Session: sid(i), Model: "m", Name: "guide", At: time.Now(), Phase: p, Context: 4096, PrefillDone: prefill, PrefillTotal: prefill, Tokens: tokens, Hops: []Hop{{Node: "a"}}}
}

func ended(s *Snapshot, code protocol.Code) *Snapshot {
	s.End = &End{Finish: protocol.FinishStop, Code: code}
	if code != "" {
		s.End.Finish = protocol.FinishError
	}
	return s
}

func flush(t *testing.T, r *Recorder) {
	t.Helper()
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &memory{}
		ready := 3
		r := start(t, Options{Open: st.open, Keep: time.Hour, Nodes: func() int { return ready }})
		begin := time.Now()
		r.Snapshot(snap(1, protocol.PhaseRouting, 0, 0))
		r.Snapshot(snap(1, protocol.PhasePrefill, 100, 0))
		r.Snapshot(snap(1, protocol.PhaseDecode, 100, 7))
		r.Snapshot(snap(1, protocol.PhaseDecode, 100, 5)) // out of order: counts never go back
		// A session of an earlier run: what it did before is not done now.
		r.Snapshot(snap(2, protocol.PhaseDecode, 900, 400))
		r.Credit(2_000_000)
		flush(t, r)
		time.Sleep(90 * time.Second)
		r.Snapshot(snap(2, protocol.PhaseDecode, 900, 410))
		r.Snapshot(ended(snap(1, protocol.PhaseDone, 100, 9), ""))
		r.Snapshot(ended(snap(2, protocol.PhaseFailed, 900, 410), protocol.CodeHopLost))
		r.Snapshot(snap(3, protocol.PhaseRouting, 0, 0))
		r.Snapshot(ended(snap(3, protocol.PhaseFailed, 0, 0), protocol.CodeCancelled))
		time.Sleep(60 * time.Second)
		synctest.Wait()
		got, err := r.Figures(t.Context(), begin, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		want := []Figures{
			{At: begin, Tokens: 7, Prefill: 100, Started: 1, Nodes: 3, Credit: 2_000_000, Measured: 1},
			{At: begin.Add(time.Minute), Tokens: 12, Started: 1, Ended: 3, Failed: 1, Nodes: 3, Measured: 1},
		}
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		sum, err := r.Figures(t.Context(), begin, time.Hour)
		if err != nil || len(sum) != 1 || sum[0].Tokens != 19 || sum[0].Measured != 2 || sum[0].Nodes != 3 {
			t.Errorf("an hour: %+v, %v", sum, err)
		}
		if got := st.minute(begin); got != want[0] {
			t.Errorf("stored %+v", got)
		}
		if tot := r.Totals(); tot.Tokens != 19 || tot.Prefill != 100 || tot.Credit != 2_000_000 || tot.Dropped != 0 {
			t.Errorf("totals %+v", tot)
		}
	})
}

func TestFiguresRefuses(t *testing.T) {
	t.Parallel()
	r := New(Options{})
	now := time.Now()
	for name, c := range map[string]struct {
		since time.Time
		step  time.Duration
	}{
		"seconds": {now, time.Second}, "a minute and a bit": {now, 61 * time.Second}, "negative": {now, -time.Minute}, "a year": {now, 365 * 24 * time.Hour},
		"future": {now.Add(time.Hour), time.Minute}, "too many steps": {now.Add(-MaxSteps * 2 * time.Minute), time.Minute}, "long ago": {time.Time{}, 24 * time.Hour},
	} {
		if _, err := r.Figures(t.Context(), c.since, c.step); !errors.Is(err, &protocol.Error{Code: protocol.CodeInvalidRequest}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.History(t.Context(), sid(1)); !errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
		t.Errorf("history: %v", err)
	}
}

// TestNobodyWaits: with a disk that does not answer, and with a queue that is
// full, handing in a snapshot takes no time; what is lost is counted.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &memory{block: make(chan struct{})}
		feed := &sink{}
		r := start(t, Options{Open: st.open, Keep: time.Hour, Sink: feed, Queue: 100})
		total := int64(maxPending + 3000)
		for i := range total {
			r.Snapshot(snap(int(i), protocol.PhaseRouting, 0, 0)) // each its own session: all would be kept
			if i%50 == 49 {
				synctest.Wait() // the intake has taken them, and the disk still does not answer
			}
		}
		synctest.Wait()
		if n := int64(len(feed.published())); n != total {
			t.Errorf("%d of %d reached the subscribers while the disk hung", n, total)
		}
		lost := r.Totals().Dropped
		if lost == 0 {
			t.Error("nothing was dropped")
		}
		close(st.block)
		flush(t, r)
		if n := int64(len(st.written())); n+lost != total {
			t.Errorf("%d written and %d dropped of %d", n, lost, total)
		}
	})
	// Without Run the queue fills and the rest is dropped.
	r := New(Options{Queue: 10})
	for i := range 25 {
		r.Snapshot(snap(i, protocol.PhaseRouting, 0, 0))
	}
	if n := r.Totals().Dropped; n != 15 {
		t.Errorf("%d dropped, want 15", n)
	}
}

// TestSamples: a session of two hours is kept in some hundred points, denser
// at its beginning, and with all its phases and its end.
func TestSamples(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &memory{}
		r := start(t, Options{Open: st.open, Keep: time.Hour})
		r.Snapshot(snap(1, protocol.PhaseRouting, 0, 0))
		for i := range 4 * 7200 {
			r.Snapshot(snap(1, protocol.PhaseDecode, 10, i))
			time.Sleep(250 * time.Millisecond)
		}
		r.Snapshot(ended(snap(1, protocol.PhaseDone, 10, 28_800), ""))
		flush(t, r)
		phases, first := 0, 0
		rows := st.written()
		for _, row := range rows {
			if row.NewPhase {
				phases++
			}
			if row.At.Sub(rows[0].At) < 30*time.Second {
				first++
			}
		}
		if n := len(rows); n < 300 || n > 700 || phases != 3 || first < 25 || rows[n-1].End == nil {
			t.Errorf("%d rows, %d phases, %d in the first half minute", n, phases, first)
		}
		if r.Totals().Dropped != 0 {
			t.Errorf("%d dropped", r.Totals().Dropped)
		}
	})
}

// TestPrivate: nothing but phases, model and end of a private session leaves.
func TestPrivate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, feed := &memory{}, &sink{}
		r := start(t, Options{Open: st.open, Keep: time.Hour, Sink: feed})
		begin := time.Now()
		for i, p := range []protocol.Phase{protocol.PhaseRouting, protocol.PhasePrefill, protocol.PhaseDecode, protocol.PhaseDecode} {
			s := snap(1, p, 10*i, 3*i)
			s.Private, s.TokensPerSecond = true, 5
			r.Snapshot(s)
			time.Sleep(5 * time.Second)
		}
		s := ended(snap(1, protocol.PhaseFailed, 30, 12), protocol.CodeHopLost)
		hop := 1
		s.Private, s.End.Hop = true, &hop
		r.Snapshot(s)
		flush(t, r)
		rows, told := st.written(), feed.published()
		if len(rows) != 4 || len(told) != 5 {
			t.Fatalf("%d rows, %d published", len(rows), len(told))
		}
		for _, row := range rows {
			told = append(told, row.Snapshot)
			if row.Sampled {
				t.Error("a sample of a private session")
			}
		}
		for _, s := range told {
			if s.Tokens != 0 || s.PrefillDone != 0 || s.PrefillTotal != 0 || s.TokensPerSecond != 0 || s.Hops != nil || s.Context != 0 || s.FirstToken != 0 || s.End != nil && s.End.Hop != nil {
				t.Errorf("a private session tells %+v", s)
			}
		}
		time.Sleep(time.Minute)
		if got, _ := r.Figures(t.Context(), begin, time.Hour); len(got) != 1 || got[0].Started != 1 || got[0].Tokens != 12 {
			t.Errorf("sums %+v", got)
		}
	})
}

// TestStoreFails: while the store fails everything else works; it is opened
// again by itself, and the batch of the failure is counted as lost.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &memory{err: errors.New("no disk")}
		r := start(t, Options{Open: st.open, Keep: time.Hour})
		r.Snapshot(snap(1, protocol.PhaseRouting, 0, 0))
		flush(t, r)
		if r.Failed() == nil || r.Totals().Dropped != 1 {
			t.Errorf("failed %v, %d dropped", r.Failed(), r.Totals().Dropped)
		}
		if _, err := r.History(t.Context(), sid(1)); !errors.Is(err, &protocol.Error{Code: protocol.CodeUnavailable}) {
			t.Errorf("history: %v", err)
		}
		st.set(nil)
		time.Sleep(15 * time.Second)
		if r.Failed() != nil {
			t.Errorf("still %v", r.Failed())
		}
		r.Snapshot(snap(2, protocol.PhaseRouting, 0, 0))
		flush(t, r)
		if n, _, _ := st.counts(); n != 1 {
			t.Errorf("%d rows", n)
		}
		st.set(errors.New("pulled out"))
		r.Snapshot(snap(3, protocol.PhaseRouting, 0, 0))
		flush(t, r)
		if _, _, n := st.counts(); n != 1 || r.Failed() == nil {
			t.Errorf("closed %d times, %v", n, r.Failed())
		}
		time.Sleep(60 * time.Second)
		if _, n, _ := st.counts(); n > 10 {
			t.Errorf("opened %d times in a minute", n)
		}
		st.set(nil)
	})
}

// TestPrunes: forgetting goes in steps, a second apart while there is more.
func TestPrunes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &memory{more: 5}
		start(t, Options{Open: st.open, Keep: 30 * 24 * time.Hour})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		st.mu.Lock()
		pruned := slices.Clone(st.pruned)
		st.mu.Unlock()
		if len(pruned) != 6 {
			t.Fatalf("%d steps", len(pruned))
		}
		if age := time.Since(pruned[0]); age < 30*24*time.Hour || age > 30*24*time.Hour+time.Minute {
			t.Errorf("kept for %s", age)
		}
	})
}

// TestForgetsLostEnds: sessions whose end was dropped do not stay in memory.
func TestForgetsLostEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		in := &intake{r: r, live: map[protocol.SessionID]*known{}, minute: Figures{At: time.Now()}, swept: time.Now()}
		for i := range 100 {
			in.take(snap(i, protocol.PhaseDecode, 0, 0))
		}
		time.Sleep(forgetAfter + time.Minute)
		in.take(snap(7, protocol.PhaseDecode, 0, 0))
		in.sweep(time.Now())
		if len(in.live) != 1 {
			t.Errorf("%d sessions in memory", len(in.live))
		}
	})
}

// TestRestart: the day before a restart is read back, and a minute that both
// runs have a part of is whole.
func TestRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		st := &memory{minutes: map[time.Time]Figures{begin: {At: begin, Tokens: 5, Measured: 1}, begin.Add(-time.Hour): {At: begin.Add(-time.Hour), Tokens: 50, Measured: 1}}}
		r := start(t, Options{Open: st.open, Keep: time.Hour})
		r.Snapshot(snap(1, protocol.PhaseRouting, 0, 0))
		r.Snapshot(snap(1, protocol.PhaseDecode, 0, 2))
		time.Sleep(61 * time.Second)
		got, err := r.Figures(t.Context(), begin.Add(-2*time.Hour), time.Minute)
		if err != nil || len(got) != 2 || got[0].Tokens != 50 || got[1].Tokens != 7 || got[1].Measured != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestFromIsBounded(t *testing.T) {
	t.Parallel()
	s := &Snapshot{Context: 100}
	s.From(&protocol.Telemetry{Seq: 1, Tokens: 1 << 30, PrefillDone: 90, PrefillTotal: 80, Request: "my prompt", Name: "x", Route: []protocol.HopTelemetry{
		{Node: "a", Counters: protocol.Counters{DecodeSteps: 4, DecodeMicros: 4400, PrefillMicros: 100, DecodeBytesIn: 5, PrefillBytesIn: 6}}}})
	if s.Tokens != 100 || s.PrefillDone != 80 || s.PrefillTotal != 80 || s.Hops[0].Step != 1100 || s.Hops[0].Micros != 4500 || s.Hops[0].In != 11 {
		t.Errorf("%+v", s)
	}
	e := EndOf("as I like it: my prompt", &protocol.Error{Code: "my_code", Message: "my prompt"})
	if e.Finish != "other" || e.Code != "other" {
		t.Errorf("%+v", e)
	}
}

// counting counts transactions.
type counting struct {
	*memory
	writes int // guarded by memory's mu
}

func (c *counting) Write(ctx context.Context, b *Batch) error {
	c.mu.Lock()
	c.writes++
	c.mu.Unlock()
	return c.memory.Write(ctx, b)
}

// TestSnapshotsShareATransaction: each that came alone was a transaction of its
// own, with all the pages that one changes.
func TestSnapshotsShareATransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &counting{memory: &memory{}}
		r := start(t, Options{Open: func(context.Context) (Store, error) { return st, nil }, Keep: time.Hour})
		for i := range 100 {
			r.Snapshot(snap(i, protocol.PhaseRouting, 0, 0))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(gatherFor)
		synctest.Wait()
		st.mu.Lock()
		defer st.mu.Unlock()
		if n := len(st.rows); n != 100 || st.writes > 5 {
			t.Errorf("%d rows in %d transactions", n, st.writes)
		}
	})
}
