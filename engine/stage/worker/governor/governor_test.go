package governor

import (
	"testing"
	"time"
)

// calm runs n steps of d, one every d.
func calm(g *Governor, now *time.Time, n int, d time.Duration) {
	for range n {
		g.Next(*now)
		*now = now.Add(d)
		g.Step(*now, d, 1)
	}
}

func TestSecondThreadComesAfterAQuietSecond(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	g := New(2, 2)
	g.Load(now, 0.1)
	if n := g.Next(now.Add(500 * time.Millisecond)); n != 1 {
		t.Errorf("%d threads after half a second", n)
	}
	if n := g.Next(now.Add(time.Second)); n != 2 {
		t.Errorf("%d threads after a quiet second", n)
	}
}

func TestForeignLoadTakesThreadsAtOnceButNeverTheLast(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	g := New(4, 4)
	g.Load(now, 0)
	if n := g.Next(now.Add(time.Second)); n != 4 {
		t.Fatalf("%d threads", n)
	}
	for _, c := range []struct {
		foreign float64
		want    int
	}{{0.2, 4}, {1.0, 3}, {1.4, 2}, {3.9, 1}, {4, 1}} {
		g.Load(now.Add(2*time.Second), c.foreign)
		if n := g.Next(now.Add(2 * time.Second)); n != c.want {
			t.Errorf("foreign load %g leaves %d threads, want %d", c.foreign, n, c.want)
		}
	}
}

func TestSlowStepDropsToOneThreadAtOnceAndRaisesLater(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	g := New(2, 2)
	g.Load(now, 0)
	now = now.Add(time.Second)
	calm(g, &now, 10, 20*time.Millisecond)
	if g.threads != 2 {
		t.Fatalf("%d threads", g.threads)
	}
	g.Step(now, 61*time.Millisecond, 1)
	if n := g.Next(now); n != 1 {
		t.Fatalf("%d threads after a slow step", n)
	}
	g.Load(now, 0)
	if n := g.Next(now.Add(900 * time.Millisecond)); n != 1 {
		t.Errorf("%d threads before the pause is over", n)
	}
	if n := g.Next(now.Add(1100 * time.Millisecond)); n != 2 {
		t.Errorf("%d threads after the pause", n)
	}
}

func TestPauseDoublesWhileStepsStaySlow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	g := New(2, 2)
	g.Load(now, 0)
	now = now.Add(time.Second)
	calm(g, &now, 10, 20*time.Millisecond)
	var pauses []time.Duration
	for range 3 {
		g.Step(now, time.Second, 1)
		pauses = append(pauses, g.calmUntil.Sub(now))
		now = g.calmUntil.Add(time.Millisecond)
		g.Load(now.Add(-2*time.Second), 0)
		if n := g.Next(now); n != 2 {
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
	g := New(1, 2)
	calm(g, &now, 20, 30*time.Millisecond)
	g.Load(now, 2)
	calm(g, &now, lateSteps-1, 100*time.Millisecond)
	if g.HostBusy() {
		t.Fatal("busy too early")
	}
	calm(g, &now, 1, 100*time.Millisecond)
	if !g.HostBusy() {
		t.Fatal("not busy")
	}
	g.Load(now, 1.9)
	if !g.HostBusy() {
		t.Error("over while no core is free")
	}
	g.Load(now, 0.8)
	if g.HostBusy() {
		t.Error("still busy with a free core")
	}
}
