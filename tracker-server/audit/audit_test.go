package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"

	"github.com/google/go-cmp/cmp"
)

var issued = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("audit test " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func node(name string) protocol.NodeID {
	return protocol.NodeIDOf(key(name).Public().(ed25519.PublicKey))
}

// world is a tracker's store with one session over hops "h0", "h1", ... driven
// by "driver".
type world struct {
	t      testing.TB
	hops   int
	lease  *protocol.Lease
	signed *protocol.SignedLease
	stored [][]byte
	fails  bool
	group  bool // nothing is stored yet
}

func newWorld(t testing.TB, hops int) *world {
	w := &world{t: t, hops: hops}
	w.lease = &protocol.Lease{
		Version: protocol.Version, Session: "s-aaaaaaaaaaaaaaaaaaaaaaaaaa", Model: protocol.ModelIDOf([][sha256.Size]byte{{1}}),
		Layers: 4 * hops, Driver: node("driver"), Context: 2048, DType: protocol.DTypeF32,
		EngineBuild: protocol.Build{Protocol: protocol.Version, Llama: "v0.4.0"}, Issued: issued, Expires: issued.Add(time.Hour),
		Policy: protocol.PolicyPublic,
	}
	for i := range hops {
		w.lease.Hops = append(w.lease.Hops, protocol.Hop{
			Node: node(fmt.Sprint("h", i)), Addr: "127.0.0.1:1", Use: protocol.Range{First: 4 * i, Last: 4*i + 4},
		})
	}
	var err error
	if w.signed, err = protocol.SignLease(w.lease, key("tracker")); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) Lease(id protocol.SessionID) (*protocol.SignedLease, *protocol.Lease, error) {
	if w.fails {
		return nil, nil, errors.New("disk on fire")
	}
	if id != w.lease.Session {
		return nil, nil, protocol.Errorf(protocol.CodeSessionUnknown, "no session %s", string(id))
	}
	l, err := w.signed.Verify(w.signed.Key, time.Time{})
	return w.signed, l, err
}

func (w *world) Receipts(protocol.SessionID) ([][]byte, error) { return w.stored, nil }

func (w *world) SpanReceipts(_ protocol.SessionID, hop int, seq uint32) (out [][]byte, err error) {
	if w.fails {
		return nil, errors.New("disk on fire")
	}
	for _, raw := range w.stored {
		r, err := protocol.ParseReceipt(raw[:protocol.ReceiptSize])
		if err != nil {
			return nil, err
		}
		if r.Hop == hop && r.Span.Seq == seq {
			out = append(out, raw)
		}
	}
	return out, nil
}

// receipt is what hop signs for a span: a chunk of 64 first, then 32 positions
// each.
func (w *world) receipt(hop int, seq uint32) *protocol.Receipt {
	sp := protocol.Span{Kind: protocol.SpanPrefill, Seq: seq, Last: 64, Rows: 64}
	if seq > 0 {
		sp = protocol.Span{Kind: protocol.SpanDecode, Seq: seq, First: 32 + 32*seq, Last: 64 + 32*seq, Rows: 32}
	}
	sp.Input = sha256.Sum256(fmt.Append(nil, "seam", hop, seq))
	sp.Output = sha256.Sum256(fmt.Append(nil, "seam", hop+1, seq))
	receiver := w.lease.Driver
	if hop+1 < w.hops {
		receiver = w.lease.Hops[hop+1].Node
	}
	return &protocol.Receipt{
		Session: w.lease.Session, Lease: w.signed.Hash(), Model: w.lease.Model, Node: w.lease.Hops[hop].Node, Receiver: receiver,
		Hop: hop, Layers: w.lease.Hops[hop].Use, DType: w.lease.DType, Span: sp,
		Class: protocol.Class{Threads: 1, CPU: "haswell", Llama: "v0.4.0", Engine: "0.2.0"},
		Time:  issued.Add(time.Minute + time.Duration(seq)*time.Second),
	}
}

// keyOf finds the key of a node by its id.
func (w *world) keyOf(id protocol.NodeID) ed25519.PrivateKey {
	for _, name := range append([]string{"driver", "stranger"}, w.names()...) {
		if node(name) == id {
			return key(name)
		}
	}
	w.t.Fatalf("no key of %s", id)
	return nil
}

func (w *world) names() (out []string) {
	for i := range w.hops {
		out = append(out, fmt.Sprint("h", i))
	}
	return out
}

func (w *world) half(r *protocol.Receipt) *protocol.SignedReceipt {
	w.t.Helper()
	s, err := protocol.SignReceipt(r, w.keyOf(r.Node))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) both(r *protocol.Receipt) []byte {
	w.t.Helper()
	return w.half(r).Countersign(w.keyOf(r.Receiver)).Encode()
}

func (w *world) check(raw []byte) *Checked {
	w.t.Helper()
	c, err := Check(raw)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// now is when submit does it.
var now = issued.Add(10 * time.Minute)

// submit gives a receipt in and stores what is to be kept.
func (w *world) submit(a *Auditor, raw []byte) Verdict {
	w.t.Helper()
	c := w.check(raw)
	v := a.Submit(now, c.receipt.Node, c)
	if (v.Keep != nil) != (v.Status == protocol.ReceiptAccepted) {
		w.t.Fatalf("%s, but keep %d bytes", v.Status, len(v.Keep))
	}
	if v.Keep != nil && !w.group {
		w.stored = append(w.stored, v.Keep)
		a.Kept(now)
	}
	return v
}

func TestHonestSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	a := New(DefaultConfig(), w)
	v := w.submit(a, w.both(w.receipt(0, 0)))
	want := Fact{
		Key: v.Facts[0].Key, Session: w.lease.Session, Receipt: v.Facts[0].Receipt, Hop: 0, Node: node("h0"), Receiver: node("h1"),
		Model: w.lease.Model, Layers: protocol.Range{First: 0, Last: 4}, Kind: protocol.SpanPrefill, Last: 64, Rows: 64, Kept: 64,
	}
	if d := cmp.Diff([]Fact{want}, v.Facts); d != "" || v.Status != protocol.ReceiptAccepted {
		t.Errorf("%s (-want +got):\n%s", v.Status, d)
	}
	if v := w.submit(a, w.both(w.receipt(1, 0))); len(v.Facts) != 1 || v.Facts[0].Backed {
		t.Errorf("%+v", v)
	}
	// The tail's receipt has the driver's signature: it backs all before it.
	v = w.submit(a, w.both(w.receipt(2, 0)))
	if len(v.Facts) != 3 || !v.Facts[0].Backed || !v.Facts[1].Backed || !v.Facts[2].Backed || v.Facts[0].Key != want.Key {
		t.Errorf("%+v", v)
	}
	for hop := range 3 {
		v := w.submit(a, w.both(w.receipt(hop, 0)))
		if v.Status != protocol.ReceiptRepeat || len(v.Facts)+len(v.Proofs) != 0 {
			t.Errorf("submitted again: %+v", v)
		}
	}
}

func TestOneSidedGivesNoFacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	a := New(DefaultConfig(), w)
	r := w.receipt(1, 0)
	if v := w.submit(a, w.half(r).Encode()); v.Status != protocol.ReceiptAccepted || len(v.Facts) != 0 {
		t.Errorf("%+v", v)
	}
	if v := w.submit(a, w.half(r).Encode()); v.Status != protocol.ReceiptRepeat {
		t.Errorf("again: %+v", v)
	}
	if v := w.submit(a, w.both(r)); v.Status != protocol.ReceiptAccepted || len(v.Facts) != 1 || !v.Facts[0].Backed {
		t.Errorf("the other half: %+v", v)
	}
	if v := w.submit(a, w.half(r).Encode()); v.Status != protocol.ReceiptRepeat || len(v.Facts) != 0 {
		t.Errorf("the first half again: %+v", v)
	}
}

func TestSelfSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.lease.Driver = node("h0")
	var err error
	if w.signed, err = protocol.SignLease(w.lease, key("tracker")); err != nil {
		t.Fatal(err)
	}
	if v := w.submit(New(DefaultConfig(), w), w.both(w.receipt(0, 0))); len(v.Facts) != 1 || !v.Facts[0].SelfSigned {
		t.Errorf("%+v", v)
	}
}

// Every hostile or mistaken receipt has its code, and changes nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	type env struct {
		now  time.Time
		from protocol.NodeID
	}
	for name, c := range map[string]struct {
		want   protocol.Code
		change func(r *protocol.Receipt, e *env)
	}{
		"from a third node": {protocol.CodeForbidden, func(r *protocol.Receipt, e *env) { e.from = node("h2") }},
		"unknown session": {protocol.CodeSessionUnknown, func(r *protocol.Receipt, e *env) {
			r.Session = "s-bbbbbbbbbbbbbbbbbbbbbbbbba"
		}},
		"another lease":    {protocol.CodeLeaseInvalid, func(r *protocol.Receipt, e *env) { r.Lease[0]++ }},
		"not on the route": {protocol.CodeReceiptInvalid, func(r *protocol.Receipt, e *env) { r.Node = node("stranger"); e.from = r.Node }},
		"another's hop":    {protocol.CodeReceiptInvalid, func(r *protocol.Receipt, e *env) { r.Hop = 1 }},
		"no such hop":      {protocol.CodeReceiptInvalid, func(r *protocol.Receipt, e *env) { r.Hop = 3 }},
		"another receiver": {protocol.CodeReceiptInvalid, func(r *protocol.Receipt, e *env) { r.Receiver = node("driver") }},
		"another model":    {protocol.CodeReceiptInvalid, func(r *protocol.Receipt, e *env) { r.Model = protocol.ModelIDOf(nil) }},
		"more layers":      {protocol.CodeReceiptInvalid, func(r *protocol.Receipt, e *env) { r.Layers.Last++ }},
		"another dtype":    {protocol.CodeReceiptInvalid, func(r *protocol.Receipt, e *env) { r.DType = protocol.DTypeF16 }},
		"another build":    {protocol.CodeReceiptInvalid, func(r *protocol.Receipt, e *env) { r.Class.Llama = "v0.5.0" }},
		"beyond the context": {protocol.CodeContextExceeded, func(r *protocol.Receipt, e *env) {
			r.Span.First, r.Span.Last = 2048, 2048+64
		}},
		"made an hour before the lease": {"", func(r *protocol.Receipt, e *env) { r.Time = issued.Add(-time.Hour) }},
		"made more than an hour before": {protocol.CodeLeaseExpired, func(r *protocol.Receipt, e *env) {
			r.Time = issued.Add(-time.Hour - time.Millisecond)
		}},
		"made more than an hour after the lease": {protocol.CodeLeaseExpired, func(r *protocol.Receipt, e *env) {
			r.Time = issued.Add(2*time.Hour + time.Millisecond)
			e.now = issued.Add(3 * time.Hour)
		}},
		"an hour ahead": {"", func(r *protocol.Receipt, e *env) { e.now = r.Time.Add(-time.Hour) }},
		"from the future": {protocol.CodeReceiptInvalid, func(r *protocol.Receipt, e *env) {
			e.now = r.Time.Add(-time.Hour - time.Millisecond)
		}},
		"days later":     {"", func(r *protocol.Receipt, e *env) { e.now = issued.Add(time.Hour + 7*24*time.Hour) }},
		"sent too late":  {protocol.CodeLeaseExpired, func(r *protocol.Receipt, e *env) { e.now = issued.Add(time.Hour + 7*24*time.Hour + 1) }},
		"a gap":          {protocol.CodeReceiptConflict, func(r *protocol.Receipt, e *env) { r.Span = spanAt(1, 70) }},
		"an overlap":     {protocol.CodeReceiptConflict, func(r *protocol.Receipt, e *env) { r.Span = spanAt(1, 40) }},
		"before it":      {protocol.CodeReceiptConflict, func(r *protocol.Receipt, e *env) { r.Span = spanAt(3, 20) }},
		"the same again": {protocol.CodeReceiptConflict, func(r *protocol.Receipt, e *env) { r.Time = r.Time.Add(time.Millisecond) }},
		"the next":       {"", func(r *protocol.Receipt, e *env) { r.Span = spanAt(1, 64) }},
		"after a rewind": {"", func(r *protocol.Receipt, e *env) {
			r.Span = spanAt(1, 10)
			r.Span.EpochFirst, r.Span.EpochLast = 1, 1
		}},
		"a rewind to what never was": {protocol.CodeReceiptConflict, func(r *protocol.Receipt, e *env) {
			r.Span = spanAt(1, 65)
			r.Span.EpochFirst, r.Span.EpochLast = 1, 1
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			a := New(DefaultConfig(), w)
			var first *Checked
			if c.want != "" || strings.HasPrefix(name, "the next") || strings.HasPrefix(name, "after") {
				first = w.check(w.both(w.receipt(0, 0)))
				w.submit(a, first.raw)
			}
			r := w.receipt(0, 0)
			e := env{now: issued.Add(10 * time.Minute), from: r.Node}
			c.change(r, &e)
			v := a.Submit(e.now, e.from, w.check(w.both(r)))
			if c.want == "" {
				if v.Status != protocol.ReceiptAccepted || len(v.Facts) == 0 {
					t.Errorf("%+v", v)
				}
				return
			}
			if v.Status != protocol.ReceiptRefused || v.Error.Code != c.want || v.Keep != nil || len(v.Facts) != 0 {
				t.Errorf("%s %v, want %s", v.Status, v.Error, c.want)
			}
			if v := w.submit(a, first.raw); v.Status != protocol.ReceiptRepeat {
				t.Errorf("the receipt before it: %s", v.Status)
			}
		})
	}
	// What never gets that far: unsigned, cut, another role's signature.
	w := newWorld(t, 2)
	unsigned := w.half(w.receipt(0, 0))
	unsigned.Sig = nil
	swapped := w.half(w.receipt(0, 0)).Countersign(key("h0"))
	for name, c := range map[string]struct {
		raw  []byte
		want protocol.Code
	}{
		"unsigned":            {unsigned.Encode(), protocol.CodeUnauthorized},
		"another countersign": {swapped.Encode(), protocol.CodeUnauthorized},
		"cut":                 {unsigned.Encode()[:100], protocol.CodeReceiptInvalid},
		"oversized":           {append(w.both(w.receipt(0, 0)), 0), protocol.CodeReceiptInvalid},
		"another type":        {bytes.Repeat([]byte("{}"), protocol.SignedReceiptSize/2), protocol.CodeReceiptInvalid},
	} {
		if _, err := Check(c.raw); !errors.Is(err, &protocol.Error{Code: c.want}) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	w.fails = true
	if v := w.submit(New(DefaultConfig(), w), w.both(w.receipt(0, 0))); v.Status != protocol.ReceiptRetry || v.Error.Code != protocol.CodeUnavailable ||
		strings.Contains(v.Error.Message, "fire") || !strings.Contains(errors.Unwrap(v.Error).Error(), "fire") {
		t.Errorf("a store that fails: %+v", v)
	}
}

