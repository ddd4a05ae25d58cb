package receipts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/audit"
	"neuron/tracker-server/receipts/receiptstest"
	"neuron/tracker-server/store"
)

// equivocate has node 0 sign two receipts for one span.
func (w *world) equivocate(r *receiptstest.Route, seq uint32) {
	w.t.Helper()
	lie := r.Receipt(0, seq)
	lie.Time = lie.Time.Add(time.Millisecond)
	w.send("accepted", nodeID(0), r.Span(0, seq))
	w.send("receipt_conflict", nodeID(0), r.Half(lie).Encode())
}

func (w *world) proofs() []store.Proof {
	w.t.Helper()
	out, err := w.db.Proofs(w.t.Context(), 0, 1000)
	must(w.t, err)
	return out
}

// A proven fault freezes what the owner has not settled, bars the node, also
// after a restart, and is a file that a stranger can check; an operator takes
// it back.
func TestFaultAndLift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner, other := w.own(0), w.own(1)
	done := w.session(2, 4)
	w.send("accepted", nodeID(0), done.Span(0, 0))
	w.send("accepted", nodeID(1), done.Span(1, 0))
	w.finish(done, false)
	w.want(owner, store.Pending, worth(1))

	r := w.session(2, 4)
	w.equivocate(r, 0)
	w.equivocateAgain(r)
	list := w.proofs()
	if len(list) != 1 || list[0].Culprit != nodeID(0) || list[0].Kind != "equivocation" || list[0].Owner != owner || w.hook("equivocation") != 1 {
		t.Fatalf("proofs %+v, hooks %v", list, w.seen)
	}
	id := list[0].ID
	p, err := w.db.Proof(t.Context(), id)
	must(t, err)
	if f, err := audit.VerifyProof(p.File); err != nil || f.Culprit != nodeID(0) || f.Text != p.Text {
		t.Errorf("%+v, %v", f, err)
	}
	in := func(what string, frozen, pending store.Credit, barred bool) {
		t.Helper()
		w.want(owner, store.Frozen, frozen)
		w.want(owner, store.Pending, pending)
		why := w.barred()[nodeID(0)]
		if (why != "") != barred || barred && !strings.Contains(why, id.String()) || len(w.barred()) > 1 {
			t.Errorf("%s: barred %v", what, w.barred())
		}
		w.check()
	}
	in("proven", worth(1), 0, true)
	w.restart()
	in("restarted", worth(1), 0, true)
	w.send("accepted", nodeID(1), r.Span(1, 0)) // the work itself is paid, and frozen
	w.finish(r, false)
	in("more work", 2*worth(1), 0, true)
	w.want(other, store.Pending, 2*worth(1))

	for range 2 {
		must(t, w.Faults().Lift(t.Context(), id, "a fault of ours"))
		in("lifted", 0, 2*worth(1), false)
	}
	w.equivocateAgain(r)
	in("the same proof again", 0, 2*worth(1), false)
	w.restart()
	in("restarted after that", 0, 2*worth(1), false)
	if got := w.proofs()[0]; got.Note != "a fault of ours" || got.Lifted.IsZero() {
		t.Errorf("%+v", got)
	}
	wantCode(t, w.Faults().Forfeit(t.Context(), id, ""), protocol.CodeConflict)
	wantCode(t, w.Faults().Lift(t.Context(), protocol.Hash{}, ""), protocol.CodeNotFound)
	wantCode(t, w.Faults().Lift(t.Context(), id, strings.Repeat("x", 501)), protocol.CodeInvalidRequest)
}

// equivocateAgain sends what was proven before.
func (w *world) equivocateAgain(r *receiptstest.Route) {
	w.t.Helper()
	lie := r.Receipt(0, 0)
	lie.Time = lie.Time.Add(time.Millisecond)
	w.send("receipt_conflict", nodeID(0), r.Half(lie).Encode())
}

// Two proofs: each holds the credit and the bar by itself. A forfeited credit
// is the house's, and the bar stays until the proof is lifted.
func TestForfeit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := w.own(0)
	r := w.session(1, 4)
	w.equivocate(r, 0)
	w.equivocate(r, 1)
	w.finish(r, false)
	w.want(owner, store.Frozen, worth(2))
	list := w.proofs()
	if len(list) != 2 || !strings.HasPrefix(w.barred()[nodeID(0)], "2 proven faults") {
		t.Fatalf("%+v %v", list, w.barred())
	}
	must(t, w.Faults().Lift(t.Context(), list[0].ID, "x"))
	w.want(owner, store.Frozen, worth(2))
	if !strings.Contains(w.barred()[nodeID(0)], list[1].ID.String()) {
		t.Errorf("%v", w.barred())
	}
	for range 2 {
		must(t, w.Faults().Forfeit(t.Context(), list[1].ID, "kept"))
	}
	w.want(owner, store.Frozen, 0)
	w.want("house", store.Available, worth(2))
	w.restart()
	if w.barred()[nodeID(0)] == "" {
		t.Error("the bar is gone")
	}
	must(t, w.Faults().Lift(t.Context(), list[1].ID, "paid"))
	w.want("house", store.Available, worth(2))
	if len(w.barred()) != 0 {
		t.Errorf("%v", w.barred())
	}
	w.check()
}

