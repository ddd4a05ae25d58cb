package policy

import (
	"time"

	"neuron/engine/protocol"
)

// Told is something that a system may tell, or not: a source that was not asked
// differs from one that has no answer. The zero value was not asked.
type Told[T any] struct {
	Value T    `json:"value"`
	Asked bool `json:"asked"`
	Known bool `json:"known"` // Value holds; only when Asked
}

// Tell is an answer, NotTold a question without one.
func Tell[T any](v T) Told[T] { return Told[T]{Value: v, Asked: true, Known: true} }

// NotTold is the result of asking a system that does not tell.
func NotTold[T any]() Told[T] { return Told[T]{Asked: true} }

// Signals are all that a decision looks at besides the settings and the time.
type Signals struct {
	System System
	Work   Work
}

// System is what the operating system tells; engine/host reads it.
type System struct {
	// At is when it was read, by the wall clock. What is older than StaleAfter
	// counts as not asked.
	At time.Time
	// Idle is the time since the last input of the user.
	Idle Told[time.Duration]
	// OnBattery says that no mains power is there; false on computers without a
	// battery.
	OnBattery Told[bool]
	// Metered says that the connection to the internet is paid by volume.
	Metered Told[bool]
	// FullScreen says that one program fills a whole screen.
	FullScreen Told[bool]
	// OtherPercent of all processors is used by programs that are not ours, 0 to
	// 100, over the last seconds.
	OtherPercent Told[float64]
	// Apps are the programs of the user's list that run, as the list has them.
	Apps Told[[]string]
	// Pressure of main memory, as in engine/probe.Memory: 0 while a quarter is
	// available, 1 when nothing is.
	Pressure Told[float64]
}

// Undisturbed is what a computer tells that nothing keeps from sharing: nobody
// at it, on mains, idle. It stands for computers that nobody sits at, and in
// tests.
func Undisturbed(at time.Time) System {
	return System{
		At: at, Idle: Tell(24 * time.Hour), OnBattery: Tell(false), Metered: Tell(false), FullScreen: Tell(false),
		OtherPercent: Tell(0.0), Apps: Tell([]string{}), Pressure: Tell(0.0),
	}
}

// Work is what the engine knows of itself. The zero value: it runs, and nothing
// keeps it from work.
type Work struct {
	// Own are the engine's own reasons that hold now, each with a detail for
	// people or "": stopping, failed, no_tracker, operator, host_busy, disk_full,
	// no_model, starting. Others are the rules' own, and not looked at here.
	Own map[protocol.SharingReason]string
	// Sessions of others that run on this computer.
	Sessions int
	// Used is what was transferred.
	Used Usage
}

// Names of what a rule needs and a system may not tell, for Decision.Unknown.
const (
	UnknownIdle       = "idle"
	UnknownBattery    = "battery"
	UnknownMetered    = "metered"
	UnknownFullScreen = "full_screen"
	UnknownApps       = "apps"
	UnknownProcessor  = "processor"
	UnknownMemory     = "memory"
)

// Needs says what the rules in force depend on: only that is asked.
type Needs struct {
	Idle       bool
	Battery    bool
	Metered    bool
	FullScreen bool
	Processor  bool
	Memory     bool
	// Apps are the programs to look for, by ProgramName.
	Apps []string
	// Fast asks for looks every two seconds, since a decision to pause may be
	// due at any time; otherwise every ten seconds will do.
	Fast bool
}

// Needs says what has to be asked for the decision after d. Nothing is needed
// while the user has turned sharing off or paused it, or outside his hours.
func (d Decision) Needs(s Settings, now time.Time) Needs {
	if !s.Share || !s.SetUp || s.Pause.Active(now) || !s.Schedule.Open(now) {
		return Needs{}
	}
	n := Needs{
		Idle: s.Rules.OnlyIdle, Metered: !s.Rules.OnMetered, FullScreen: s.Rules.FullScreen, Processor: s.Rules.BusyPercent > 0,
		// The battery matters without its rule too: KeepAwake.
		Battery: true, Memory: true,
		Fast: d.Allow || d.memory.waits || d.memory.looked.IsZero(),
	}
	for _, a := range s.Rules.Apps {
		n.Apps = append(n.Apps, ProgramName(a))
	}
	return n
}
