package policy

import (
	"slices"
	"testing"
	"time"

	"neuron/engine/protocol"
)

// noon is a Monday in winter.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, berlin())

func berlin() *time.Location {
	l, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return l
}

// willing are settings of somebody who shares.
func willing() Settings {
	s := Defaults()
	s.SetUp, s.Share, s.Tracker = true, true, "https://tracker.example"
	return s
}

// desk plays decisions one after another.
type desk struct {
	s   Settings
	x   Signals
	now time.Time
	d   Decision
}

func newDesk() *desk {
	k := &desk{s: willing(), x: Signals{System: Undisturbed(noon)}, now: noon}
	k.look(0)
	return k
}

// look decides after a time, with signals as fresh as that.
func (k *desk) look(after time.Duration) Decision {
	k.now = k.now.Add(after)
	k.x.System.At = k.now
	k.d = Decide(k.s, k.x, k.now, k.d)
	return k.d
}

// pass lets time pass in looks of two seconds.
func (k *desk) pass(d time.Duration) Decision {
	for ; d > 0; d -= 2 * time.Second {
		k.look(2 * time.Second)
	}
	return k.d
}

func (k *desk) own(r protocol.SharingReason, detail string) {
	k.x.Work.Own = map[protocol.SharingReason]string{r: detail}
}

// causes bring about each reason, alone.
var causes = map[protocol.SharingReason]func(k *desk){
	protocol.SharingUserOff:     func(k *desk) { k.s.Share = false },
	protocol.SharingNotSetUp:    func(k *desk) { k.s.SetUp = false },
	protocol.SharingUserPause:   func(k *desk) { k.s.Pause.UntilResumed = true },
	protocol.SharingStopping:    func(k *desk) { k.own(protocol.SharingStopping, "") },
	protocol.SharingFailed:      func(k *desk) { k.own(protocol.SharingFailed, "the library is missing") },
	protocol.SharingNoTracker:   func(k *desk) { k.own(protocol.SharingNoTracker, "") },
	protocol.SharingOperator:    func(k *desk) { k.own(protocol.SharingOperator, "") },
	protocol.SharingSchedule:    func(k *desk) { k.s.Schedule = Schedule{On: true} },
	protocol.SharingBattery:     func(k *desk) { k.x.System.OnBattery = Tell(true) },
	protocol.SharingMetered:     func(k *desk) { k.x.System.Metered = Tell(true) },
	protocol.SharingQuota:       func(k *desk) { k.s.Limits.DayBytes, k.x.Work.Used = 1e9, Usage{Day: "2026-11-30", Bytes: 1e9} },
	protocol.SharingFullScreen:  func(k *desk) { k.x.System.FullScreen = Tell(true) },
	protocol.SharingApp:         func(k *desk) { k.s.Rules.Apps, k.x.System.Apps = []string{"Game.exe"}, Tell([]string{"game"}) },
	protocol.SharingUserActive:  func(k *desk) { k.s.Rules.OnlyIdle, k.x.System.Idle = true, Tell(time.Minute) },
	protocol.SharingIdleUnknown: func(k *desk) { k.s.Rules.OnlyIdle, k.x.System.Idle = true, NotTold[time.Duration]() },
	protocol.SharingOtherWork:   func(k *desk) { k.x.System.OtherPercent = Tell(53.4) },
	protocol.SharingHostBusy:    func(k *desk) { k.own(protocol.SharingHostBusy, "") },
	protocol.SharingMemory:      func(k *desk) { k.x.System.Pressure = Tell(0.9) },
	protocol.SharingDisk:        func(k *desk) { k.own(protocol.SharingDisk, "") },
	protocol.SharingNoModel:     func(k *desk) { k.own(protocol.SharingNoModel, "") },
	protocol.SharingStarting:    func(k *desk) { k.own(protocol.SharingStarting, "loading") },
}

func TestUndisturbedShares(t *testing.T) {
	t.Parallel()
	k := newDesk()
	if d := k.d; d.State != protocol.SharingOn || d.Reason != "" || !d.Allow || !d.Transfer || d.Woke || !d.Since.Equal(noon) || !d.Until.IsZero() || len(d.Unknown) != 0 {
		t.Errorf("%+v", d)
	}
	if d := k.look(5 * time.Second); !d.Since.Equal(noon) {
		t.Errorf("since %s", d.Since)
	}
}

