package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"neuron/engine/protocol"
)

// forbidden says by the letter of the settings whether sharing is forbidden now,
// apart from hysteresis and from decide.go.
func forbidden(s Settings, x Signals, now time.Time) string {
	y := x.System
	switch {
	case !s.Share:
		return "off"
	case !s.SetUp:
		return "not set up"
	case s.Pause.UntilResumed || s.Pause.Until.After(now):
		return "paused"
	case s.Schedule.On && s.Schedule.Hours[[7]int{6, 0, 1, 2, 3, 4, 5}[now.Weekday()]]&(1<<now.Hour()) == 0:
		return "schedule"
	case s.Limits.DayBytes > 0 && x.Work.Used.Day == now.Format("2006-01-02") && x.Work.Used.Bytes >= s.Limits.DayBytes:
		return "quota"
	}
	if _, ok := x.Work.Own[protocol.SharingStopping]; ok {
		return "stopping"
	}
	old := now.Sub(y.At).Abs() > 30*time.Second
	switch r := s.Rules; {
	case !r.OnBattery && (old || !y.OnBattery.Asked || y.OnBattery.Value):
		return "battery"
	case !r.OnMetered && (old || !y.Metered.Asked || y.Metered.Value):
		return "metered"
	case r.FullScreen && (old || !y.FullScreen.Asked || y.FullScreen.Value):
		return "full screen"
	case r.OnlyIdle && (old || !y.Idle.Known || y.Idle.Value < time.Duration(r.IdleMinutes)*time.Minute):
		return "idle"
	case len(r.Apps) > 0 && (old || !y.Apps.Asked || len(y.Apps.Value) > 0):
		return "programs"
	case r.BusyPercent > 0 && (old || !y.OtherPercent.Asked):
		return "processor"
	case old || !y.Pressure.Asked:
		return "memory"
	}
	return ""
}

