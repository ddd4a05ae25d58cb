package receipt

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/identity"
)

func newIdentity(t testing.TB) *identity.Identity {
	t.Helper()
	id, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// route is a driver and hops with a book each, connected by function calls.
type route struct {
	t       testing.TB
	lease   *protocol.Lease
	signed  *protocol.SignedLease
	ids     []*identity.Identity // the hops', then the driver's
	books   []*Book
	hops    []*Session
	driver  *Session
	tracker *fakeTracker
	pos     uint32

	mu   sync.Mutex
	down bool // receivers cannot be reached
}

// fakeTracker takes receipts, and fails as told.
type fakeTracker struct {
	mu      sync.Mutex
	down    bool
	answer  func(i int) protocol.ReceiptVerdict
	got     map[protocol.Hash]int
	batches int
}

func (f *fakeTracker) Deliver(ctx context.Context, raws [][]byte) ([]protocol.ReceiptVerdict, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "no tracker")
	}
	f.batches++
	var out []protocol.ReceiptVerdict
	for i, raw := range raws {
		sr, _, err := protocol.ParseSignedReceipt(raw)
		if err != nil || !sr.Both() {
			return nil, protocol.Errorf(protocol.CodeInternal, "half a receipt was delivered: %w", err)
		}
		v := protocol.ReceiptVerdict{Status: protocol.ReceiptAccepted}
		if f.answer != nil {
			v = f.answer(i)
		}
		if v.Status != protocol.ReceiptRetry {
			f.got[sr.ID()]++
		}
		out = append(out, v)
	}
	return out, nil
}

func (f *fakeTracker) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeTracker) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.got)
}

// Mark and Countersign make a route its own Receiver.
func (r *route) Mark(_ context.Context, _ *protocol.Lease, hop int) (protocol.ReceiptMark, error) {
	if err := r.reach(); err != nil {
		return protocol.ReceiptMark{}, err
	}
	return r.hops[hop+1].Mark()
}

func (r *route) Countersign(_ context.Context, _ *protocol.Lease, hop int, half []byte) ([]byte, error) {
	if err := r.reach(); err != nil {
		return nil, err
	}
	return r.hops[hop+1].Countersign(half)
}

func (r *route) reach() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return protocol.Errorf(protocol.CodeHopLost, "cut off")
	}
	return nil
}