// TestEachReason brings each about alone; what it forbids and how it is told.
func TestEachReason(t *testing.T) {
	t.Parallel()
	off := map[protocol.SharingReason]bool{protocol.SharingUserOff: true, protocol.SharingNotSetUp: true}
	allows := []protocol.SharingReason{
		protocol.SharingFailed, protocol.SharingNoTracker, protocol.SharingOperator, protocol.SharingHostBusy, protocol.SharingDisk, protocol.SharingNoModel, protocol.SharingStarting,
	}
	transfers := append([]protocol.SharingReason{protocol.SharingUserActive, protocol.SharingIdleUnknown, protocol.SharingOtherWork}, allows...)
	details := map[protocol.SharingReason]string{
		protocol.SharingFailed: "the library is missing", protocol.SharingStarting: "loading", protocol.SharingApp: "Game.exe", protocol.SharingOtherWork: "53 % are used by other programs",
		protocol.SharingQuota: "1.0 of 1.0 GB are used today", protocol.SharingUserActive: "goes on after 3 minutes without input",
	}
	for _, r := range protocol.SharingReasons() {
		k := newDesk()
		causes[r](k)
		d := k.pass(14 * time.Second)
		want := protocol.SharingPaused
		if off[r] {
			want = protocol.SharingOff
		}
		if d.State != want || d.Reason != r || d.Detail != details[r] || d.Allow != slices.Contains(allows, r) || d.Transfer != slices.Contains(transfers, r) {
			t.Errorf("%s: %+v", r, d)
		}
		if d.KeepAwake || !d.EndBy.IsZero() {
			t.Errorf("%s without sessions: %+v", r, d)
		}
	}
}

// TestTheStrongestReasonIsTold sets each pair of reasons at once.
func TestTheStrongestReasonIsTold(t *testing.T) {
	t.Parallel()
	all := protocol.SharingReasons()
	for i := range rules {
		if rules[i].reason != all[i] {
			t.Fatalf("rule %d is %s, the list has %s", i, rules[i].reason, all[i])
		}
	}
	for i, strong := range all {
		for _, weak := range all[i+1:] {
			if strong == protocol.SharingUserActive && weak == protocol.SharingIdleUnknown {
				continue // one or the other
			}
			k := newDesk()
			causes[weak](k)
			own := k.x.Work.Own
			causes[strong](k)
			for r, detail := range own {
				k.x.Work.Own[r] = detail
			}
			if d := k.pass(14 * time.Second); d.Reason != strong {
				t.Errorf("%s and %s: told %s", strong, weak, d.Reason)
			}
		}
	}
}

// TestARuleThatIsOffForbidsNothing turns each rule off while its signal stands.
func TestARuleThatIsOffForbidsNothing(t *testing.T) {
	t.Parallel()
	for r, off := range map[protocol.SharingReason]func(*Settings){
		protocol.SharingBattery:    func(s *Settings) { s.Rules.OnBattery = true },
		protocol.SharingMetered:    func(s *Settings) { s.Rules.OnMetered = true },
		protocol.SharingFullScreen: func(s *Settings) { s.Rules.FullScreen = false },
		protocol.SharingApp:        func(s *Settings) { s.Rules.Apps = nil },
		protocol.SharingUserActive: func(s *Settings) { s.Rules.OnlyIdle = false },
		protocol.SharingOtherWork:  func(s *Settings) { s.Rules.BusyPercent = 0 },
		protocol.SharingQuota:      func(s *Settings) { s.Limits.DayBytes = 0 },
		protocol.SharingSchedule:   func(s *Settings) { s.Schedule.On = false },
		protocol.SharingUserPause:  func(s *Settings) { s.Pause = Pause{} },
		protocol.SharingUserOff:    func(s *Settings) { s.Share = true },
	} {
		k := newDesk()
		causes[r](k)
		if d := k.pass(12 * time.Second); d.Reason != r {
			t.Fatalf("%s: %+v", r, d)
		}
		off(&k.s)
		if d := k.look(time.Second); d.State != protocol.SharingOn {
			t.Errorf("%s turned off: %+v", r, d)
		}
	}
}

