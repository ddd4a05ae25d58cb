package policy

import (
	"fmt"
	"strings"
	"time"

	"neuron/engine/protocol"
)

// input is what a rule looks at.
type input struct {
	s   *Settings
	x   *Signals
	now time.Time
}

// view is what a rule sees. The zero value: it is in force and does not hold.
type view struct {
	holds   bool
	off     bool // not in force: what was observed for it is forgotten
	unasked bool // in force, and its signal is missing
	unknown string
	detail  string
	until   time.Time
}

// rule is a reason not to share.
type rule struct {
	reason protocol.SharingReason
	see    func(in input) view // nil: only the engine itself has this reason

	// forbids: no work is allowed while it holds. The others say why the engine
	// cannot work although it may.
	forbids  bool
	transfer bool // models may be fetched and seeded all the same
	// enter is for how long it has to be seen before it holds, end for how long
	// it must not be seen before it holds no more.
	enter, end time.Duration
	// grace is what running sessions get before they are ended.
	grace time.Duration
}

// Hysteresis and graces. A game gets the computer in seconds; an answer that
// nobody but the user's wish cuts off may finish.
const (
	busyAfter  = 10 * time.Second
	quietAfter = 60 * time.Second

	gracePatient = 5 * time.Minute
	graceUser    = 2 * time.Minute
	graceLoad    = time.Minute
	graceGame    = 15 * time.Second
	waitGrace    = 30 * time.Second
)

// pressureHigh is the memory pressure at which other programs need the memory:
// a twentieth is left.
const pressureHigh = 0.8

const ruleCount = 21

// rules are all reasons, strongest first: the order of protocol.SharingReasons.
var rules = [ruleCount]rule{
	{reason: protocol.SharingUserOff, see: userOff, forbids: true, grace: gracePatient},
	{reason: protocol.SharingNotSetUp, see: notSetUp, forbids: true, grace: gracePatient},
	{reason: protocol.SharingUserPause, see: userPause, forbids: true, grace: gracePatient},
	{reason: protocol.SharingStopping, forbids: true, grace: graceLoad},
	{reason: protocol.SharingFailed},
	{reason: protocol.SharingNoTracker},
	{reason: protocol.SharingOperator},
	{reason: protocol.SharingSchedule, see: schedule, forbids: true, grace: gracePatient},
	{reason: protocol.SharingBattery, see: battery, forbids: true, end: busyAfter, grace: graceUser},
	{reason: protocol.SharingMetered, see: metered, forbids: true, end: busyAfter, grace: graceLoad},
	{reason: protocol.SharingQuota, see: quota, forbids: true, grace: graceLoad},
	{reason: protocol.SharingFullScreen, see: fullScreen, forbids: true, end: 30 * time.Second, grace: graceGame},
	{reason: protocol.SharingApp, see: chosenProgram, forbids: true, end: busyAfter, grace: graceGame},
	{reason: protocol.SharingUserActive, see: userActive, forbids: true, transfer: true, grace: graceUser},
	{reason: protocol.SharingIdleUnknown, see: idleUnknown, forbids: true, transfer: true, grace: graceUser},
	{reason: protocol.SharingOtherWork, see: otherWork, forbids: true, transfer: true, enter: busyAfter, end: quietAfter, grace: graceLoad},
	{reason: protocol.SharingHostBusy, enter: 5 * time.Second, end: 30 * time.Second},
	{reason: protocol.SharingMemory, see: memoryLow, forbids: true, enter: busyAfter, end: quietAfter, grace: waitGrace},
	{reason: protocol.SharingDisk},
	{reason: protocol.SharingNoModel},
	{reason: protocol.SharingStarting},
}

// look asks the rule, or the engine, where only the engine knows.
func (r *rule) look(in input) view {
	if r.see != nil {
		return r.see(in)
	}
	detail, holds := in.x.Work.Own[r.reason]
	return view{holds: holds, detail: detail}
}