func newRoute(t testing.TB, hops int, change func(o *Options)) *route {
	t.Helper()
	r := &route{t: t, tracker: &fakeTracker{got: map[protocol.Hash]int{}}}
	for range hops + 1 {
		r.ids = append(r.ids, newIdentity(t))
	}
	now := time.Now().UTC().Truncate(time.Second)
	r.lease = &protocol.Lease{
		Version: protocol.Version, Session: protocol.NewSessionID(), Model: protocol.ModelIDOf([][sha256.Size]byte{{1}}),
		Layers: hops, Driver: r.ids[hops].ID(), Context: 4096, DType: protocol.DTypeF16,
		EngineBuild: protocol.Build{Protocol: protocol.Version, Llama: "v0.4.0"}, Issued: now, Expires: now.Add(time.Hour),
		Policy: protocol.PolicyPublic,
	}
	for i := range hops {
		r.lease.Hops = append(r.lease.Hops, protocol.Hop{Node: r.ids[i].ID(), Addr: "127.0.0.1:1", Use: protocol.Range{First: i, Last: i + 1}})
	}
	seed := sha256.Sum256([]byte("tracker"))
	var err error
	if r.signed, err = protocol.SignLease(r.lease, ed25519.NewKeyFromSeed(seed[:])); err != nil {
		t.Fatal(err)
	}
	for i := range hops + 1 {
		o := Options{Identity: r.ids[i], Dir: t.TempDir(), Receiver: r, Tracker: r.tracker, Logger: slog.New(slog.DiscardHandler)}
		if change != nil {
			change(&o)
		}
		b, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		r.books = append(r.books, b)
		var s *Session
		if i < hops {
			s, err = b.OpenHop(r.lease, r.signed, i, protocol.Class{Threads: 1, CPU: "haswell", Llama: "v0.4.0", Engine: "0.2.0"})
			r.hops = append(r.hops, s)
		} else {
			s, err = b.OpenDriver(r.lease, r.signed)
			r.driver = s
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *route) close() {
	r.t.Helper()
	for _, b := range r.books {
		if err := b.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

// step moves one row frame with a token over the route.
func (r *route) step(kind protocol.Kind, rows int) {
	f := protocol.IDFrame(kind, r.pos, make([]int32, rows))
	f.Flags = protocol.FlagSample
	pos := f.Pos
	r.driver.In(f)
	for i, h := range r.hops {
		h.In(f)
		h.Executed(0, pos)
		if i > 0 {
			r.hops[i-1].Acked(0, pos)
		}
		if i < len(r.hops)-1 {
			f = &protocol.Frame{Header: f.Header, Payload: bytes.Repeat([]byte{byte(i), byte(pos)}, rows)}
			f.Parts, f.Width, f.DType = protocol.PartHidden, 1, protocol.DTypeF16
			h.Out(f)
		}
	}
	r.pos += uint32(rows)
	tok, err := protocol.TokenFrame(0, 0, r.pos, protocol.Token{ID: int32(r.pos)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.hops[len(r.hops)-1].Out(tok)
	r.driver.Executed(0, pos)
	r.driver.Out(tok)
}

// answer is a whole session of 4 spans: a chunk, two decode spans, the rest.
func (r *route) answer() {
	r.step(protocol.KindPrefill, 100)
	for range 70 {
		r.step(protocol.KindDecode, 1)
	}
}

// pull is the driver at the tail: it signs what waits there.
func (r *route) pull() {
	r.t.Helper()
	tail := r.hops[len(r.hops)-1]
	for _, raw := range tail.Pending() {
		full, err := r.driver.Countersign(raw)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := tail.Complete(full); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *route) end() {
	r.t.Helper()
	m, err := r.driver.Mark()
	if err != nil {
		r.t.Fatal(err)
	}
	r.hops[len(r.hops)-1].CloseTail(m)
	r.pull()
	for _, h := range r.hops {
		h.Close()
	}
	r.driver.Close()
}

const spansOfAnswer = 4

// A route of three nodes: every span of every hop ends at the tracker, signed
// by both ends, once.
func TestReceiptsOfARoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 3, nil)
		defer r.close()
		r.answer()
		synctest.Wait()
		r.pull()
		r.end()
		time.Sleep(2 * defaultLinger) // bubble time
		synctest.Wait()
		if got := r.tracker.count(); got != 3*spansOfAnswer {
			t.Errorf("%d receipts, want %d", got, 3*spansOfAnswer)
		}
		for i, b := range r.books {
			st := b.Stats()
			want := Stats{Bytes: st.Bytes, Signed: spansOfAnswer, Finished: spansOfAnswer, Delivered: spansOfAnswer, Given: spansOfAnswer}
			if i == 0 {
				want.Given = 0
			}
			if i == len(r.books)-1 {
				want.Signed, want.Finished, want.Delivered = 0, 0, 0
			}
			if st != want {
				t.Errorf("book %d: %+v, want %+v", i, st, want)
			}
			if _, err := b.Find(r.lease.Session, 0); err == nil {
				t.Errorf("book %d still holds the session", i)
			}
		}
	})
}

// The tracker is away for hours, answers some with "not now", and takes all in
// the end.
func TestTrackerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 2, nil)
		defer r.close()
		r.tracker.set(func() { r.tracker.down = true })
		r.answer()
		r.end()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if st := r.books[0].Stats(); st.Waiting != spansOfAnswer || st.Delivered != 0 {
			t.Fatalf("%+v", st)
		}
		first := true
		r.tracker.set(func() {
			r.tracker.down = false
			r.tracker.answer = func(i int) protocol.ReceiptVerdict {
				if first && i == 1 {
					first = false
					return protocol.ReceiptVerdict{Status: protocol.ReceiptRetry}
				}
				return protocol.ReceiptVerdict{Status: protocol.ReceiptRepeat}
			}
		})
		r.books[0].Wake()
		r.books[1].Wake()
		time.Sleep(2 * backoffMax)
		synctest.Wait()
		if r.tracker.count() != 2*spansOfAnswer || r.books[0].Stats().Waiting+r.books[1].Stats().Waiting != 0 {
			t.Errorf("%d receipts came; %+v", r.tracker.count(), r.books[0].Stats())
		}
	})
}

// What waits when the node stops is delivered by the next run.
func TestDeliveredAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 1, nil)
		r.tracker.set(func() { r.tracker.down = true })
		r.answer()
		r.end()
		o := r.books[0].o
		r.close()
		if r.tracker.count() != 0 {
			t.Fatal("the tracker is not away")
		}
		if _, err := r.books[0].OpenHop(r.lease, r.signed, 0, protocol.Class{}); !errors.Is(err, &protocol.Error{Code: protocol.CodeShutdown}) {
			t.Errorf("a session on a closed book: %v", err)
		}
		r.tracker.set(func() { r.tracker.down = false })
		b, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := b.Stats(); st.Delivered != spansOfAnswer || st.Waiting != 0 || r.tracker.count() != spansOfAnswer {
			t.Errorf("%+v", st)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A refused receipt is not sent again.
func TestTrackerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 1, nil)
		defer r.close()
		r.tracker.answer = func(int) protocol.ReceiptVerdict {
			return protocol.ReceiptVerdict{Status: protocol.ReceiptRefused, Error: protocol.Errorf(protocol.CodeLeaseExpired, "too late")}
		}
		r.answer()
		r.end()
		time.Sleep(time.Hour)
		synctest.Wait()
		if st := r.books[0].Stats(); st.Refused != spansOfAnswer || st.Waiting != 0 || r.tracker.batches > spansOfAnswer {
			t.Errorf("%+v after %d batches", st, r.tracker.batches)
		}
	})
}

