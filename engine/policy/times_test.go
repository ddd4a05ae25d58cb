package policy

import (
	"testing"
	"time"

	"neuron/engine/protocol"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestPauses(t *testing.T) {
	t.Parallel()
	k := newDesk()
	p, err := PauseFor(k.now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	k.s.Pause = p
	end := noon.Add(time.Hour)
	if d := k.look(time.Second); d.Reason != protocol.SharingUserPause || !d.Until.Equal(end) {
		t.Errorf("%+v", d)
	}
	if d := k.look(end.Sub(k.now) - time.Second); d.Allow {
		t.Errorf("too early: %+v", d)
	}
	if d := k.look(time.Second); !d.Allow {
		t.Errorf("at the end: %+v", d)
	}
	k.s.Pause = Pause{UntilResumed: true}
	if d := k.look(100 * time.Hour); d.Reason != protocol.SharingUserPause || !d.Until.IsZero() {
		t.Errorf("until resumed: %+v", d)
	}
	for _, d := range []time.Duration{0, -time.Hour, time.Minute - 1, 7*24*time.Hour + 1} {
		if _, err := PauseFor(noon, d); codeOf(err) != protocol.CodeInvalidRequest {
			t.Errorf("%s: %v", d, err)
		}
	}
}

// TestUntilTomorrow is six in the morning on the clock of the wall.
func TestUntilTomorrow(t *testing.T) {
	t.Parallel()
	b := berlin()
	for _, c := range []struct {
		now  time.Time
		long time.Duration
	}{
		{time.Date(2026, 11, 30, 12, 0, 0, 0, b), 18 * time.Hour},
		{time.Date(2026, 11, 30, 0, 30, 0, 0, b), 29*time.Hour + 30*time.Minute},
		{time.Date(2026, 12, 31, 23, 59, 0, 0, b), 6*time.Hour + time.Minute},
		{time.Date(2026, 3, 28, 20, 0, 0, 0, b), 9 * time.Hour},   // the night that lacks an hour
		{time.Date(2026, 10, 24, 20, 0, 0, 0, b), 11 * time.Hour}, // the night that has one twice
	} {
		p := PauseTomorrow(c.now)
		if h, m, _ := p.Until.Clock(); h != 6 || m != 0 || p.Until.Sub(c.now) != c.long {
			t.Errorf("from %s until %s, %s", c.now, p.Until, p.Until.Sub(c.now))
		}
	}
}

// nights is a schedule from 22 to 6 every day.
func nights() Schedule {
	s := Schedule{On: true}
	for i := range s.Hours {
		s.Hours[i] = 0x3f | 3<<22
	}
	return s
}

func TestScheduleTellsItsNextChange(t *testing.T) {
	t.Parallel()
	k := newDesk()
	k.s.Schedule = nights()
	d := k.look(time.Second)
	if want := time.Date(2026, 11, 30, 22, 0, 0, 0, berlin()); d.Reason != protocol.SharingSchedule || !d.Until.Equal(want) {
		t.Errorf("%+v, want %s", d, want)
	}
	k.look(d.Until.Sub(k.now) - time.Second)
	if k.d.Allow {
		t.Errorf("a second before: %+v", k.d)
	}
	if d := k.look(time.Second); d.State != protocol.SharingOn || !d.Until.Equal(time.Date(2026, 12, 1, 6, 0, 0, 0, berlin())) {
		t.Errorf("open: %+v", d)
	}
	k.s.Schedule = Schedule{On: true}
	if d := k.look(time.Second); d.Allow || !d.Until.IsZero() {
		t.Errorf("never open: %+v", d)
	}
	k.s.Schedule = Schedule{On: true, Hours: Defaults().Schedule.Hours}
	if d := k.look(time.Second); !d.Allow || !d.Until.IsZero() {
		t.Errorf("always open: %+v", d)
	}
	// One hour of the week: Sunday, eleven at night.
	k.s.Schedule = Schedule{On: true, Hours: [7]uint32{6: 1 << 23}}
	k.now = noon
	if d := k.look(0); !d.Until.Equal(time.Date(2026, 12, 6, 23, 0, 0, 0, berlin())) {
		t.Errorf("until %s", d.Until)
	}
}

// TestScheduleAndTheClocksChange: hours are those of the clock on the wall.
func TestScheduleAndTheClocksChange(t *testing.T) {
	t.Parallel()
	b, island := berlin(), zone(t, "Australia/Lord_Howe")
	third := Schedule{On: true}
	for i := range third.Hours {
		third.Hours[i] = 1 << 2 // two to three
	}
	for _, c := range []struct {
		name       string
		now        time.Time
		open, shut time.Time
	}{
		{"the hour is skipped, and comes the next day", time.Date(2026, 3, 29, 0, 0, 0, 0, b), time.Date(2026, 3, 30, 2, 0, 0, 0, b), time.Date(2026, 3, 30, 3, 0, 0, 0, b)},
		{"the hour comes twice", time.Date(2026, 10, 25, 0, 0, 0, 0, b), time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 2, 0, 0, 0, time.UTC)},
		{"half of the hour is skipped", time.Date(2026, 10, 4, 1, 0, 0, 0, island), time.Date(2026, 10, 4, 2, 30, 0, 0, island), time.Date(2026, 10, 4, 3, 0, 0, 0, island)},
		{"an ordinary night", time.Date(2026, 11, 30, 12, 0, 0, 0, b), time.Date(2026, 12, 1, 2, 0, 0, 0, b), time.Date(2026, 12, 1, 3, 0, 0, 0, b)},
	} {
		open := third.Next(c.now)
		shut := third.Next(open)
		if third.Open(c.now) || !open.Equal(c.open) || !third.Open(open) || !shut.Equal(c.shut) || third.Open(shut) {
			t.Errorf("%s: open %s to %s, want %s to %s", c.name, open, shut, c.open, c.shut)
		}
	}
}

func TestScheduleOfTheWeekBeginsOnMonday(t *testing.T) {
	t.Parallel()
	for day := range 7 {
		s := Schedule{On: true}
		s.Hours[day] = 1 << 12
		for i := range 7 {
			if got := s.Open(noon.AddDate(0, 0, i)); got != (i == day) {
				t.Errorf("bit of day %d, on %s: %v", day, noon.AddDate(0, 0, i).Weekday(), got)
			}
		}
	}
}

func TestQuotaEndsAtMidnight(t *testing.T) {
	t.Parallel()
	k := newDesk()
	k.s.Limits.DayBytes = 2e9
	k.x.Work.Used = Usage{}.Add(k.now, 1_999_999_999)
	if d := k.look(time.Second); !d.Allow {
		t.Fatalf("%+v", d)
	}
	k.x.Work.Used = k.x.Work.Used.Add(k.now, 1)
	d := k.look(time.Second)
	midnight := time.Date(2026, 12, 1, 0, 0, 0, 0, berlin())
	if d.Reason != protocol.SharingQuota || !d.Until.Equal(midnight) || d.Transfer {
		t.Errorf("%+v", d)
	}
	k.look(midnight.Sub(k.now) - time.Second)
	if k.d.Allow {
		t.Errorf("before midnight: %+v", k.d)
	}
	if d := k.look(time.Second); !d.Allow {
		t.Errorf("at midnight: %+v", d)
	}
	if u := k.x.Work.Used.Add(k.now, 5); u != (Usage{Day: "2026-12-01", Bytes: 5}) {
		t.Errorf("%+v", u)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	u := Usage{}.Add(noon, 1<<62).Add(noon, 1<<62)
	if u.Bytes != 1<<63-1 {
		t.Errorf("%+v", u)
	}
	if u := (Usage{Day: "2026-11-30", Bytes: -5}).Add(noon, -7); u.Bytes != 0 {
		t.Errorf("%+v", u)
	}
	// A day that begins at one o'clock: Cairo, 2026-04-24.
	cairo := zone(t, "Africa/Cairo")
	now := time.Date(2026, 4, 23, 20, 0, 0, 0, cairo)
	next := nextDay(now)
	if day(next) != "2026-04-24" || day(next.Add(-time.Second)) != "2026-04-23" {
		t.Errorf("the next day begins at %s", next)
	}
}

// BenchmarkDecide has a schedule that is open for an hour of the week, the worst
// for its next change.
func BenchmarkDecide(b *testing.B) {
	k := newDesk()
	k.s.Schedule = Schedule{On: true, Hours: [7]uint32{6: 1 << 23}}
	for b.Loop() {
		k.look(0)
	}
}