func spanAt(seq, first uint32) protocol.Span {
	return protocol.Span{
		Kind: protocol.SpanDecode, Seq: seq, First: first, Last: first + 32, Rows: 32,
		Input: sha256.Sum256([]byte{1}), Output: sha256.Sum256([]byte{2}),
	}
}

// faults are receipts that cannot be true together: given in their order, the
// last one shows the fault of the culprit.
var faults = map[string]struct {
	kind    FaultKind
	culprit string
	hop     int
	make    func(w *world) [][]byte
}{
	"two receipts": {Equivocation, "h1", 1, func(w *world) [][]byte {
		r := w.receipt(1, 1)
		r.Span.Output[0]++
		return [][]byte{w.both(w.receipt(1, 1)), w.half(r).Encode()}
	}},
	"two receipts, told the other way round": {Equivocation, "h1", 1, func(w *world) [][]byte {
		r := w.receipt(1, 1)
		r.Time = r.Time.Add(time.Second)
		return [][]byte{w.half(r).Encode(), w.half(w.receipt(1, 1)).Encode()}
	}},
	"works on other input": {BrokenChain, "h1", 1, func(w *world) [][]byte {
		r := w.receipt(1, 1)
		r.Span.Input[0]++
		return [][]byte{w.both(w.receipt(0, 1)), w.half(r).Encode()}
	}},
	"works on other input, told the other way round": {BrokenChain, "h2", 2, func(w *world) [][]byte {
		r := w.receipt(2, 0)
		r.Span.Input[0]++
		return [][]byte{w.both(r), w.both(w.receipt(1, 0))}
	}},
	"half first, then the whole": {BrokenChain, "h1", 1, func(w *world) [][]byte {
		r := w.receipt(1, 1)
		r.Span.Input[0]++
		return [][]byte{w.half(w.receipt(0, 1)).Encode(), w.both(r), w.both(w.receipt(0, 1))}
	}},
	"another model": {WrongManifest, "h0", 0, func(w *world) [][]byte {
		r := w.receipt(0, 1)
		r.Model = protocol.ModelIDOf(nil)
		return [][]byte{w.both(r)}
	}},
	"fewer layers": {WrongManifest, "h0", 0, func(w *world) [][]byte {
		r := w.receipt(0, 1)
		r.Layers.Last--
		return [][]byte{w.half(r).Encode()}
	}},
	"billed twice": {DoubleBilling, "h2", 2, func(w *world) [][]byte {
		r := w.receipt(2, 1)
		r.Span.Seq = 2
		return [][]byte{w.both(w.receipt(2, 1)), w.both(r)}
	}},
}

