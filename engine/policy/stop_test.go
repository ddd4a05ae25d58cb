package policy

import (
	"testing"
	"time"

	"neuron/engine/protocol"
)

// TestStopBy: the end has its time from the order on, whatever forbade sharing
// long before, and it is never put off.
func TestStopBy(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	var d Decision
	decide := func(own ...protocol.SharingReason) {
		x := Signals{System: Undisturbed(now), Work: Work{Own: map[protocol.SharingReason]string{}}}
		for _, r := range own {
			x.Work.Own[r] = ""
		}
		d = Decide(Settings{}, x, now, d) // sharing is off
	}
	decide()
	if !d.StopBy.IsZero() {
		t.Fatalf("nobody asked: %s", d.StopBy)
	}
	now = now.Add(time.Hour)
	decide(protocol.SharingStopping)
	by := now.Add(graceLoad)
	if !d.StopBy.Equal(by) {
		t.Errorf("%s, want %s", d.StopBy, by)
	}
	now = now.Add(20 * time.Second)
	if decide(protocol.SharingStopping); !d.StopBy.Equal(by) {
		t.Errorf("later %s, want %s", d.StopBy, by)
	}
	now = now.Add(-time.Hour) // the clock was set
	if decide(protocol.SharingStopping); !d.StopBy.Equal(now.Add(graceLoad)) {
		t.Errorf("with another clock %s", d.StopBy)
	}
}