// TestNeverSharesWhileARuleForbids walks at random through settings, signals and
// times, clock jumps and sleep included.
func TestNeverSharesWhileARuleForbids(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		chance := func(n int) bool { return rng.IntN(n) == 0 }
		k := newDesk()
		k.s.Rules.Apps = []string{"game"}
		busyFor, pressedFor := time.Duration(0), time.Duration(0)
		shared := 0
		for step := range 2000 {
			y := &k.x.System
			flip := func(b *bool, likely int) {
				if chance(likely) {
					*b = !*b
				}
			}
			signal := func(b *Told[bool]) {
				if chance(12) {
					*b = []Told[bool]{{}, NotTold[bool](), Tell(true), Tell(false), Tell(false), Tell(false), Tell(false)}[rng.IntN(7)]
				}
			}
			if chance(40) {
				flip(&k.s.Share, 2)
				k.s.Share = k.s.Share || chance(2)
				k.s.SetUp = !chance(8)
				k.s.Schedule.On = chance(2)
				k.s.Schedule.Hours[rng.IntN(7)] = rng.Uint32() & allDay
				k.s.Pause = Pause{}
				if chance(4) {
					k.s.Pause.Until = k.now.Add(time.Duration(rng.IntN(600)) * time.Second)
				}
				k.s.Limits.DayBytes = int64(rng.IntN(3)) * 1e9
				k.s.Rules = Rules{OnlyIdle: chance(2), IdleMinutes: 1 + rng.IntN(5), OnBattery: chance(2), OnMetered: chance(2), FullScreen: chance(2), BusyPercent: rng.IntN(2) * 25}
				if chance(2) {
					k.s.Rules.Apps = []string{"game"}
				}
			}
			signal(&y.OnBattery)
			signal(&y.Metered)
			signal(&y.FullScreen)
			if chance(10) {
				y.Idle = []Told[time.Duration]{{}, NotTold[time.Duration](), Tell(time.Second), Tell(time.Hour), Tell(time.Hour)}[rng.IntN(5)]
			}
			if chance(20) {
				y.Apps = []Told[[]string]{{}, NotTold[[]string](), Tell([]string{"game"}), Tell([]string{}), Tell([]string{})}[rng.IntN(5)]
			}
			if chance(10) {
				y.OtherPercent = []Told[float64]{{}, NotTold[float64](), Tell(90.0), Tell(3.0), Tell(3.0)}[rng.IntN(5)]
			}
			if chance(20) {
				y.Pressure = []Told[float64]{NotTold[float64](), Tell(0.95), Tell(0.0), Tell(0.1)}[rng.IntN(4)]
			}
			k.x.Work = Work{Sessions: rng.IntN(3), Used: Usage{Day: k.now.Format(time.DateOnly), Bytes: int64(rng.IntN(4)) * 7e8}}
			if chance(10) {
				k.own(protocol.SharingReasons()[rng.IntN(21)], "x")
			}
			after := time.Duration(rng.IntN(10_000)) * time.Millisecond
			if chance(30) {
				after = time.Duration(rng.IntN(100_000)-30_000) * time.Second
			}
			k.now = k.now.Add(after)
			if !chance(20) {
				y.At = k.now
			}
			was := k.d
			k.d = Decide(k.s, k.x, k.now, was)

			d := k.d
			why := forbidden(k.s, k.x, k.now)
			if why != "" && (d.Allow || d.State == protocol.SharingOn || d.Reason == "") {
				t.Fatalf("seed %d, step %d: shares, forbidden by %s: %+v\n%+v\n%+v", seed, step, why, d, k.s, k.x)
			}
			busyFor = held(busyFor, after, k.s.Rules.BusyPercent > 0 && y.OtherPercent.Value > 25 && y.OtherPercent.Known)
			pressedFor = held(pressedFor, after, y.Pressure.Value > 0.9 && y.Pressure.Known)
			if d.Allow && (busyFor > 25*time.Second || pressedFor > 25*time.Second) {
				t.Fatalf("seed %d, step %d: shares against other programs for %s, %s: %+v", seed, step, busyFor, pressedFor, d)
			}
			if err := consistent(d, k.now, k.x.Work.Sessions); err != nil {
				t.Fatalf("seed %d, step %d: %v: %+v", seed, step, err, d)
			}
			if d.State == protocol.SharingOn {
				shared++
			}
		}
		if shared == 0 {
			t.Errorf("seed %d never shared: the walk proves nothing", seed)
		}
	}
}

// held counts for how long something has been seen without a gap.
func held(so, after time.Duration, seen bool) time.Duration {
	switch {
	case !seen:
		return 0
	case after < 0 || after > 30*time.Second:
		return 0
	}
	return so + after
}

// consistent holds a decision against itself.
func consistent(d Decision, now time.Time, sessions int) error {
	switch {
	case (d.State == protocol.SharingOn) != (d.Reason == ""):
		return fmt.Errorf("state %s with reason %q", d.State, d.Reason)
	case d.Reason == "" && (!d.Allow || !d.Transfer):
		return fmt.Errorf("shares and does not allow")
	case d.Since.After(now) || d.Since.IsZero():
		return fmt.Errorf("since %s", d.Since)
	case !d.Until.IsZero() && d.Until.Before(now):
		return fmt.Errorf("until %s, which is over", d.Until)
	case d.State == protocol.SharingLeaving && sessions == 0:
		return fmt.Errorf("leaving without sessions")
	case !d.EndBy.IsZero() && (d.Allow || sessions == 0 || d.EndBy.After(now.Add(gracePatient))):
		return fmt.Errorf("end by %s", d.EndBy)
	case !d.Allow && sessions > 0 && d.EndBy.IsZero():
		return fmt.Errorf("sessions without an end")
	case d.KeepAwake && sessions == 0:
		return fmt.Errorf("awake for nothing")
	}
	return nil
}