func TestWhatIsNotToldIsNamed(t *testing.T) {
	t.Parallel()
	k := newDesk()
	k.s.Rules.Apps = []string{"x"}
	k.x.System = System{
		Idle: NotTold[time.Duration](), OnBattery: NotTold[bool](), Metered: NotTold[bool](), FullScreen: NotTold[bool](),
		OtherPercent: NotTold[float64](), Apps: NotTold[[]string](), Pressure: NotTold[float64](),
	}
	d := k.look(time.Second)
	want := []string{UnknownBattery, UnknownMetered, UnknownFullScreen, UnknownApps, UnknownProcessor, UnknownMemory}
	if d.State != protocol.SharingOn || !slices.Equal(d.Unknown, want) {
		t.Errorf("%+v", d)
	}
	k.s.Rules.OnlyIdle = true
	d = k.look(time.Second)
	if d.Allow || d.Reason != protocol.SharingIdleUnknown || !slices.Contains(d.Unknown, UnknownIdle) {
		t.Errorf("only when idle: %+v", d)
	}
	// Rules that are not in force miss nothing.
	k.s.Rules = Rules{OnBattery: true, OnMetered: true, IdleMinutes: 3}
	k.x.System.Pressure = Tell(0.0)
	if d := k.look(time.Second); len(d.Unknown) != 0 {
		t.Errorf("%v", d.Unknown)
	}
}

// TestNothingIsSharedBeforeTheSystemWasAsked, for each signal that a rule in
// force depends on.
func TestNothingIsSharedBeforeTheSystemWasAsked(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(*System){
		"idle": func(y *System) { y.Idle = Told[time.Duration]{} }, "battery": func(y *System) { y.OnBattery = Told[bool]{} }, "metered": func(y *System) { y.Metered = Told[bool]{} },
		"full screen": func(y *System) { y.FullScreen = Told[bool]{} }, "processor": func(y *System) { y.OtherPercent = Told[float64]{} },
		"programs": func(y *System) { y.Apps = Told[[]string]{} }, "memory": func(y *System) { y.Pressure = Told[float64]{} },
	} {
		k := newDesk()
		k.s.Rules.OnlyIdle, k.s.Rules.Apps = true, []string{"x"}
		if d := k.look(time.Second); !d.Allow {
			t.Fatalf("%+v", d)
		}
		forget(&k.x.System)
		d := k.look(time.Second)
		if d.Allow || d.Transfer || d.State != protocol.SharingPaused || d.Reason != protocol.SharingStarting || d.Detail == "" || len(d.Unknown) != 0 {
			t.Errorf("%s: %+v", name, d)
		}
		if !d.Needs(k.s, k.now).Fast {
			t.Errorf("%s: nobody is in a hurry", name)
		}
	}
}

// TestAfterSleepSignalsAreOld: the time that is missing is seen, nothing is
// shared on what was known before, and the hysteresis begins anew.
func TestAfterSleepSignalsAreOld(t *testing.T) {
	t.Parallel()
	k := newDesk()
	k.x.System.OtherPercent = Tell(99.0)
	k.pass(8 * time.Second)
	old := k.x.System
	k.now = k.now.Add(3 * time.Hour)
	k.d = Decide(k.s, k.x, k.now, k.d)
	if d := k.d; !d.Woke || d.Allow || d.Reason != protocol.SharingStarting || !d.Since.Equal(k.now) {
		t.Errorf("awake: %+v", d)
	}
	if k.x.System.At != old.At {
		t.Error("the caller's signals were changed")
	}
	k.x.System.OtherPercent = Tell(5.0)
	if d := k.look(2 * time.Second); d.Woke || !d.Allow {
		t.Errorf("fresh signals: %+v", d)
	}
	// Busy right after sleep counts at once.
	k.x.System.OtherPercent = Tell(99.0)
	if d := k.look(31 * time.Second); !d.Woke || d.Reason != protocol.SharingOtherWork {
		t.Errorf("busy after sleep: %+v", d)
	}
	// A gap of no more than 30 s is none.
	if d := k.look(30 * time.Second); d.Woke {
		t.Errorf("%+v", d)
	}
}

