package audit

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"neuron/engine/protocol"
)

// many is a store with many sessions; the world makes them one after the other.
type many struct {
	*world
	leases map[protocol.SessionID]*protocol.SignedLease
	kept   map[protocol.SessionID][][]byte
	loads  int // sessions that were read
}

func newMany(t testing.TB, hops int) *many {
	return &many{world: newWorld(t, hops), leases: map[protocol.SessionID]*protocol.SignedLease{}, kept: map[protocol.SessionID][][]byte{}}
}

// next makes another session.
func (m *many) next() {
	m.t.Helper()
	m.lease.Session = protocol.NewSessionID()
	var err error
	if m.signed, err = protocol.SignLease(m.lease, key("tracker")); err != nil {
		m.t.Fatal(err)
	}
	m.leases[m.lease.Session] = m.signed
}

func (m *many) Lease(id protocol.SessionID) (*protocol.SignedLease, *protocol.Lease, error) {
	signed := m.leases[id]
	if signed == nil {
		return nil, nil, protocol.Errorf(protocol.CodeSessionUnknown, "no session")
	}
	l, err := signed.Verify(signed.Key, time.Time{})
	return signed, l, err
}

func (m *many) Receipts(id protocol.SessionID) ([][]byte, error) {
	m.loads++
	return m.kept[id], nil
}

func (m *many) SpanReceipts(id protocol.SessionID, hop int, seq uint32) ([][]byte, error) {
	w := *m.world
	w.stored = m.kept[id]
	return w.SpanReceipts(id, hop, seq)
}

// give submits a receipt and wants a status.
func (m *many) give(a *Auditor, at time.Time, raw []byte, want protocol.ReceiptStatus) Verdict {
	m.t.Helper()
	c := m.check(raw)
	v := a.Submit(at, c.receipt.Node, c)
	if v.Status != want {
		m.t.Fatalf("%s %v, want %s", v.Status, v.Error, want)
	}
	if v.Keep != nil {
		m.kept[c.receipt.Session] = append(m.kept[c.receipt.Session], v.Keep)
	}
	return v
}

// TestEndedSessionsAreForgotten: what comes late to a session that is not in
// memory any more gets the same answers, proofs of faults included.
func TestEndedSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	m := newMany(t, 2)
	a := New(DefaultConfig(), m)
	type of struct{ first, late, again, lie []byte }
	var all []of
	at := now
	for range 300 {
		m.next()
		lie := m.receipt(0, 0)
		lie.Span.Output[0]++
		x := of{m.both(m.receipt(0, 0)), m.both(m.receipt(1, 0)), m.half(m.receipt(0, 0)).Encode(), m.half(lie).Encode()}
		all = append(all, x)
		m.give(a, at, x.first, protocol.ReceiptAccepted)
		a.Kept(at)
		at = at.Add(time.Second)
	}
	if n, most := len(a.sessions), int(a.cfg.Idle/time.Second)+1; n > most || n < most-1 || a.order.Len() != n {
		t.Errorf("%d sessions in memory, want those of the last %s", n, a.cfg.Idle)
	}
	a.Rest(at.Add(a.cfg.Idle))
	if len(a.sessions)+a.order.Len()+len(a.fresh) != 0 || a.bytes != 0 {
		t.Errorf("%d sessions and %d bytes are left at rest", len(a.sessions), a.bytes)
	}
	for _, x := range all {
		m.loads = 0
		m.give(a, at, x.again, protocol.ReceiptRepeat)
		if v := m.give(a, at, x.lie, protocol.ReceiptRefused); len(v.Proofs) != 1 || v.Proofs[0].Fault.Kind != Equivocation || v.Proofs[0].Fault.Culprit != node("h0") {
			t.Fatalf("%+v", v)
		}
		if v := m.give(a, at, x.late, protocol.ReceiptAccepted); len(v.Facts) != 2 || !v.Facts[0].Backed || !v.Facts[1].Backed {
			t.Fatalf("%+v", v)
		}
		m.give(a, at, x.late, protocol.ReceiptRepeat)
		a.Kept(at)
		if m.loads != 1 {
			t.Fatalf("the session was read %d times", m.loads)
		}
	}
}

// TestMemoryIsBounded: sessions make room for others before they are idle, and
// are read again.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m := newMany(t, 1)
	a := New(Config{Keep: time.Hour, Idle: time.Hour, MaxBytes: 10 * (entryBytes + sessionBytes + hopBytes)}, m)
	var raws [][]byte
	for range 60 {
		m.next()
		raw := m.both(m.receipt(0, 0))
		m.give(a, issued, raw, protocol.ReceiptAccepted)
		a.Kept(issued)
		raws = append(raws, raw)
	}
	if len(a.sessions) != 10 || a.order.Len() != 10 || a.bytes > a.cfg.MaxBytes {
		t.Errorf("%d sessions in %d bytes", len(a.sessions), a.bytes)
	}
	for _, raw := range raws {
		m.give(a, issued, raw, protocol.ReceiptRepeat)
	}
	if len(a.sessions) != 10 {
		t.Errorf("%d sessions after reading", len(a.sessions))
	}
}

