package receipts

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/audit"
	"neuron/tracker-server/receipts/receiptstest"
	"neuron/tracker-server/store"
)

type faultKind = audit.FaultKind

// Work is paid when all hops behind it have signed for it, once, and the
// session's good end makes it an earning.
func TestPaidWhenBacked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owners := []store.AccountID{w.own(0), w.own(1)}
	r := w.session(3, 4) // nobody owns the last hop
	head, middle := [][]byte{}, [][]byte{}
	tail := [][]byte{}
	for seq := range uint32(4) {
		head, middle, tail = append(head, r.Span(0, seq)), append(middle, r.Span(1, seq)), append(tail, r.Span(2, seq))
	}
	w.send("accepted", nodeID(0), head...)
	w.send("accepted", nodeID(2), middle...) // from the receiver
	w.want(owners[0], store.Held, 0)
	w.send("accepted", r.Lease.Driver, tail[:2]...)
	w.want(owners[0], store.Held, worth(2))
	w.want(owners[1], store.Held, worth(2))
	w.send("repeat", nodeID(2), tail[:2]...)
	w.send("repeat", nodeID(1), head...)
	w.finish(r, false)
	w.send("accepted", nodeID(2), tail[3], tail[2]) // late, in another order
	for _, o := range owners {
		w.want(o, store.Held, 0)
		w.want(o, store.Pending, worth(4))
	}
	if w.hook("posted") != 12 || w.hook("accepted") != 12 || w.hook("repeat") != 6 || w.sum != 2*worth(4) {
		t.Errorf("hooks: %v, %s", w.seen, w.sum)
	}
	w.check()
}

// Nobody is paid for a session without a reservation, nor for one that failed,
// and the receipts are taken all the same: they are evidence.
func TestUnpaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.own(0)
	free, failed := w.session(1, 0), w.session(1, 4)
	w.send("accepted", nodeID(0), free.Span(0, 0))
	w.send("accepted", nodeID(0), failed.Span(0, 0))
	w.want(o, store.Held, worth(1))
	w.finish(failed, true)
	w.send("accepted", nodeID(0), failed.Span(0, 1))
	w.want(o, store.Held, 0)
	w.want(w.client, store.Available, 1e13)
	if w.hook("unpaid") != 2 {
		t.Errorf("hooks: %v", w.seen)
	}
	// Later than the ledger pays: refused with its code, and kept.
	late := w.session(1, 4)
	w.finish(late, false)
	w.pass(7 * time.Hour)
	if n, err := w.ledger.Sweep(t.Context()); n != 1 || err != nil {
		t.Fatalf("swept %d, %v", n, err)
	}
	w.send("lease_expired", nodeID(0), late.Span(0, 0))
	w.send("repeat", nodeID(0), late.Span(0, 0))
	w.want(o, store.Pending, 0)
	w.check()
}

// A broken receipt among good ones is refused by itself.
func TestBrokenByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.session(1, 4)
	bad := slices.Clone(r.Span(0, 1))
	bad[len(bad)-1] ^= 1
	got := w.Submit(t.Context(), nodeID(0), [][]byte{bad, r.Span(0, 0), nil, r.Half(r.Receipt(0, 1)).Encode()})
	want := []protocol.Code{protocol.CodeUnauthorized, "", protocol.CodeReceiptInvalid, ""}
	for i, v := range got {
		if want[i] == "" && v.Status != protocol.ReceiptAccepted || want[i] != "" && (v.Status != protocol.ReceiptRefused || v.Error.Code != want[i]) {
			t.Errorf("receipt %d: %+v, want %q", i, v, want[i])
		}
	}
	if out := w.Submit(t.Context(), nodeID(0), nil); len(out) != 0 {
		t.Errorf("an empty batch: %+v", out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v := w.Submit(ctx, nodeID(0), [][]byte{r.Span(0, 1)})[0]; v.Status != protocol.ReceiptRetry {
		t.Errorf("at the end: %+v", v)
	}
	w.send("accepted", nodeID(0), r.Span(0, 1))
	w.check()
}

// Whatever fails, before or after it was done, the answer is retry, nothing
// counts twice and nothing is forgotten.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"store", "ledger", "session"} {
		for _, after := range []bool{false, true} {
			w := newWorld(t)
			o := w.own(0)
			r := w.session(2, 3)
			w.send("accepted", nodeID(0), r.Span(0, 0), r.Span(0, 1))
			w.restart() // so that the session is read
			fail := func(x string) error {
				if x == what {
					return errDisk
				}
				return nil
			}
			if after {
				w.db.set(nil, fail)
			} else {
				w.db.set(func(x string, _ []store.Receipt) error { return fail(x) }, nil)
			}
			raws := [][]byte{r.Span(1, 0), r.Span(1, 1)}
			w.send("retry", nodeID(1), raws...)
			want := "accepted"
			if what == "ledger" && after {
				want = "repeat" // it was stored and paid
			} else {
				w.send("retry", nodeID(1), raws...)
			}
			w.db.set(nil, nil)
			w.send(want, nodeID(1), raws...)
			w.send("repeat", nodeID(1), raws...)
			w.want(o, store.Held, worth(2))
			w.check()
		}
	}
}