// A receiver that cannot be reached for a while signs later; one that never
// signs gets its neighbour nothing but a growing lag.
func TestReceiverAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 2, nil)
		defer r.close()
		r.down = true
		r.answer()
		synctest.Wait()
		if lag := r.hops[0].Lag(); lag != 3 {
			t.Errorf("lag %d, want 3", lag)
		}
		r.end()
		time.Sleep(20 * time.Second)
		r.mu.Lock()
		r.down = false
		r.mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if st := r.books[0].Stats(); st.Finished != spansOfAnswer || st.Unsigned != 0 {
			t.Errorf("%+v", st)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 2, nil)
		defer r.close()
		r.down = true
		r.answer()
		r.end()
		time.Sleep(2 * defaultLinger)
		synctest.Wait()
		if st := r.books[0].Stats(); st.Finished != 0 || st.Unsigned != 3 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// The receiver signs what came and nothing else.
func TestCountersignRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 2, nil)
		defer r.close()
		r.down = true
		r.answer()
		half := r.hops[0].Pending()[1]
		key := r.ids[0].PrivateKey()
		_, good, err := protocol.ParseSignedReceipt(half)
		if err != nil {
			t.Fatal(err)
		}
		deny := func(name string, want protocol.Code, change func(x *protocol.Receipt)) {
			t.Helper()
			x := *good
			change(&x)
			sr, err := protocol.SignReceipt(&x, key)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.hops[1].Countersign(sr.Encode()); !errors.Is(err, &protocol.Error{Code: want}) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
		deny("another output", protocol.CodeReceiptConflict, func(x *protocol.Receipt) { x.Span.Output[0]++ })
		deny("more rows", protocol.CodeReceiptConflict, func(x *protocol.Receipt) { x.Span.Rows++; x.Span.EpochLast++ })
		deny("a span to come", protocol.CodeUnavailable, func(x *protocol.Receipt) { x.Span.Seq = 9 })
		deny("another model", protocol.CodeReceiptInvalid, func(x *protocol.Receipt) { x.Model = protocol.ModelIDOf(nil) })
		deny("more layers", protocol.CodeReceiptInvalid, func(x *protocol.Receipt) { x.Layers.Last++ })
		deny("another lease", protocol.CodeLeaseInvalid, func(x *protocol.Receipt) { x.Lease[0]++ })
		deny("a clock more than an hour off", protocol.CodeReceiptInvalid, func(x *protocol.Receipt) {
			x.Time = x.Time.Add(protocol.ReceiptSkew + time.Second)
		})
		if _, err := r.hops[1].Countersign(half[:100]); !errors.Is(err, &protocol.Error{Code: protocol.CodeReceiptInvalid}) {
			t.Errorf("cut: %v", err)
		}
		if _, err := r.driver.Countersign(half); !errors.Is(err, &protocol.Error{Code: protocol.CodeReceiptInvalid}) {
			t.Errorf("the driver signed for hop 0: %v", err)
		}
		one, err := r.hops[1].Countersign(half)
		if err != nil {
			t.Fatal(err)
		}
		two, err := r.hops[1].Countersign(half)
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("signed again: %v", err)
		}
		deny("a second receipt for the span", protocol.CodeReceiptConflict, func(x *protocol.Receipt) { x.Time = x.Time.Add(time.Millisecond) })
		if err := r.hops[0].Complete(half); !errors.Is(err, &protocol.Error{Code: protocol.CodeUnauthorized}) {
			t.Errorf("completed by half: %v", err)
		}
		if err := r.hops[0].Complete(one); err != nil {
			t.Error(err)
		}
		if err := r.hops[0].Complete(one); !errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
			t.Errorf("completed twice: %v", err)
		}
	})
}

// An hour exactly is tolerated.
func TestCountersignSkew(t *testing.T) {
	var first *Options
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 2, func(o *Options) {
			if first == nil {
				first = o // hop 0 keeps its time
				return
			}
			o.Now = func() time.Time { return time.Now().Add(protocol.ReceiptSkew) }
		})
		defer r.close()
		r.down = true
		r.step(protocol.KindPrefill, 5)
		if _, err := r.hops[1].Countersign(r.hops[0].Pending()[0]); err != nil {
			t.Error(err)
		}
	})
}

// Frames that do not fit end the receipts, not the session.
func TestBrokenSessionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, 1, nil)
		defer r.close()
		r.step(protocol.KindPrefill, 5)
		r.hops[0].Executed(0, 77)
		r.step(protocol.KindDecode, 1)
		r.end()
		if st := r.books[0].Stats(); st.Signed != 1 {
			t.Errorf("%+v", st)
		}
	})
}