// A fault is proven by receipts that came long ago, and by those of one group,
// of which nothing is stored yet.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, group := range []bool{false, true} {
		testFaults(t, group)
	}
	if err := RunVerifyProof(filepath.Join(t.TempDir(), "none"), &bytes.Buffer{}); !errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
		t.Errorf("no file: %v", err)
	}
	if _, err := VerifyProof(make([]byte, maxProof+1)); !errors.Is(err, &protocol.Error{Code: protocol.CodeRequestTooLarge}) {
		t.Errorf("a large file: %v", err)
	}
}

func testFaults(t *testing.T, group bool) {
	for name, c := range faults {
		t.Run(fmt.Sprintf("%s, in a group: %t", name, group), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			w.group = group
			a := New(DefaultConfig(), w)
			raws := c.make(w)
			var v Verdict
			for i, raw := range raws {
				v = w.submit(a, raw)
				if i < len(raws)-1 && (v.Status != protocol.ReceiptAccepted || len(v.Proofs) != 0) {
					t.Fatalf("receipt %d: %+v", i, v)
				}
			}
			i := slices.IndexFunc(v.Proofs, func(p *Proof) bool { return p.Fault.Culprit == node(c.culprit) })
			if i < 0 {
				t.Fatalf("no proof against %s: %+v", c.culprit, v)
			}
			for _, f := range v.Facts {
				if f.Backed {
					t.Errorf("backed by a broken chain: %+v", f)
				}
			}
			p := v.Proofs[i]
			if p.Fault.Kind != c.kind || p.Fault.Hop != c.hop || p.Fault.Text == "" {
				t.Errorf("%+v", p.Fault)
			}
			path := filepath.Join(t.TempDir(), "proof.json")
			if err := os.WriteFile(path, append(bytes.Clone(p.File), '\n'), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := VerifyProofFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(p.Fault, got); d != "" {
				t.Error(d)
			}
			var out bytes.Buffer
			if err := RunVerifyProof(path, &out); err != nil || !strings.Contains(out.String(), string(node(c.culprit))) {
				t.Errorf("%v: %s", err, out.String())
			}
			for i := 0; i < len(p.File); i += 131 {
				bad := bytes.Clone(p.File)
				bad[i] ^= 1
				if _, err := VerifyProof(bad); err == nil {
					t.Fatalf("a change of byte %d goes unseen", i)
				}
			}
		})
	}
}