func TestTheFirstDecisionIsNoWakeUp(t *testing.T) {
	t.Parallel()
	d := Decide(willing(), Signals{}, noon, Decision{})
	if d.Woke || d.Allow || d.Reason != protocol.SharingStarting {
		t.Errorf("%+v", d)
	}
	if n := (Decision{}).Needs(willing(), noon); !n.Fast || !n.Battery {
		t.Errorf("%+v", n)
	}
}

// TestTheClockIsSetBack: nothing lasts for longer than it would have.
func TestTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	k := newDesk()
	k.x.Work.Sessions = 1
	k.x.System.FullScreen = Tell(true)
	k.look(time.Second)
	d := k.look(-24 * time.Hour)
	if !d.Woke || d.Allow || d.Since.After(k.now) || d.EndBy.After(k.now.Add(15*time.Second)) {
		t.Errorf("%+v", d)
	}
	k.x.System.FullScreen = Tell(false)
	k.look(time.Second)
	k.now = k.now.Add(-3 * time.Second)
	if d := k.look(0); d.Until.After(k.now.Add(30 * time.Second)) {
		t.Errorf("waits until %s at %s", d.Until, k.now)
	}
	// Signals that seem to come from the future say nothing.
	k.x.System.At = k.now.Add(time.Hour)
	if d := Decide(k.s, k.x, k.now, k.d); d.Allow || d.Reason != protocol.SharingStarting {
		t.Errorf("from the future: %+v", d)
	}
}

func TestKeepAwake(t *testing.T) {
	t.Parallel()
	k := newDesk()
	if d := k.look(time.Second); d.KeepAwake {
		t.Error("without sessions")
	}
	k.x.Work.Sessions = 1
	if d := k.look(time.Second); !d.KeepAwake {
		t.Error("not with sessions")
	}
	k.s.Rules.OnBattery, k.x.System.OnBattery = true, Tell(true)
	if d := k.look(time.Second); d.KeepAwake || !d.Allow {
		t.Errorf("on battery: %+v", d)
	}
	k.x.System.OnBattery = NotTold[bool]()
	if d := k.look(time.Second); d.KeepAwake {
		t.Errorf("when the battery is not told: %+v", d)
	}
}

func TestNeedsAskForNoMoreThanTheRules(t *testing.T) {
	t.Parallel()
	k := newDesk()
	k.s.Rules.Apps = []string{`C:\x\Game.exe`}
	n := k.d.Needs(k.s, k.now)
	if n.Idle || !n.Battery || !n.Metered || !n.FullScreen || !n.Processor || !n.Memory || !n.Fast || !slices.Equal(n.Apps, []string{"game"}) {
		t.Errorf("%+v", n)
	}
	k.s.Rules = Rules{OnlyIdle: true, IdleMinutes: 3, OnBattery: true, OnMetered: true}
	if n := k.d.Needs(k.s, k.now); !n.Idle || n.Metered || n.FullScreen || n.Processor || n.Apps != nil {
		t.Errorf("%+v", n)
	}
	k.x.System.Idle = Tell(time.Second)
	k.look(time.Second)
	if n := k.d.Needs(k.s, k.now); !n.Idle || n.Fast {
		t.Errorf("while the user works: %+v", n)
	}
	for name, still := range map[string]func(*Settings){
		"off": func(s *Settings) { s.Share = false }, "not set up": func(s *Settings) { s.SetUp = false },
		"paused": func(s *Settings) { s.Pause.Until = noon.Add(time.Hour) }, "closed": func(s *Settings) { s.Schedule = Schedule{On: true} },
	} {
		s := willing()
		still(&s)
		if n := k.d.Needs(s, noon); n.Battery || n.Memory || n.Processor || n.Fast {
			t.Errorf("%s: %+v", name, n)
		}
	}
}
