package ownership

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/protocol"
)

// pair brings b to a's owner and returns when a has confirmed.
func pair(t *testing.T, a, b *computer) {
	t.Helper()
	ctx := t.Context()
	p, err := a.StartPairing(ctx, false)
	a.must(err)
	by, err := b.Join(ctx, strings.ToLower(p.Code), "")
	if err == nil && by != a.own {
		t.Errorf("joined %s", by)
	}
	b.must(err)
	a.must(a.Confirm(ctx, b.id.ID()))
}

func TestPairing(t *testing.T) {
	t.Parallel()
	tr := newTracker()
	a, b := newComputer(t, tr), newComputer(t, tr)
	ctx := t.Context()
	b.want(b.Refresh(ctx), StatusBound, b.own) // it was on its own before
	_, err := a.Pairing(ctx)
	wantCode(t, err, protocol.CodeNotFound)
	p, err := a.StartPairing(ctx, false)
	a.must(err)
	if tr.ownerOf(a.id.ID()) != a.own {
		t.Error("the owner's own node was not bound first")
	}
	if got, err := a.Pairing(ctx); err != nil || got.Code != p.Code || got.Offer != nil {
		t.Errorf("%+v, %v", got, err)
	}
	wantCode(t, a.Confirm(ctx, b.id.ID()), protocol.CodeConflict) // nobody came
	_, err = b.Join(ctx, "WRONG", "")
	wantCode(t, err, protocol.CodeNotFound)
	_, err = b.Join(ctx, p.Code, b.own)
	wantCode(t, err, protocol.CodeConflict) // not the owner that was seen
	if by, err := b.Lookup(ctx, p.Code); err != nil || by != a.own {
		t.Errorf("%s, %v", by, err)
	}
	by, err := b.Join(ctx, p.Code, a.own)
	b.must(err)
	if by != a.own {
		t.Errorf("joined %s", by)
	}
	b.want(b.State(), StatusWaiting, a.own)
	if tr.ownerOf(b.id.ID()) != b.own {
		t.Error("the node changed hands before its new owner agreed")
	}
	got, err := a.Pairing(ctx)
	a.must(err)
	if got.Offer == nil || got.Offer.Node != b.id.ID() || got.Offer.Host != "4 cores" {
		t.Errorf("%+v", got.Offer)
	}
	wantCode(t, a.Confirm(ctx, a.id.ID()), protocol.CodeConflict) // not the node that was seen
	a.must(a.Confirm(ctx, b.id.ID()))
	_, err = a.Pairing(ctx)
	wantCode(t, err, protocol.CodeNotFound)
	b.want(b.Refresh(ctx), StatusBound, a.own)
	// It stays so over a restart, and whatever the own key is.
	b.restart()
	b.want(b.Refresh(ctx), StatusBound, a.own)
	if tr.ownerOf(b.id.ID()) != a.own {
		t.Error("the node went back to the own key")
	}
	// Joining again is no harm.
	p, err = a.StartPairing(ctx, false)
	a.must(err)
	_, err = b.Join(ctx, p.Code, "")
	b.must(err)
	b.want(b.State(), StatusBound, a.own)
}

// TestKilled: after a kill or a lost answer at any step, both sides go on with
// their files alone.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"bind", "owner", "lookup", "offer", "pair", "offered", "confirm"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			tr := newTracker()
			a, b := newComputer(t, tr), newComputer(t, tr)
			ctx := t.Context()
			tr.lose[lost] = true
			// Each step is tried, the program is killed, and it is tried again.
			twice := func(c *computer, step func() error) {
				t.Helper()
				for range 2 {
					if err := step(); err != nil {
						wantCode(t, err, protocol.CodeUnavailable)
						c.restart()
						c.must(step())
					}
					c.restart()
				}
			}
			var code string
			twice(a, func() error {
				p, err := a.StartPairing(ctx, false)
				if err == nil {
					code = p.Code
				}
				return err
			})
			if p, err := a.StartPairing(ctx, false); err != nil || p.Code != code {
				t.Fatalf("the code is forgotten: %+v, %v", p, err)
			}
			twice(b, func() error { _, err := b.Join(ctx, code, ""); return err })
			b.want(b.Refresh(ctx), StatusWaiting, a.own)
			twice(a, func() error {
				p, err := a.Pairing(ctx)
				if err == nil && (p.Offer == nil || p.Offer.Node != b.id.ID()) {
					t.Errorf("the offer is gone: %+v", p)
				}
				return err
			})
			if err := a.Confirm(ctx, b.id.ID()); err != nil {
				wantCode(t, err, protocol.CodeUnavailable)
				a.restart()
				// The answer was lost, not the confirmation.
				if tr.ownerOf(b.id.ID()) != a.own {
					t.Error("not confirmed")
				}
			}
			b.restart()
			b.Refresh(ctx)
			b.want(b.Refresh(ctx), StatusBound, a.own)
			if tr.lose[lost] {
				t.Errorf("no call %s was made: %v", lost, tr.calls)
			}
		})
	}
}

