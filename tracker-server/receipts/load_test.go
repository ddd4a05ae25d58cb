package receipts

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"neuron/engine/protocol"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/receipts/receiptstest"
)

// The sessions of the load: so many receipts per hop, sent so many at a time.
const (
	loadHops  = 3
	loadSpans = 16
	loadBatch = 8
	loadSlots = 32 // sessions at one time
)

// loadSession is a session with all its receipts, signed beforehand.
type loadSession struct {
	route *receiptstest.Route
	raws  [loadHops][][]byte
}

func signSession(t testing.TB, at time.Time, i int) *loadSession {
	s := &loadSession{route: receiptstest.Sign(t, receiptstest.Key("tracker"), protocol.NewSessionID(), at, driverKey,
		nodeKey(3*(i%loadSlots)), nodeKey(3*(i%loadSlots)+1), nodeKey(3*(i%loadSlots)+2))}
	for hop := range loadHops {
		for seq := range uint32(loadSpans) {
			s.raws[hop] = append(s.raws[hop], s.route.Span(hop, seq))
		}
	}
	return s
}

// loadResult is what a run has shown.
type loadResult struct {
	receipts int64
	took     time.Duration
	waits    []time.Duration // per batch, sorted
	leases   []time.Duration // for a session to be stored and its credit reserved, sorted
}

func (r *loadResult) String() string {
	at := func(d []time.Duration) string {
		q := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(time.Millisecond) }
		return fmt.Sprintf("%s (p99 %s, at most %s)", q(.5), q(.99), q(1))
	}
	return fmt.Sprintf("%d receipts in %s: %.0f/s; a batch of %d waits %s, a session's reservation %s",
		r.receipts, r.took.Round(time.Millisecond), float64(r.receipts)/r.took.Seconds(), loadBatch, at(r.waits), at(r.leases))
}

// load runs sessions with their reservations and ends; limit paces the receipts
// and may be nil.
func (w *world) load(sessions []*loadSession, limit *rate.Limiter) *loadResult {
	w.t.Helper()
	next := atomic.Int64{}
	var out loadResult
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	for range loadSlots {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(sessions) {
					return
				}
				lease := time.Now()
				w.addSession(sessions[i].route, loadSpans)
				reserved := time.Since(lease)
				waits, err := w.loadSession(sessions[i], limit)
				mu.Lock()
				out.leases = append(out.leases, reserved)
				out.waits = append(out.waits, waits...)
				out.receipts += loadHops * loadSpans
				mu.Unlock()
				if err != nil {
					w.t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	out.took = time.Since(began)
	slices.Sort(out.waits)
	slices.Sort(out.leases)
	return &out
}

func (w *world) loadSession(s *loadSession, limit *rate.Limiter) (waits []time.Duration, err error) {
	ctx := context.Background()
	for first := 0; first < loadSpans; first += loadBatch {
		for hop := range loadHops {
			if limit != nil {
				if err := limit.WaitN(ctx, loadBatch); err != nil {
					return waits, err
				}
			}
			began := time.Now()
			for _, v := range w.Submit(ctx, s.route.Lease.Hops[hop].Node, s.raws[hop][first:first+loadBatch]) {
				if v.Status != protocol.ReceiptAccepted {
					return waits, fmt.Errorf("%+v", v)
				}
			}
			waits = append(waits, time.Since(began))
		}
	}
	return waits, w.ledger.Finish(ctx, ledger.End{Session: s.route.Lease.Session, Prefill: 64, Decode: (loadSpans - 1) * 32})
}

// TestReceiptsPerSecond is a figure for the log: NEURON_RECEIPTS_LOAD=60s sends
// 2,000 receipts a second for as long as that, and then as many as it can.
func TestReceiptsPerSecond(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("NEURON_RECEIPTS_LOAD"))
	sessions := loadSlots
	if err == nil {
		sessions = int(d.Seconds()*2000)/(loadHops*loadSpans) + 1
	}
	w := newWorld(t)
	for i := range loadSlots * loadHops {
		w.own(i)
	}
	sign := func(n int) (out []*loadSession) {
		for i := range n {
			out = append(out, signSession(t, w.clock(), i))
		}
		return out
	}
	if err == nil {
		all := sign(sessions)
		t.Logf("2,000 a second: %s", w.load(all, rate.NewLimiter(2000, 400)))
	}
	all := sign(min(sessions, 1000))
	r := w.load(all, nil)
	t.Logf("as many as possible: %s", r)
	if posted := w.hook("posted"); posted != w.hook("accepted") || posted < int(r.receipts) {
		t.Errorf("%d receipts were taken and %d posted", w.hook("accepted"), posted)
	}
	w.check()
}