// A node that nobody owns is barred, and there is nothing to freeze.
func TestFaultWithoutOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.session(1, 0)
	w.equivocate(r, 0)
	list := w.proofs()
	if len(list) != 1 || list[0].Owner != "" || w.barred()[nodeID(0)] == "" {
		t.Fatalf("%+v %v", list, w.barred())
	}
	wantCode(t, w.Faults().Forfeit(t.Context(), list[0].ID, ""), protocol.CodeInvalidRequest)
	must(t, w.Faults().Lift(t.Context(), list[0].ID, ""))
	if len(w.barred()) != 0 {
		t.Errorf("%v", w.barred())
	}
}

// The credit frozen is that of the owner who would be paid, also when the node
// belongs to somebody else by now, or the driver did it.
func TestWhoIsFrozen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := w.own(0)
	r := w.session(1, 4)
	must(t, w.ledger.Update(t.Context(), func(tx store.LedgerTx, now time.Time) error { return tx.EndNodeOwner(nodeID(0), now) }))
	lie := r.Receipt(0, 0)
	lie.Time = lie.Time.Add(time.Millisecond)
	w.send("accepted", nodeID(0), r.Span(0, 0))
	w.send("receipt_conflict", nodeID(0), r.Both(lie)) // the driver countersigned both
	of := map[protocol.NodeID]store.AccountID{}
	for _, p := range w.proofs() {
		of[p.Culprit] = p.Owner
	}
	if len(of) != 2 || of[nodeID(0)] != owner || of[r.Lease.Driver] != "" {
		t.Errorf("%v", of)
	}
}

// Whatever fails while a fault is dealt with, it is dealt with in the end.
func TestFaultThatFails(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"store", "ledger"} {
		w := newWorld(t)
		owner := w.own(0)
		r := w.session(1, 4)
		w.send("accepted", nodeID(0), r.Span(0, 0))
		w.finish(r, false)
		lie := r.Receipt(0, 0)
		lie.Time = lie.Time.Add(time.Millisecond)
		writes := 0
		w.db.set(func(x string, _ []store.Receipt) error {
			if x == "ledger" {
				writes++ // the first one is that of receipt and proof
			}
			if x == what && (what != "ledger" || writes > 1) {
				return errDisk
			}
			return nil
		}, nil)
		w.send("retry", nodeID(0), r.Half(lie).Encode())
		w.db.set(nil, nil)
		w.want(owner, store.Frozen, 0)
		if what == "ledger" {
			w.restart() // the proof is stored, and nobody sends it again
		} else {
			w.send("receipt_conflict", nodeID(0), r.Half(lie).Encode())
		}
		w.want(owner, store.Frozen, worth(1))
		if len(w.proofs()) != 1 || w.barred()[nodeID(0)] == "" {
			t.Errorf("%s: %v %v", what, w.proofs(), w.barred())
		}
		w.check()
	}
}

// A node cannot fill the disk with proofs against itself.
func TestProofsPerNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.session(1, 4)
	w.send("accepted", nodeID(0), r.Span(0, 0))
	var lies [][]byte
	for i := range maxStanding + 20 {
		lie := r.Receipt(0, 0)
		lie.Class.CPU = fmt.Sprint("cpu", i)
		lies = append(lies, r.Half(lie).Encode())
	}
	w.send("receipt_conflict", nodeID(0), lies[:maxStanding-5]...)
	w.send("receipt_conflict", nodeID(0), lies[maxStanding-5:]...)
	if n := len(w.proofs()); n != maxStanding {
		t.Errorf("%d proofs", n)
	}
	must(t, w.Faults().Lift(t.Context(), w.proofs()[0].ID, ""))
	w.send("receipt_conflict", nodeID(0), lies[maxStanding+1:]...)
	if n := len(w.proofs()); n != maxStanding+1 {
		t.Errorf("%d proofs after one was lifted", n)
	}
}