// after makes a view of a signal that a rule in force depends on.
func after[T any](t Told[T], name string, holds func(T) bool) view {
	switch {
	case !t.Asked:
		return view{unasked: true}
	case !t.Known:
		return view{unknown: name}
	}
	return view{holds: holds(t.Value)}
}

func itself(b bool) bool { return b }

func userOff(in input) view  { return view{holds: !in.s.Share} }
func notSetUp(in input) view { return view{holds: !in.s.SetUp} }

func userPause(in input) view {
	p := in.s.Pause
	v := view{holds: p.Active(in.now)}
	if v.holds && !p.UntilResumed {
		v.until = p.Until
	}
	return v
}

func schedule(in input) view {
	v := view{holds: !in.s.Schedule.Open(in.now)}
	if v.holds {
		v.until = in.s.Schedule.Next(in.now)
	}
	return v
}

func battery(in input) view {
	if in.s.Rules.OnBattery {
		return view{off: true}
	}
	return after(in.x.System.OnBattery, UnknownBattery, itself)
}

func metered(in input) view {
	if in.s.Rules.OnMetered {
		return view{off: true}
	}
	return after(in.x.System.Metered, UnknownMetered, itself)
}

func quota(in input) view {
	limit := in.s.Limits.DayBytes
	used := in.x.Work.Used.Today(in.now)
	if limit <= 0 || used < limit {
		return view{}
	}
	return view{holds: true, until: nextDay(in.now), detail: fmt.Sprintf("%.1f of %.1f GB are used today", float64(used)/1e9, float64(limit)/1e9)}
}

func fullScreen(in input) view {
	if !in.s.Rules.FullScreen {
		return view{off: true}
	}
	return after(in.x.System.FullScreen, UnknownFullScreen, itself)
}

func chosenProgram(in input) view {
	list := in.s.Rules.Apps
	if len(list) == 0 {
		return view{off: true}
	}
	var name string
	v := after(in.x.System.Apps, UnknownApps, func(running []string) bool {
		for _, listed := range list {
			for _, r := range running {
				if ProgramName(r) == ProgramName(listed) {
					name = listed
					return true
				}
			}
		}
		return false
	})
	v.detail = name
	return v
}

func (r Rules) away() time.Duration { return time.Duration(r.IdleMinutes) * time.Minute }

func userActive(in input) view {
	r := in.s.Rules
	if !r.OnlyIdle {
		return view{off: true}
	}
	v := after(in.x.System.Idle, UnknownIdle, func(idle time.Duration) bool { return idle < r.away() })
	if v.holds {
		v.detail = fmt.Sprintf("goes on after %d minutes without input", r.IdleMinutes)
	}
	return v
}

// idleUnknown is the one rule that forbids what a system does not tell: "only
// when I am away" is a promise.
func idleUnknown(in input) view {
	idle := in.x.System.Idle
	if !in.s.Rules.OnlyIdle {
		return view{off: true}
	}
	return view{holds: idle.Asked && !idle.Known}
}

func otherWork(in input) view {
	limit := in.s.Rules.BusyPercent
	if limit <= 0 {
		return view{off: true}
	}
	used := in.x.System.OtherPercent
	v := after(used, UnknownProcessor, func(p float64) bool { return p > float64(limit) })
	if used.Known {
		v.detail = fmt.Sprintf("%.0f %% are used by other programs", used.Value)
	}
	return v
}

func memoryLow(in input) view {
	return after(in.x.System.Pressure, UnknownMemory, func(p float64) bool { return p >= pressureHigh })
}

// ProgramName is the form in which names of programs are compared: the last
// part of a path, in small letters, without ".exe".
func ProgramName(s string) string {
	s = strings.TrimSpace(s)
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	s = strings.ToLower(s)
	for _, end := range []string{".exe", ".app"} {
		if rest, ok := strings.CutSuffix(s, end); ok && rest != "" {
			return rest
		}
	}
	return s
}