// oneGroup runs n calls of Submit so that they are judged as one group.
func (w *world) oneGroup(n int, calls ...func(i uint32)) {
	w.pen <- struct{}{}
	var wg sync.WaitGroup
	for _, call := range calls {
		for i := range uint32(n) {
			wg.Go(func() { call(i) })
		}
	}
	for waiting := 0; waiting < n*len(calls); runtime.Gosched() {
		w.Intake.mu.Lock()
		waiting = len(w.waiting)
		w.Intake.mu.Unlock()
	}
	<-w.pen
	wg.Wait()
}

// One batch that cannot be stored does not hold up those of other nodes. When
// the whole database cannot be written, nobody waits for that twice.
func TestFailuresOfOneBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good, bad := w.session(1, 40), w.session(2, 40)
	w.db.set(func(what string, rs []store.Receipt) error {
		if what == "store" && slices.ContainsFunc(rs, func(r store.Receipt) bool { return r.Session == bad.Lease.Session }) {
			return errDisk
		}
		return nil
	}, nil)
	w.oneGroup(5,
		func(seq uint32) { w.send("accepted", nodeID(0), good.Span(0, seq)) },
		func(seq uint32) { w.send("retry", nodeID(1), bad.Span(1, seq)) })
	for _, what := range []string{"session", "ledger", "store"} {
		tries := 0
		w.db.set(func(x string, _ []store.Receipt) error {
			if x != what {
				return nil
			}
			tries++
			return protocol.Errorf(protocol.CodeUnavailable, "another process is writing")
		}, nil)
		w.oneGroup(5, func(seq uint32) { w.send("retry", nodeID(1), bad.Span(1, seq)) })
		if tries != 1 {
			t.Errorf("%s: %d tries", what, tries)
		}
	}
	w.db.set(nil, nil)
	for seq := range uint32(5) {
		w.send("accepted", nodeID(1), bad.Span(1, seq))
	}
	w.check()
}

// Groups follow each other at the pace, but when many receipts wait.
func TestPace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.Pace = time.Hour
	var all [][]byte
	for _, r := range []*receiptstest.Route{w.session(1, maxGroup), w.session(1, maxGroup)} {
		for seq := range uint32(maxGroup/2 + 1) {
			all = append(all, r.Span(0, seq))
		}
	}
	w.send("accepted", nodeID(0), all[0]) // no group was before it
	w.send("accepted", nodeID(0), all[1:]...)
	w.cfg.Pace = 20 * time.Millisecond
	begun := w.begun
	w.send("repeat", nodeID(0), all[0])
	if d := w.begun.Sub(begun); d < w.cfg.Pace {
		t.Errorf("a group followed after %s", d)
	}
}

// Many nodes at one time, each sending its receipts in any order until they are
// taken, over a store that fails now and then and a tracker that is restarted:
// in the end each span is paid once.
func TestNothingLostNothingTwice(t *testing.T) {
	t.Parallel()
	const hops, sessions, spans = 3, 4, 12
	for seed := range uint64(3) {
		w := newWorld(t)
		var owners []store.AccountID
		for i := range hops {
			owners = append(owners, w.own(i))
		}
		var routes []*receiptstest.Route
		for range sessions {
			routes = append(routes, w.session(hops, spans))
		}
		var mu sync.Mutex
		rnd := rand.New(rand.NewPCG(seed, 5))
		chance := func(n int) bool {
			mu.Lock()
			defer mu.Unlock()
			return rnd.IntN(n) == 0
		}
		fail := func(string) error {
			if chance(6) {
				return errDisk
			}
			return nil
		}
		w.db.set(func(what string, _ []store.Receipt) error { return fail(what) }, fail)
		for round := range 3 { // a restart between them
			if round > 0 {
				w.db.set(nil, nil)
				w.restart()
				if round == 1 {
					w.db.set(func(what string, _ []store.Receipt) error { return fail(what) }, fail)
				}
			}
			var wg sync.WaitGroup
			for _, r := range routes {
				for hop := range hops {
					wg.Go(func() {
						var left [][]byte
						for seq := range uint32(spans) {
							left = append(left, r.Span(hop, seq))
						}
						own := rand.New(rand.NewPCG(seed, uint64(hop)))
						for tries := 0; len(left) > 0 && (round == 2 || tries < 4); tries++ {
							own.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
							n := 1 + own.IntN(len(left))
							part := left[:n:n]
							left = left[n:]
							for i, v := range w.Submit(t.Context(), r.Receipt(hop, 0).Receiver, part) {
								switch v.Status {
								case protocol.ReceiptRetry:
									left = append(left, part[i])
								case protocol.ReceiptRefused:
									t.Errorf("refused: %v", v.Error)
								}
							}
						}
					})
				}
			}
			wg.Wait()
		}
		for _, o := range owners {
			w.want(o, store.Held, sessions*worth(spans))
		}
		w.check()
	}
}

