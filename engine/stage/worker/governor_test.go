package worker

import (
	"testing"
	"time"
)

// calm runs n steps of d, one every d.
func calm(g *governor, now *time.Time, n int, d time.Duration) {
	for range n {
		g.next(*now)
		*now = now.Add(d)
		g.step(*now, d, 1)
	}
}

func TestSecondThreadComesAfterAQuietSecond(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	g := newGovernor(2, 2)
	g.load(now, 0.1)
	if n := g.next(now.Add(500 * time.Millisecond)); n != 1 {
		t.Errorf("%d threads after half a second", n)
	}
	if n := g.next(now.Add(time.Second)); n != 2 {
		t.Errorf("%d threads after a quiet second", n)
	}
}

func TestForeignLoadTakesThreadsAtOnceButNeverTheLast(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	g := newGovernor(4, 4)
	g.load(now, 0)
	if n := g.next(now.Add(time.Second)); n != 4 {
		t.Fatalf("%d threads", n)
	}
	for _, c := range []struct {
		foreign float64
		want    int
	}{{0.2, 4}, {1.0, 3}, {1.4, 2}, {3.9, 1}, {4, 1}} {
		g.load(now.Add(2*time.Second), c.foreign)
		if n := g.next(now.Add(2 * time.Second)); n != c.want {
			t.Errorf("foreign load %g leaves %d threads, want %d", c.foreign, n, c.want)
		}
	}
}

func TestSlowStepDropsToOneThreadAtOnceAndRaisesLater(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	g := newGovernor(2, 2)
	g.load(now, 0)
	now = now.Add(time.Second)
	calm(g, &now, 10, 20*time.Millisecond)
	if g.threads != 2 {
		t.Fatalf("%d threads", g.threads)
	}
	g.step(now, 61*time.Millisecond, 1)
	if n := g.next(now); n != 1 {
		t.Fatalf("%d threads after a slow step", n)
	}
	g.load(now, 0)
	if n := g.next(now.Add(900 * time.Millisecond)); n != 1 {
		t.Errorf("%d threads before the pause is over", n)
	}
	if n := g.next(now.Add(1100 * time.Millisecond)); n != 2 {
		t.Errorf("%d threads after the pause", n)
	}
}

func TestPauseDoublesWhileStepsStaySlow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	g := newGovernor(2, 2)
	g.load(now, 0)
	now = now.Add(time.Second)
	calm(g, &now, 10, 20*time.Millisecond)
	var pauses []time.Duration
	for range 3 {
		g.step(now, time.Second, 1)
		pauses = append(pauses, g.calmUntil.Sub(now))
		now = g.calmUntil.Add(time.Millisecond)
		g.load(now.Add(-2*time.Second), 0)
		if n := g.next(now); n != 2 {
			t.Fatalf("%d threads after a pause of %v", n, pauses)
		}
	}
	if pauses[0] != time.Second || pauses[1] != 2*time.Second || pauses[2] != 4*time.Second {
		t.Errorf("pauses %v", pauses)
	}
}

func TestHostBusyWhenOneThreadIsLateAndOverWhenACoreIsFree(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	g := newGovernor(1, 2)
	calm(g, &now, 20, 30*time.Millisecond)
	g.load(now, 2)
	calm(g, &now, lateSteps-1, 100*time.Millisecond)
	if g.hostBusy() {
		t.Fatal("busy too early")
	}
	calm(g, &now, 1, 100*time.Millisecond)
	if !g.hostBusy() {
		t.Fatal("not busy")
	}
	g.load(now, 1.9)
	if !g.hostBusy() {
		t.Error("over while no core is free")
	}
	g.load(now, 0.8)
	if g.hostBusy() {
		t.Error("still busy with a free core")
	}
}