// Both ends that equivocate together are both proven guilty; one that signed
// only one of the two is not.
func TestEquivocationNamesEachSigner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	r := w.receipt(0, 0)
	r.Time = r.Time.Add(time.Second)
	a := New(DefaultConfig(), w)
	w.submit(a, w.both(w.receipt(0, 0)))
	v := w.submit(a, w.both(r))
	if len(v.Proofs) != 2 || v.Proofs[0].Fault.Culprit != node("h0") || v.Proofs[1].Fault.Culprit != node("h1") || v.Proofs[1].Fault.Hop != 1 {
		t.Errorf("%+v", v.Proofs)
	}
	v = w.submit(a, w.half(r).Encode())
	if len(v.Proofs) != 1 || v.Proofs[0].Fault.Culprit != node("h0") {
		t.Errorf("%+v", v.Proofs)
	}
}

// A hop that was handed something else than its neighbour claims is not to
// blame, whatever the neighbour signs alone.
func TestNeighbourCannotBlame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	lie := w.receipt(0, 0)
	lie.Span.Output[0]++
	a := New(DefaultConfig(), w)
	if v := w.submit(a, w.half(lie).Encode()); len(v.Proofs) != 0 {
		t.Errorf("%+v", v)
	}
	v := w.submit(a, w.both(w.receipt(1, 0)))
	if v.Status != protocol.ReceiptAccepted || len(v.Proofs) != 0 || len(v.Facts) != 1 || !v.Facts[0].Backed {
		t.Errorf("%+v", v)
	}
}

