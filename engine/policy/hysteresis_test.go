package policy

import (
	"testing"
	"time"

	"neuron/engine/protocol"
)

func TestTheUserComesBack(t *testing.T) {
	t.Parallel()
	k := newDesk()
	k.s.Rules.OnlyIdle = true
	if d := k.look(2 * time.Second); d.State != protocol.SharingOn {
		t.Fatalf("%+v", d)
	}
	k.x.System.Idle = Tell(300 * time.Millisecond)
	if d := k.look(time.Second); d.Reason != protocol.SharingUserActive || d.Allow {
		t.Errorf("not at once: %+v", d)
	}
	k.x.System.Idle = Tell(3*time.Minute - time.Second)
	if d := k.look(2 * time.Second); d.Allow {
		t.Errorf("too early: %+v", d)
	}
	k.x.System.Idle = Tell(3 * time.Minute)
	if d := k.look(time.Second); !d.Allow {
		t.Errorf("does not go on: %+v", d)
	}
}

func TestBusyAndQuietDoNotFlap(t *testing.T) {
	t.Parallel()
	k := newDesk()
	busy := func(on bool) {
		k.x.System.OtherPercent = Tell(5.0)
		if on {
			k.x.System.OtherPercent = Tell(90.0)
		}
	}
	for range 20 { // eight seconds at a time
		busy(true)
		if d := k.pass(8 * time.Second); !d.Allow {
			t.Fatalf("paused for a short load: %+v", d)
		}
		busy(false)
		k.pass(2 * time.Second)
	}
	busy(true)
	k.look(2 * time.Second)
	if d := k.pass(8 * time.Second); !d.Allow {
		t.Errorf("after eight seconds: %+v", d)
	}
	if d := k.look(2 * time.Second); d.Allow || d.Reason != protocol.SharingOtherWork || !d.Until.IsZero() {
		t.Errorf("after ten seconds: %+v", d)
	}
	for range 5 {
		busy(false)
		first := k.look(2 * time.Second)
		if first.Allow || !first.Until.Equal(k.now.Add(time.Minute)) {
			t.Errorf("quiet: %+v", first)
		}
		if d := k.pass(56 * time.Second); d.Allow || !d.Until.Equal(first.Until) || d.Detail != "5 % are used by other programs" {
			t.Errorf("nearly a minute: %+v", d)
		}
		busy(true)
		k.look(2 * time.Second) // all over again
	}
	busy(false)
	k.look(2 * time.Second)
	if d := k.pass(60 * time.Second); !d.Allow {
		t.Errorf("after a minute: %+v", d)
	}
}

// TestDelaysOfEnds: what begins at once ends a little later.
func TestDelaysOfEnds(t *testing.T) {
	t.Parallel()
	for r, delay := range map[protocol.SharingReason]time.Duration{
		protocol.SharingFullScreen: 30 * time.Second, protocol.SharingBattery: 10 * time.Second, protocol.SharingMetered: 10 * time.Second, protocol.SharingApp: 10 * time.Second,
	} {
		k := newDesk()
		calm := k.x.System
		causes[r](k)
		if d := k.look(time.Second); d.Allow || d.Reason != r {
			t.Errorf("%s does not begin at once: %+v", r, d)
		}
		k.x.System = calm
		d := k.look(2 * time.Second)
		if d.Allow || !d.Until.Equal(k.now.Add(delay)) {
			t.Errorf("%s ends at once: %+v", r, d)
		}
		if d := k.pass(delay); !d.Allow {
			t.Errorf("%s stays: %+v", r, d)
		}
	}
}

func TestLeavingThenPaused(t *testing.T) {
	t.Parallel()
	for r, grace := range map[protocol.SharingReason]time.Duration{
		protocol.SharingUserPause: 5 * time.Minute, protocol.SharingBattery: 2 * time.Minute, protocol.SharingUserActive: 2 * time.Minute, protocol.SharingFullScreen: 15 * time.Second,
	} {
		k := newDesk()
		k.x.Work.Sessions = 2
		if d := k.look(time.Second); d.State != protocol.SharingOn || !d.KeepAwake || !d.EndBy.IsZero() {
			t.Errorf("%s, before: %+v", r, d)
		}
		causes[r](k)
		d := k.look(time.Second)
		end := k.now.Add(grace)
		if d.State != protocol.SharingLeaving || d.Allow || !d.EndBy.Equal(end) {
			t.Errorf("%s: %+v, want an end at %s", r, d, end)
		}
		if d := k.look(10 * time.Second); d.State != protocol.SharingLeaving || !d.EndBy.Equal(end) {
			t.Errorf("%s, later: %+v", r, d)
		}
		d = k.pass(end.Sub(k.now))
		if d.State != protocol.SharingPaused || !d.EndBy.Equal(end) || d.KeepAwake {
			t.Errorf("%s, at the end: %+v", r, d)
		}
		k.x.Work.Sessions = 0
		if d := k.look(time.Second); d.State != protocol.SharingPaused || !d.EndBy.IsZero() {
			t.Errorf("%s, without sessions: %+v", r, d)
		}
	}
}

// TestAFurtherReasonBringsTheEndForward: a game begins while sessions finish.
func TestAFurtherReasonBringsTheEndForward(t *testing.T) {
	t.Parallel()
	k := newDesk()
	k.x.Work.Sessions = 1
	k.s.Pause.UntilResumed = true
	k.look(time.Second)
	k.x.System.FullScreen = Tell(true)
	d := k.look(2 * time.Second)
	if want := k.now.Add(15 * time.Second); !d.EndBy.Equal(want) || d.Reason != protocol.SharingUserPause {
		t.Errorf("%+v, want the end at %s", d, want)
	}
	k.x.System.FullScreen = Tell(false)
	if again := k.look(2 * time.Second); !again.EndBy.Equal(d.EndBy) {
		t.Errorf("pushed back to %s", again.EndBy)
	}
	k.s.Pause = Pause{}
	if d := k.pass(32 * time.Second); d.State != protocol.SharingOn || !d.EndBy.IsZero() {
		t.Errorf("resumed: %+v", d)
	}
}

// TestOwnReasonsEndNoSessions: without the tracker, running sessions go on.
func TestOwnReasonsEndNoSessions(t *testing.T) {
	t.Parallel()
	k := newDesk()
	k.x.Work.Sessions = 1
	k.own(protocol.SharingNoTracker, "")
	d := k.pass(time.Hour)
	if d.State != protocol.SharingLeaving || !d.Allow || !d.EndBy.IsZero() || !d.KeepAwake {
		t.Errorf("%+v", d)
	}
}