// TestWhatIsNotStoredIsNotForgotten: within a group, which is stored as a whole,
// a session makes no room for others: two receipts for one span are a fault
// though the store knows of neither.
func TestWhatIsNotStoredIsNotForgotten(t *testing.T) {
	t.Parallel()
	m := newMany(t, 1)
	a := New(Config{Keep: time.Hour, Idle: time.Nanosecond, MaxBytes: 1}, m)
	var firsts, lies [][]byte
	for range 20 {
		m.next()
		lie := m.receipt(0, 0)
		lie.Span.Output[0]++
		firsts, lies = append(firsts, m.both(m.receipt(0, 0))), append(lies, m.both(lie))
	}
	var kept [][]byte
	for i, raw := range firsts {
		c := m.check(raw)
		kept = append(kept, a.Submit(issued.Add(time.Duration(i)*time.Second), c.receipt.Node, c).Keep)
	}
	a.Rest(issued.Add(time.Minute))
	for i, raw := range lies {
		if v := m.give(a, issued, raw, protocol.ReceiptRefused); kept[i] == nil || len(v.Proofs) != 2 {
			t.Errorf("%d proofs", len(v.Proofs))
		}
	}
	a.Kept(issued.Add(time.Minute))
	if len(a.sessions)+len(a.fresh) != 0 {
		t.Errorf("%d sessions are left", len(a.sessions))
	}
}

// TestStoredReceiptsAreNotHeld: of a receipt that is stored little is in memory,
// and about what is counted.
func TestStoredReceiptsAreNotHeld(t *testing.T) { // alone: it looks at the heap
	const sessions, spans = 100, 20
	m := newMany(t, 2)
	a := New(Config{Keep: time.Hour, Idle: time.Hour, MaxBytes: 1 << 30}, m)
	heap := func() int64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.GC() // pools keep things for one more
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before := heap()
	for range sessions {
		m.next()
		for hop := range 2 {
			for seq := range uint32(spans) {
				m.give(a, issued, m.half(m.receipt(hop, seq)).Encode(), protocol.ReceiptAccepted)
			}
		}
		clear(m.kept)
		clear(m.leases)
		a.Kept(issued)
	}
	took := heap() - before
	t.Logf("%d bytes for a session with %d receipts, %d counted", took/sessions, 2*spans, a.bytes/sessions)
	if took > a.bytes*3/2 || took < a.bytes/2 || took > sessions*2*spans*protocol.SignedReceiptSize/2 {
		t.Errorf("%d bytes in the heap, %d counted", took, a.bytes)
	}
	if n := len(a.sessions); n != sessions {
		t.Errorf("%d sessions", n)
	}
}

// TestEvidenceCannotBeRead: no answer is given without the proof that belongs to
// it; the node sends again.
func TestEvidenceCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	a := New(DefaultConfig(), w)
	up := w.receipt(0, 0)
	up.Span.Output[0]++
	w.submit(a, w.both(w.receipt(1, 0)))
	for range 2 {
		w.fails = true
		v := w.submit(a, w.both(up))
		if v.Status != protocol.ReceiptRetry || v.Error.Code != protocol.CodeUnavailable || errors.Unwrap(v.Error) == nil || len(v.Facts)+len(v.Proofs) != 0 {
			t.Errorf("%+v", v)
		}
	}
	w.fails = false
	if v := w.submit(a, w.both(up)); v.Status != protocol.ReceiptAccepted || len(v.Proofs) != 1 || v.Proofs[0].Fault.Culprit != node("h1") {
		t.Errorf("%+v", v)
	}
	stored := w.stored
	w.stored = nil // somebody has cleared the database
	lie := w.receipt(1, 0)
	lie.Time = lie.Time.Add(time.Millisecond)
	if v := w.submit(a, w.both(lie)); v.Status != protocol.ReceiptRetry {
		t.Errorf("%+v", v)
	}
	w.stored = stored
	if v := w.submit(a, w.both(lie)); v.Status != protocol.ReceiptRefused || len(v.Proofs) != 2 {
		t.Errorf("%+v", v)
	}
}

// BenchmarkReadAgain is what a receipt costs that comes after its session was
// forgotten, apart from the database.
func BenchmarkReadAgain(b *testing.B) {
	m := newMany(b, 2)
	a := New(Config{Keep: time.Hour, MaxBytes: 1 << 20}, m)
	m.next()
	var last []byte
	for hop := range 2 {
		for seq := range uint32(20) {
			last = m.both(m.receipt(hop, seq))
			m.give(a, issued, last, protocol.ReceiptAccepted)
		}
	}
	a.Kept(issued)
	c := m.check(last)
	for b.Loop() {
		a.Rest(issued.Add(time.Second))
		if v := a.Submit(issued, c.receipt.Node, c); v.Status != protocol.ReceiptRepeat {
			b.Fatal(v.Error)
		}
	}
}
