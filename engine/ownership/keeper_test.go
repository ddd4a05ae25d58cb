package ownership

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/wallet"
)

// running runs the Keeper inside a synctest bubble until the test's end.
func (c *computer) running(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done })
}

func TestBindsWhenTheTrackerHasAnotherOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTracker()
		c := newComputer(t, tr)
		c.running(t)
		if s := c.State(); s != (State{Status: StatusUnknown}) {
			t.Errorf("%+v", s)
		}
		synctest.Wait()
		if tr.count(&tr.binds) != 0 || tr.count(&tr.asked) != 0 {
			t.Error("asked before the tracker has said who owns the node")
		}
		c.Welcomed("")
		synctest.Wait()
		c.want(c.State(), StatusBound, c.own)
		if tr.ownerOf(c.id.ID()) != c.own || tr.count(&tr.binds) != 1 {
			t.Errorf("%d bindings", tr.count(&tr.binds))
		}
		// What is right stays, at every welcome.
		c.Welcomed(string(c.own))
		time.Sleep(time.Hour)
		synctest.Wait()
		if tr.count(&tr.binds) != 1 {
			t.Errorf("%d bindings", tr.count(&tr.binds))
		}
		// Something that is no owner changes nothing.
		c.Welcomed("o-nonsense")
		synctest.Wait()
		c.want(c.State(), StatusBound, c.own)
	})
}

// TestRetries: a failure is shown and tried again, ever more seldom, and at the
// next welcome at once.
func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTracker()
		c := newComputer(t, tr)
		tr.refuse["bind"] = protocol.Errorf(protocol.CodeUnavailable, "not now")
		c.running(t)
		count := func() (n int) {
			tr.set(func() { n = len(tr.calls) })
			return n
		}
		c.Welcomed("")
		synctest.Wait()
		s := c.State()
		c.want(s, StatusFailed, c.own)
		if s.Error == nil || s.Error.Code != protocol.CodeUnavailable || count() != 1 {
			t.Errorf("%+v after %d calls", s, count())
		}
		time.Sleep(firstRetry - time.Second)
		if synctest.Wait(); count() != 1 {
			t.Error("tried again too soon")
		}
		time.Sleep(2 * time.Second)
		if synctest.Wait(); count() != 2 {
			t.Error("not tried again")
		}
		time.Sleep(24 * time.Hour)
		if synctest.Wait(); count() < 40 || count() > 60 {
			t.Errorf("%d tries in a day", count())
		}
		tr.set(func() { delete(tr.refuse, "bind") })
		c.Welcomed("")
		synctest.Wait()
		c.want(c.State(), StatusBound, c.own)
		if c.State().Error != nil {
			t.Errorf("%v is left", c.State().Error)
		}
	})
}

// TestRecoveredKey: after another key was recovered the node goes to its owner.
func TestRecoveredKey(t *testing.T) {
	t.Parallel()
	tr := newTracker()
	a, b := newComputer(t, tr), newComputer(t, tr)
	if s := a.Refresh(t.Context()); s.Status != StatusBound {
		t.Fatalf("%+v", s)
	}
	sealed, err := b.o.Wallet.Export([]byte("correct horse"))
	a.must(err)
	_, err = a.o.Wallet.Recover(sealed, []byte("correct horse"), true)
	a.must(err)
	a.own = b.own
	a.want(a.Refresh(t.Context()), StatusBound, b.own)
	if tr.ownerOf(a.id.ID()) != b.own {
		t.Error("the node is still the old owner's")
	}
}

// TestClockSetBack: what a node signs is later than all before.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	tr := newTracker()
	c := newComputer(t, tr)
	base := time.Now()
	var last time.Time
	for i, ahead := range []time.Duration{0, 0, -30 * time.Minute, time.Minute} {
		c.now = func() time.Time { return base.Add(ahead) }
		at, err := c.nextTime(0)
		c.must(err)
		if !at.After(last) {
			t.Errorf("%d: %s after %s", i, at, last)
		}
		last = at
		c.restart()
	}
	// A clock that was a year ahead does not keep the node away for a year.
	c.now = func() time.Time { return base.Add(365 * 24 * time.Hour) }
	_, err := c.nextTime(0)
	c.must(err)
	c.now = func() time.Time { return base }
	if at, err := c.nextTime(0); err != nil || at.After(base) {
		t.Errorf("%s, %v", at, err)
	}
}

func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	tr := newTracker()
	c := newComputer(t, tr)
	c.o.Wallet = wallet.At(t.TempDir()) // no key
	s := c.Refresh(t.Context())
	if s.Status != StatusFailed || s.Error.Code != protocol.CodeNotFound || s.Own != "" {
		t.Errorf("%+v", s)
	}
	if len(tr.calls) != 1 {
		t.Errorf("%v", tr.calls)
	}
	_, err := c.StartPairing(t.Context(), false)
	wantCode(t, err, protocol.CodeNotFound)
}