// Honest sessions in any order, with repeats, halves and a tracker that forgets
// in between: every row is a fact once, backed in the end, and nobody is
// blamed.
func TestHonestProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t, 1+rnd.IntN(4))
		cfg := DefaultConfig()
		a := New(cfg, w)
		spans := 1 + rnd.IntN(6)
		var raws [][]byte
		for hop := range w.hops {
			for seq := range spans {
				r := w.receipt(hop, uint32(seq))
				for range 1 + rnd.IntN(2) {
					raws = append(raws, w.both(r))
				}
				if rnd.IntN(3) == 0 {
					raws = append(raws, w.half(r).Encode())
				}
			}
		}
		rnd.Shuffle(len(raws), func(i, j int) { raws[i], raws[j] = raws[j], raws[i] })
		backed, seen := map[string]int{}, map[string]int{}
		for _, raw := range raws {
			if rnd.IntN(5) == 0 {
				a = New(cfg, w) // a restart
			}
			v := w.submit(a, raw)
			if v.Status == protocol.ReceiptRefused || len(v.Proofs) != 0 {
				t.Fatalf("seed %d: %+v", seed, v)
			}
			for _, f := range v.Facts {
				if f.Backed {
					backed[f.Key] += f.Rows
				} else {
					seen[f.Key]++
				}
			}
		}
		rows := 0
		for _, n := range backed {
			rows += n
		}
		if want := w.hops * (64 + 32*(spans-1)); rows != want || len(backed) != w.hops*spans {
			t.Fatalf("seed %d: %d rows in %d facts, want %d", seed, rows, len(backed), want)
		}
		for k, n := range seen {
			if n > 1 {
				t.Fatalf("seed %d: fact %s came %d times", seed, k, n)
			}
		}
	}
}

