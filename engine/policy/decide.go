package policy

import (
	"time"

	"neuron/engine/protocol"
)

// Times of decisions.
const (
	// LookEvery is how often to decide at least, besides after each change of the
	// settings and of what the engine knows.
	LookEvery = 10 * time.Second
	// StaleAfter is the age at which signals say nothing any more. A longer gap
	// between two decisions means that the computer slept, or that its clock was
	// set: what was observed before is forgotten.
	StaleAfter = 30 * time.Second
)

// Decision says whether this computer shares.
type Decision struct {
	State  protocol.SharingState
	Reason protocol.SharingReason // the strongest that holds; "" while it shares
	Detail string                 // in English, what is particular; "" without
	Since  time.Time              // of this state and reason
	// Until is when the reason ends by itself, or, while sharing, when the
	// schedule ends it; zero when that is not known.
	Until time.Time
	// Unknown are what the rules in force need and this system does not tell.
	Unknown []string

	// Allow says that nothing which the user has set forbids work for others.
	// The state may be paused all the same for a reason of the engine's own
	// (no_tracker, no_model, ...), which the engine acts upon by itself.
	Allow bool
	// Transfer says that models may be fetched and seeded. The reasons that are
	// about the processor alone do not forbid it.
	Transfer bool
	// EndBy is when sessions that still run are to be ended, while work is not
	// allowed and some run; the zero time otherwise.
	EndBy time.Time
	// StopBy is by when the engine has to end that was asked to; the zero time
	// while it was not. Unlike EndBy it does not depend on whether this computer
	// shares: answers to its own user have this time too.
	StopBy time.Time
	// KeepAwake says that the computer should not go to sleep: sessions run, on
	// mains.
	KeepAwake bool
	// Woke says that time is missing since the last decision: the computer slept
	// or its clock was set. The hardware should be probed again.
	Woke bool

	memory memory
}

// memory is what the next decision needs of the ones before.
type memory struct {
	looked  time.Time
	marks   [ruleCount]mark
	leaveBy time.Time // since work is not allowed
	waits   bool      // for signals that were not asked
}

// Decide is the policy. It is pure: was is the decision before, its zero value
// at the start; now tells the time of the wall and, by its location, local time.
//
// A rule whose signal was not asked, or is older than StaleAfter, forbids
// sharing with the reason starting; one that the system does not tell does not
// forbid, but for the idle time, and stands in Unknown.
func Decide(s Settings, x Signals, now time.Time, was Decision) Decision {
	now = now.Round(0) // The monotonic clock stands still in sleep.
	d := Decision{memory: memory{looked: now, marks: was.memory.marks, leaveBy: was.memory.leaveBy}}
	first := was.memory.looked.IsZero()
	gap := first || now.Before(was.memory.looked) || now.Sub(was.memory.looked) > StaleAfter
	d.Woke = gap && !first
	if age := now.Sub(x.System.At); age > StaleAfter || age < -StaleAfter {
		x.System = System{At: x.System.At}
	}

	in := input{s: &s, x: &x, now: now}
	allow, transfer, waits := true, true, false
	var grace time.Duration
	forbid := func(g time.Duration) {
		if allow || g < grace {
			grace = g
		}
		allow = false
	}
	for i := range rules {
		r := &rules[i]
		v := r.look(in)
		switch {
		case v.unasked:
			waits = true
		case v.unknown != "":
			d.Unknown = append(d.Unknown, v.unknown)
		}
		holds, ends := d.memory.marks[i].step(r, v, now, gap)
		if !holds {
			continue
		}
		if r.forbids {
			forbid(r.grace)
			transfer = transfer && r.transfer
		}
		if d.Reason == "" {
			d.Reason, d.Detail, d.Until = r.reason, v.detail, v.until
			if d.Until.IsZero() {
				d.Until = ends
			}
		}
	}
	if waits {
		forbid(waitGrace)
		transfer = false
		if d.Reason == "" || d.Reason == protocol.SharingStarting {
			d.Reason, d.Detail = protocol.SharingStarting, "the state of this computer is being read"
		}
	}
	d.Allow, d.Transfer, d.memory.waits = allow, transfer, waits
	d.leave(was, now, grace, x.Work.Sessions)
	if _, stopping := x.Work.Own[protocol.SharingStopping]; stopping {
		d.StopBy = now.Add(graceLoad)
		if !was.StopBy.IsZero() && was.StopBy.Before(d.StopBy) {
			d.StopBy = was.StopBy
		}
	}
	d.state(x.Work.Sessions, now)
	if d.State == protocol.SharingOn {
		d.Until = s.Schedule.Next(now)
	}
	battery := x.System.OnBattery
	d.KeepAwake = x.Work.Sessions > 0 && battery.Known && !battery.Value && (d.State == protocol.SharingOn || d.State == protocol.SharingLeaving)
	d.Since = now
	if was.State == d.State && was.Reason == d.Reason && !was.Since.IsZero() && was.Since.Before(now) {
		d.Since = was.Since
	}
	return d
}

// leave keeps the time by which sessions have to be gone: a further reason may
// bring it forward, never push it back.
func (d *Decision) leave(was Decision, now time.Time, grace time.Duration, sessions int) {
	if d.Allow {
		d.memory.leaveBy = time.Time{}
		return
	}
	by := now.Add(grace)
	if old := was.memory.leaveBy; !old.IsZero() && old.Before(by) {
		by = old
	}
	d.memory.leaveBy = by
	if sessions > 0 {
		d.EndBy = by
	}
}

func (d *Decision) state(sessions int, now time.Time) {
	switch {
	case d.Reason == "":
		d.State = protocol.SharingOn
	case sessions > 0 && (d.Allow || now.Before(d.memory.leaveBy)):
		d.State = protocol.SharingLeaving
	case d.Reason == protocol.SharingUserOff || d.Reason == protocol.SharingNotSetUp:
		d.State = protocol.SharingOff
	default:
		d.State = protocol.SharingPaused
	}
}

// mark is a rule's state between decisions: a rule holds and ends with delays,
// so that sharing does not flap.
type mark struct {
	holds bool
	since time.Time // when what is seen began to differ from holds; zero: it does not
}

// step brings the mark up to what was seen; ends is when it will stop to hold if
// things stay as they are, zero when that is not known. After a gap what is seen
// counts at once. What was not asked changes nothing but after a gap.
func (m *mark) step(r *rule, v view, now time.Time, gap bool) (holds bool, ends time.Time) {
	switch {
	case v.off || gap:
		*m = mark{holds: v.holds}
		return m.holds, time.Time{}
	case v.unasked:
		m.since = time.Time{}
		return m.holds, time.Time{}
	case v.holds == m.holds:
		m.since = time.Time{}
		return m.holds, time.Time{}
	}
	if m.since.IsZero() || m.since.After(now) {
		m.since = now
	}
	delay := r.enter
	if m.holds {
		delay = r.end
	}
	due := m.since.Add(delay)
	if !now.Before(due) {
		*m = mark{holds: v.holds}
		return m.holds, time.Time{}
	}
	if !m.holds {
		return false, time.Time{}
	}
	return true, due
}