// What is refused or known costs processor time and nothing else; a node that
// sends too much of it has to wait, and an honest one does not notice.
func TestUselessReceiptsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.session(1, 4)
	broken := make([][]byte, 500)
	for range uselessBurst / len(broken) {
		w.send("receipt_invalid", nodeID(0), broken...)
	}
	w.send("retry", nodeID(0), r.Span(0, 0))
	if w.hook("retryrate_limited") != 1 {
		t.Errorf("hooks: %v", w.seen)
	}
	w.send("accepted", r.Lease.Driver, r.Span(0, 0))
	w.pass(time.Second)
	w.send("accepted", nodeID(0), r.Span(0, 1))
	w.send("receipt_invalid", nodeID(0), broken...)
	w.send("retry", nodeID(0), r.Span(0, 2))
	// Those who owe nothing are forgotten.
	w.pass(time.Hour)
	w.limits.charge("other", 1)
	if len(w.limits.of) != 2 {
		t.Errorf("%d nodes are remembered", len(w.limits.of))
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.session(1, 4)
	w.send("accepted", nodeID(0), r.Span(0, 0))
	end := r.Lease.Expires.Sub(t0) + audit.DefaultConfig().Keep
	w.pass(end)
	if n, err := w.Prune(t.Context()); n != 0 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	w.send("repeat", nodeID(0), r.Span(0, 0)) // the last moment
	w.pass(time.Second)
	w.send("lease_expired", nodeID(0), r.Span(0, 1))
	w.pass(settleTime)
	if n, err := w.Prune(t.Context()); n != 1 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	w.restart()
	w.send("lease_expired", nodeID(0), r.Span(0, 0)) // not taken anew
}

// TestLateReceiptsAfterRest: what the intake needs of a session it reads again,
// once, whatever comes to a session that everybody had done with.
func TestLateReceiptsAfterRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reads := 0
	w.db.set(func(what string, _ []store.Receipt) error {
		if what == "session" {
			reads++
		}
		return nil
	}, nil)
	o := w.own(0)
	r := w.session(2, 4)
	w.send("accepted", nodeID(0), r.Span(0, 0), r.Span(0, 1))
	w.send("accepted", r.Lease.Driver, r.Span(1, 0))
	if reads != 1 {
		t.Errorf("the session was read %d times at first", reads)
	}
	w.want(o, store.Held, worth(1))
	lie := r.Receipt(0, 1)
	lie.Span.Output[0]++
	for i, step := range []struct {
		want  string
		from  int
		raw   []byte
		reads int
	}{
		{"repeat", 0, r.Span(0, 0), 2},
		{"accepted", 1, r.Span(1, 1), 3},
		{"receipt_conflict", 0, r.Half(lie).Encode(), 5}, // its proof has the lease in it
	} {
		before := reads
		w.Rest()
		w.send("repeat", nodeID(0), r.Span(0, 0))
		if reads != before {
			t.Errorf("step %d: the session was forgotten too early", i)
		}
		w.pass(audit.DefaultConfig().Idle + time.Second)
		w.Rest()
		w.send(step.want, nodeID(step.from), step.raw)
		if reads != step.reads {
			t.Errorf("step %d: the session was read %d times, want %d", i, reads, step.reads)
		}
	}
	w.want(o, store.Held, worth(2))
	if p, err := w.db.Proofs(t.Context(), 0, 5); err != nil || len(p) != 1 || p[0].Culprit != nodeID(0) || p[0].Kind != string(audit.Equivocation) {
		t.Errorf("%+v, %v", p, err)
	}
	w.check()
}