// A hostile hop signs whatever it likes, with a hostile neighbour or alone: no
// honest node is ever blamed, and no position of an hop is paid twice.
func TestHostileProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t, 3)
		a := New(DefaultConfig(), w)
		paid := map[uint32]bool{}
		for range 60 {
			seq := uint32(rnd.IntN(5))
			r := w.receipt(1, seq)
			evil := rnd.IntN(2) == 0
			if evil {
				switch rnd.IntN(8) {
				case 0:
					r.Span.Input[0] = byte(rnd.Uint32())
				case 1:
					r.Span.Output[0] = byte(rnd.Uint32())
				case 2:
					r.Span.Seq = uint32(rnd.IntN(8))
				case 3:
					r.Span.First -= min(r.Span.First, 16)
					r.Span.Last = r.Span.First + r.Span.Rows
				case 4:
					r.Span.EpochFirst, r.Span.EpochLast = 2, 2
				case 5:
					r.Time = r.Time.Add(time.Duration(rnd.IntN(9)) * time.Millisecond)
				case 6:
					r.Model = protocol.ModelIDOf(nil)
				case 7:
					r.Layers.Last++
				}
			}
			raw := w.half(r).Encode()
			if !evil {
				raw = w.both(r) // the honest receiver signs what came
			}
			if rnd.IntN(3) == 0 {
				raw = w.both(w.receipt([]int{0, 2}[rnd.IntN(2)], seq))
			}
			v := w.submit(a, raw)
			for _, p := range v.Proofs {
				if p.Fault.Culprit != node("h1") {
					t.Fatalf("seed %d: an honest node is blamed: %+v", seed, p.Fault)
				}
			}
			for _, f := range v.Facts {
				if f.Hop != 1 || f.Backed {
					continue
				}
				for pos := f.First; pos < f.Last; pos++ {
					if paid[pos] {
						t.Fatalf("seed %d: position %d is paid twice", seed, pos)
					}
					paid[pos] = true
				}
			}
		}
	}
}

// FuzzSubmit: bytes of any kind beside an honest session get a code and change
// nothing; what is accepted keeps the session's rules.
func FuzzSubmit(f *testing.F) {
	w := newWorld(f, 2)
	f.Add(w.both(w.receipt(0, 1)), []byte{})
	f.Add(w.half(w.receipt(1, 1)).Encode(), []byte{176, 3})
	f.Add([]byte("{}"), []byte{5, 2, 164, 1})
	f.Fuzz(func(t *testing.T, raw, edits []byte) {
		w := newWorld(t, 2)
		a := New(DefaultConfig(), w)
		w.submit(a, w.both(w.receipt(0, 0)))
		_, err := Check(raw)
		if err != nil && protocol.AsError(err).Code == protocol.CodeInternal {
			t.Fatal(err)
		}
		if _, errs := new(Checker).Check([][]byte{raw}); (errs[0] == nil) != (err == nil) {
			t.Fatalf("%v alone, %v among others", err, errs[0])
		}
		// The same bytes as a body that hop 0 has signed.
		body := w.half(w.receipt(0, 1)).Body
		for i := 0; i+1 < len(edits) && i < 40; i += 2 {
			body[(int(edits[i])+(i%2)*256)%len(body)] = edits[i+1]
		}
		r, err := protocol.ParseReceipt(body)
		if err != nil || r.Node != node("h0") {
			return
		}
		c := w.check(w.half(r).Encode())
		v := a.Submit(issued.Add(time.Hour), r.Node, c)
		switch v.Status {
		case protocol.ReceiptAccepted:
			if r.CheckLease(w.lease, w.signed.Hash()) != nil || len(v.Facts) != 0 {
				t.Fatalf("accepted %+v", r)
			}
		case protocol.ReceiptRefused:
			if v.Error == nil || !v.Error.Code.Known() || v.Error.Code == protocol.CodeInternal {
				t.Fatalf("%+v", v)
			}
		default:
			t.Fatalf("%+v", v)
		}
		for _, p := range v.Proofs {
			if p.Fault.Culprit != node("h0") {
				t.Fatalf("%+v", p.Fault)
			}
		}
	})
}