// TestKilledBetweenNoteAndOffer: the note is there, the tracker knows nothing.
func TestKilledBetweenNoteAndOffer(t *testing.T) {
	t.Parallel()
	tr := newTracker()
	a, b := newComputer(t, tr), newComputer(t, tr)
	ctx := t.Context()
	p, err := a.StartPairing(ctx, false)
	a.must(err)
	tr.refuse["offer"] = errLost // it never arrives
	_, err = b.Join(ctx, p.Code, "")
	if err != nil {
		wantCode(t, err, protocol.CodeUnavailable)
	}
	b.restart()
	delete(tr.refuse, "offer")
	b.want(b.Refresh(ctx), StatusWaiting, a.own)
	a.must(a.Confirm(ctx, b.id.ID()))
	b.want(b.Refresh(ctx), StatusBound, a.own)
}

// TestWaitsAndGivesUp: the waiting node asks by itself, sees the confirmation,
// and goes back to its own key when the code is over.
func TestWaitsAndGivesUp(t *testing.T) {
	t.Parallel()
	for _, confirmed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			tr := newTracker()
			a, b := newComputer(t, tr), newComputer(t, tr)
			ctx := t.Context()
			p, err := a.StartPairing(ctx, false)
			a.must(err)
			b.running(t)
			b.Welcomed("")
			synctest.Wait()
			b.want(b.State(), StatusBound, b.own)
			_, err = b.Join(ctx, p.Code, "")
			b.must(err)
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			b.want(b.State(), StatusWaiting, a.own)
			if tr.ownerOf(b.id.ID()) != b.own || tr.count(&tr.asked) > 110 {
				t.Errorf("asked %d times in 5 minutes", tr.count(&tr.asked))
			}
			if confirmed {
				a.must(a.Confirm(ctx, b.id.ID()))
				time.Sleep(confirmPoll)
				synctest.Wait()
				b.want(b.State(), StatusBound, a.own)
				return
			}
			time.Sleep(6 * time.Minute)
			synctest.Wait()
			b.want(b.State(), StatusBound, b.own)
			_, err = a.Pairing(ctx)
			wantCode(t, err, protocol.CodeNotFound)
		})
	}
}

func TestReleaseAndLeave(t *testing.T) {
	t.Parallel()
	tr := newTracker()
	a, b := newComputer(t, tr), newComputer(t, tr)
	ctx := t.Context()
	wantCode(t, b.Leave(ctx), protocol.CodeNotFound)
	pair(t, a, b)
	b.want(b.Refresh(ctx), StatusBound, a.own)

	// The owner lets the node go: it does not take itself back, nor to its own key.
	_, err := a.Release(ctx, "")
	wantCode(t, err, protocol.CodeInvalidRequest)
	_, err = a.Release(ctx, "zzzz")
	wantCode(t, err, protocol.CodeNotFound)
	_, err = a.Release(ctx, string(a.id.ID()))
	wantCode(t, err, protocol.CodeInvalidRequest)
	got, err := a.Release(ctx, strings.ToUpper(string(b.id.ID()[:20])))
	a.must(err)
	if got != b.id.ID() || tr.ownerOf(b.id.ID()) != "" {
		t.Errorf("released %s", got.Short())
	}
	for range 2 {
		s := b.Refresh(ctx)
		b.want(s, StatusReleased, a.own)
		if s.Error == nil {
			t.Error("nothing says why")
		}
		b.restart()
	}
	if tr.ownerOf(b.id.ID()) != "" {
		t.Error("the node bound itself")
	}
	// It is paired again, right away.
	pair(t, a, b)
	b.want(b.Refresh(ctx), StatusBound, a.own)

	// The node leaves by itself.
	b.must(b.Leave(ctx))
	b.want(b.State(), StatusBound, b.own)
	if tr.ownerOf(b.id.ID()) != b.own {
		t.Error("the node is still the other owner's")
	}
	b.restart()
	b.want(b.Refresh(ctx), StatusBound, b.own)

	// Released by a clock that is half an hour ahead, and back to the own key.
	pair(t, a, b)
	b.want(b.Refresh(ctx), StatusBound, a.own)
	_, err = a.Release(ctx, string(b.id.ID()))
	a.must(err)
	tr.set(func() { tr.ended[b.id.ID()] += 1800 })
	b.must(b.Leave(ctx))
	b.want(b.State(), StatusBound, b.own)
}

// TestFreshCode: a person may want another code, and may end a pairing.
func TestFreshCode(t *testing.T) {
	t.Parallel()
	tr := newTracker()
	a := newComputer(t, tr)
	ctx := t.Context()
	p, err := a.StartPairing(ctx, false)
	a.must(err)
	q, err := a.StartPairing(ctx, true)
	a.must(err)
	if p.Code == q.Code {
		t.Error("the same code")
	}
	a.must(a.EndPairing())
	_, err = a.Pairing(ctx)
	wantCode(t, err, protocol.CodeNotFound)
}