// FuzzVerifyProof: no file is accepted that is not one of ours, and none does
// harm.
func FuzzVerifyProof(f *testing.F) {
	w := newWorld(f, 3)
	r := w.receipt(0, 0)
	r.Model = protocol.ModelIDOf(nil)
	v := New(DefaultConfig(), w).Submit(issued, r.Node, w.check(w.half(r).Encode()))
	good := v.Proofs[0].File
	f.Add(good)
	f.Add([]byte(`{"format":"neuron-slash-proof-1","kind":"equivocation","culprit":"","tracker":"","lease":"","lease_sig":"","receipts":[]}`))
	f.Add(bytes.Replace(good, []byte("wrong_manifest"), []byte("double_billing"), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		fault, err := VerifyProof(b)
		if err == nil && !bytes.Equal(b, good) {
			t.Fatalf("a new proof: %+v", fault)
		}
		if err != nil && protocol.AsError(err).Code == protocol.CodeInternal {
			t.Fatal(err)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	w := newWorld(b, 2)
	raw := w.both(w.receipt(0, 0))
	for b.Loop() {
		if _, err := Check(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSubmitRepeat(b *testing.B) {
	w := newWorld(b, 2)
	a := New(DefaultConfig(), w)
	c := w.check(w.both(w.receipt(0, 0)))
	for b.Loop() {
		if v := a.Submit(issued, c.receipt.Node, c); v.Status == protocol.ReceiptRefused {
			b.Fatal(v.Error)
		}
	}
}

// What could not be stored is forgotten, and taken again as if it was new.
func TestForget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	a := New(DefaultConfig(), w)
	w.submit(a, w.both(w.receipt(0, 0)))
	tail := w.check(w.both(w.receipt(1, 0)))
	for range 2 {
		v := a.Submit(now, node("h1"), tail) // not stored
		if v.Status != protocol.ReceiptAccepted || len(v.Facts) != 2 || !v.Facts[0].Backed || !v.Expires.Equal(w.lease.Expires) {
			t.Errorf("%+v", v)
		}
		a.Forget(w.lease.Session)
		if a.bytes != 0 || a.order.Len() != 0 {
			t.Errorf("%d bytes, %d sessions are left", a.bytes, a.order.Len())
		}
		a.Forget(w.lease.Session)
	}
	if v := w.submit(a, w.both(w.receipt(0, 0))); v.Status != protocol.ReceiptRepeat {
		t.Errorf("what was stored: %+v", v)
	}
}

// A stored receipt is read without its signatures being verified, and is the
// same for all that.
func TestStoredIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	for _, raw := range [][]byte{w.both(w.receipt(0, 0)), w.half(w.receipt(0, 1)).Encode()} {
		got, err := stored(raw)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w.check(raw), got, cmp.AllowUnexported(Checked{})); d != "" {
			t.Error(d)
		}
		for _, bad := range [][]byte{nil, raw[:100], append(bytes.Clone(raw), 0), append([]byte{0}, raw[1:]...)} {
			if _, err := stored(bad); !errors.Is(err, &protocol.Error{Code: protocol.CodeReceiptInvalid}) {
				t.Errorf("got %v", err)
			}
		}
	}
}
