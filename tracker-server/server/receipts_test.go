package server

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/tracker-server/audit"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/proofs"
	"neuron/tracker-server/receipts/receiptstest"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/store"
)

// receiptNetwork is a tracker with the guide model cut over two owned nodes, an
// owned gateway, and a node that holds nothing.
type receiptNetwork struct {
	*tracker
	m                    *manifest.Manifest
	head, tail, idle, gw *fake
	owner                store.AccountID // of head
	bytes                int64           // of head's range
}

func newReceiptNetwork(t *testing.T, c *clock, data string) *receiptNetwork {
	t.Helper()
	n := &receiptNetwork{tracker: startWith(t, c, Options{Data: data, StartingCredit: 1_000_000_000_000})}
	n.m = n.publishGuide(false)
	n.connect(newKey(), newKey(), newKey(), newKey())
	n.owner = n.own(n.head.key, newKey())
	n.own(n.tail.key, newKey())
	n.own(n.gw.key, newKey())
	return n
}

// connect joins the network's peers and waits for a route.
func (n *receiptNetwork) connect(head, tail, idle, gw ed25519.PrivateKey) {
	n.t.Helper()
	n.head, n.tail, n.idle, n.gw = n.join(head, protocol.RoleNode), n.join(tail, protocol.RoleNode), n.join(idle, protocol.RoleNode), n.join(gw, protocol.RoleGateway)
	cut := n.m.Layers / 2
	roomy := func(r *protocol.Report) { r.Shards[0].FreeKVBytes, r.Shards[0].MaxSessions = 1<<30, 100 }
	n.head.shard(n.m, protocol.ShardReady, 0, cut, roomy)
	n.tail.shard(n.m, protocol.ShardReady, cut, n.m.Layers, roomy)
	n.bytes = n.m.WeightBytes(protocol.Range{First: 0, Last: cut})
	eventually(n.t, "both nodes", func() bool {
		ready := 0
		for _, v := range n.core.Nodes() {
			if v.State == registry.StateReady && len(v.Shards) > 0 {
				ready++
			}
		}
		return ready == 2
	})
}

// session is a paid session over head and tail.
func (n *receiptNetwork) session(change func(*protocol.RouteRequest)) *receiptstest.Route {
	n.t.Helper()
	n.gw.ask(func(r *protocol.RouteRequest) {
		r.Context, r.Prompt = 512, 64
		if change != nil {
			change(r)
		}
	})
	reply := expect[protocol.RouteReply](n.gw, protocol.MsgLease)
	r := receiptstest.New(n.t, reply.Lease, n.head.key, n.tail.key, n.idle.key, n.gw.key)
	if len(r.Lease.Hops) != 2 || r.Lease.Hops[0].Node != n.head.id() {
		n.t.Fatalf("route %+v", r.Lease.Hops)
	}
	return r
}

// receipts sends a batch and returns the answer to it.
func (f *fake) receipts(raws ...[]byte) []protocol.ReceiptVerdict {
	f.t.Helper()
	id := f.send(protocol.MsgReceipts, protocol.Receipts{Receipts: raws})
	for {
		e, ok := <-f.msgs
		if !ok {
			f.t.Fatal("the connection ended before the answer came")
		}
		switch {
		case e.ID != id:
		case e.Kind != protocol.MsgReceipts:
			f.t.Fatalf("%s instead of verdicts: %s", e.Kind, e.Body)
		default:
			v, err := protocol.Unpack[protocol.ReceiptVerdicts](e)
			if err != nil || len(v.Verdicts) != len(raws) {
				f.t.Fatalf("%d verdicts for %d receipts, %v", len(v.Verdicts), len(raws), err)
			}
			return v.Verdicts
		}
	}
}

// answer is a status, or the code of a refusal.
func answer(v protocol.ReceiptVerdict) string {
	if v.Status == protocol.ReceiptRefused {
		return string(v.Error.Code)
	}
	return string(v.Status)
}

func (f *fake) wantReceipts(want string, raws ...[]byte) {
	f.t.Helper()
	for i, v := range f.receipts(raws...) {
		if answer(v) != want {
			f.t.Errorf("receipt %d: %s %v, want %s", i, v.Status, v.Error, want)
		}
	}
}

// alive asks for something else on the same connection.
func (f *fake) alive() {
	f.t.Helper()
	f.send(protocol.MsgModels, nil)
	expect[protocol.Models](f, protocol.MsgModels)
}

// checkBooks verifies the whole ledger, its sum included.
func (tr *tracker) checkBooks() {
	tr.t.Helper()
	if err := tr.core.ledger.Check(tr.t.Context()); err != nil {
		tr.t.Error(err)
	}
}

// TestHostileReceipts: over a real connection each hostile or mistaken receipt
// is refused with its code or changes nothing, the connection lives on, and the
// books add up.
func TestHostileReceipts(t *testing.T) {
	t.Parallel()
	n := newReceiptNetwork(t, &clock{}, t.TempDir())
	row, _ := ledger.RowPrice(n.bytes, 1000)
	chunk := 64 * (row * 150_000 / 1_000_000) // what a prefilled chunk brings the head
	edit := func(r *receiptstest.Route, change func(*protocol.Receipt)) []byte {
		x := r.Receipt(0, 0)
		change(x)
		return r.Both(x)
	}
	pair := func(r *receiptstest.Route) [][]byte { return [][]byte{r.Span(0, 0), r.Span(1, 0)} }
	for name, c := range map[string]struct {
		send func(r *receiptstest.Route) // and look at the answers
		paid store.Credit                // to head's owner
		// fault is proven against the head, and lifted after the case.
		fault audit.FaultKind
	}{
		"honest": {func(r *receiptstest.Route) { n.tail.wantReceipts("accepted", pair(r)...) }, chunk, ""},
		"unsigned": {func(r *receiptstest.Route) {
			s := r.Half(r.Receipt(0, 0))
			s.Sig = nil
			n.head.wantReceipts("unauthorized", s.Encode())
		}, 0, ""},
		"half signed": {func(r *receiptstest.Route) {
			n.head.wantReceipts("accepted", r.Half(r.Receipt(0, 0)).Encode()) // evidence, and no money
			n.tail.wantReceipts("accepted", r.Half(r.Receipt(1, 0)).Encode())
		}, 0, ""},
		"signed by others": {func(r *receiptstest.Route) {
			n.head.wantReceipts("unauthorized", r.Half(r.Receipt(0, 0)).Countersign(n.idle.key).Encode())
		}, 0, ""},
		"signed by one for both": {func(r *receiptstest.Route) {
			n.head.wantReceipts("unauthorized", r.Half(r.Receipt(0, 0)).Countersign(n.head.key).Encode())
		}, 0, ""},
		"one end alone": {func(r *receiptstest.Route) { n.head.wantReceipts("accepted", r.Span(0, 0)) }, 0, ""},
		"replayed": {func(r *receiptstest.Route) {
			n.tail.wantReceipts("accepted", pair(r)...)
			n.tail.wantReceipts("repeat", pair(r)...)
			n.head.wantReceipts("repeat", r.Span(0, 0))
			n.gw.wantReceipts("repeat", r.Span(1, 0))
		}, chunk, ""},
		"double submit": {func(r *receiptstest.Route) {
			got := n.tail.receipts(append(pair(r), pair(r)...)...)
			for i, want := range []string{"accepted", "accepted", "repeat", "repeat"} {
				if answer(got[i]) != want {
					t.Errorf("receipt %d: %+v, want %s", i, got[i], want)
				}
			}
		}, chunk, ""},
		"reordered": {func(r *receiptstest.Route) {
			n.tail.wantReceipts("accepted", r.Span(1, 2), r.Span(0, 2), r.Span(1, 0), r.Span(0, 1), r.Span(1, 1), r.Span(0, 0))
		}, chunk + 64*row, ""},
		"not the sender's": {func(r *receiptstest.Route) {
			n.idle.wantReceipts("forbidden", pair(r)...)
			n.head.wantReceipts("forbidden", r.Span(1, 0))
		}, 0, ""},
		"another session": {func(r *receiptstest.Route) {
			n.head.wantReceipts("session_unknown", edit(r, func(x *protocol.Receipt) { x.Session = protocol.NewSessionID() }))
		}, 0, ""},
		"another lease": {func(r *receiptstest.Route) {
			n.head.wantReceipts("lease_invalid", edit(r, func(x *protocol.Receipt) { x.Lease[0]++ }))
		}, 0, ""},
		"a hop not leased": {func(r *receiptstest.Route) {
			n.idle.wantReceipts("receipt_invalid", edit(r, func(x *protocol.Receipt) { x.Node = n.idle.id() }))
			n.head.wantReceipts("receipt_invalid", edit(r, func(x *protocol.Receipt) { x.Hop = 1 }))
		}, 0, ""},
		"work not leased": {func(r *receiptstest.Route) {
			n.head.wantReceipts("context_length_exceeded", edit(r, func(x *protocol.Receipt) { x.Span.First, x.Span.Last = 512, 512+64 }))
			n.head.wantReceipts("receipt_invalid", edit(r, func(x *protocol.Receipt) { x.DType = protocol.DTypeF16 }))
		}, 0, ""},
		"a span cut otherwise": {func(r *receiptstest.Route) {
			n.tail.wantReceipts("accepted", pair(r)...)
			n.head.wantReceipts("receipt_conflict", edit(r, func(x *protocol.Receipt) {
				x.Span.Kind, x.Span.Seq, x.Span.First, x.Span.Last, x.Span.Rows = protocol.SpanDecode, 2, 0, 32, 32
			}))
		}, chunk, audit.DoubleBilling},
		"other layers": {func(r *receiptstest.Route) {
			n.head.wantReceipts("receipt_invalid", edit(r, func(x *protocol.Receipt) { x.Layers.Last++ }))
		}, 0, audit.WrongManifest},
		"two for one span": {func(r *receiptstest.Route) {
			n.tail.wantReceipts("accepted", pair(r)...)
			n.tail.wantReceipts("receipt_conflict", edit(r, func(x *protocol.Receipt) { x.Span.Output[0]++ }))
		}, chunk, audit.Equivocation},
		"an hour ahead": {func(r *receiptstest.Route) {
			late := func(d time.Duration) []byte {
				return edit(r, func(x *protocol.Receipt) { x.Time = n.clock.Now().Add(d).UTC().Truncate(time.Millisecond) })
			}
			n.head.wantReceipts("receipt_invalid", late(time.Hour+time.Minute))
			n.tail.wantReceipts("accepted", late(time.Hour-time.Minute), r.Span(1, 0))
		}, chunk, ""},
		"an hour behind": {func(r *receiptstest.Route) {
			early := func(d time.Duration) []byte {
				return edit(r, func(x *protocol.Receipt) { x.Time = r.Lease.Issued.Add(-d).UTC().Truncate(time.Millisecond) })
			}
			n.head.wantReceipts("lease_expired", early(time.Hour+time.Minute))
			n.tail.wantReceipts("accepted", early(time.Hour-time.Minute), r.Span(1, 0))
		}, chunk, ""},
		"broken": {func(r *receiptstest.Route) {
			raw := r.Span(0, 0)
			n.head.wantReceipts("receipt_invalid", nil, raw[:100], append(bytes.Clone(raw), 0), bytes.Repeat([]byte("{}"), len(raw)/2))
		}, 0, ""},
		"another version": {func(r *receiptstest.Route) {
			raw := r.Span(0, 0)
			raw[4]++
			n.head.wantReceipts("protocol_version", raw)
		}, 0, ""},
		"too many": {func(*receiptstest.Route) {
			n.head.send(protocol.MsgReceipts, protocol.Receipts{Receipts: make([][]byte, protocol.MaxReceiptBatch+1)})
			n.head.expectError(protocol.CodeRequestTooLarge)
			n.head.wantReceipts("receipt_invalid", make([][]byte, protocol.MaxReceiptBatch)...)
			n.head.wantReceipts("")
		}, 0, ""},
		"wrong types": {func(*receiptstest.Route) {
			for _, body := range []string{
				`5`, `"x"`, `[]`, `{"receipts":5}`, `{"receipts":"AAAA"}`, `{"receipts":["!"]}`, `{"receipts":[5]}`, `{"receipts":{}}`, `{"receipts":[["AAAA"]]}`,
			} {
				n.head.send(protocol.MsgReceipts, json.RawMessage(body))
				n.head.expectError(protocol.CodeInvalidRequest)
			}
			for _, body := range []string{`null`, `{}`, `{"receipts":null}`, `{"verdicts":[{"status":"accepted"}]}`} {
				n.head.send(protocol.MsgReceipts, json.RawMessage(body))
				if v := expect[protocol.ReceiptVerdicts](n.head, protocol.MsgReceipts); len(v.Verdicts) != 0 {
					t.Errorf("%s: %+v", body, v)
				}
			}
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: they look at one balance
			r := n.session(nil)
			before := n.balance(n.owner, store.Held)
			c.send(r)
			for _, f := range []*fake{n.head, n.tail, n.idle, n.gw} {
				f.alive()
			}
			if got := n.balance(n.owner, store.Held) - before; got != c.paid {
				t.Errorf("the head's owner got %s, want %s", got, c.paid)
			}
			proofs, err := n.store.StandingProofs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, p := range proofs {
				found = found || p.Kind == string(c.fault) && p.Culprit == n.head.id()
				if c.fault == "" {
					t.Errorf("a proof: %+v", p)
				}
				if err := n.core.receipts.Faults().Lift(t.Context(), p.ID, ""); err != nil {
					t.Error(err)
				}
			}
			if found != (c.fault != "") {
				t.Errorf("proofs: %+v", proofs)
			}
			n.checkBooks()
		})
	}
}

// TestFailedAndPrivateSessionsPayNobody: their receipts are taken.
func TestFailedAndPrivateSessionsPayNobody(t *testing.T) {
	t.Parallel()
	n := newReceiptNetwork(t, &clock{}, t.TempDir())
	private := n.session(func(r *protocol.RouteRequest) {
		r.Policy, r.Nodes = protocol.PolicyPrivate, []protocol.NodeID{n.head.id(), n.tail.id()}
	})
	n.tail.wantReceipts("accepted", private.Span(0, 0), private.Span(1, 0))
	failed := n.session(nil)
	n.tail.wantReceipts("accepted", failed.Span(0, 0), failed.Span(1, 0))
	if n.balance(n.owner, store.Held) == 0 {
		t.Error("work of a running session is not held")
	}
	n.gw.telemetry(failed.Lease, 1, protocol.PhaseFailed, func(t *protocol.Telemetry) {
		t.Error = protocol.Errorf(protocol.CodeHopLost, "gone").AtHop(1)
	})
	eventually(t, "the credit to go back", func() bool { return n.balance(n.owner, store.Held) == 0 })
	n.tail.wantReceipts("accepted", failed.Span(0, 1), failed.Span(1, 1))
	for _, b := range []store.Book{store.Held, store.Pending, store.Frozen} {
		if got := n.balance(n.owner, b); got != 0 {
			t.Errorf("%s in %s", got, b)
		}
	}
	n.checkBooks()
}

// TestFaultBarsAndFreezes: two receipts for one span. The node that signed both
// gets no more public sessions, also after a restart, its owner's earnings are
// frozen, everybody can fetch and check the proof, and an operator lifts it.
func TestFaultBarsAndFreezes(t *testing.T) {
	t.Parallel()
	c, data := &clock{}, t.TempDir()
	n := newReceiptNetwork(t, c, data)
	r := n.session(nil)
	n.tail.wantReceipts("accepted", r.Span(0, 0), r.Span(1, 0))
	n.gw.telemetry(r.Lease, 1, protocol.PhaseDone, func(t *protocol.Telemetry) { t.Finish = protocol.FinishStop })
	eventually(t, "earnings", func() bool { return n.balance(n.owner, store.Pending) > 0 })
	earned := n.balance(n.owner, store.Pending)
	lie := r.Receipt(0, 0)
	lie.Span.Output[0]++
	n.head.wantReceipts("receipt_conflict", r.Half(lie).Encode())
	if n.balance(n.owner, store.Frozen) != earned || n.balance(n.owner, store.Pending) != 0 {
		t.Errorf("frozen %s of %s", n.balance(n.owner, store.Frozen), earned)
	}
	barred := func(what string) {
		t.Helper()
		n.gw.askRoute(100)
		n.gw.expectError(protocol.CodeNoRoute)
		private := n.session(func(r *protocol.RouteRequest) {
			r.Policy, r.Nodes = protocol.PolicyPrivate, []protocol.NodeID{n.head.id(), n.tail.id()}
		})
		if private == nil {
			t.Errorf("%s: no private route", what)
		}
		for _, v := range n.core.Nodes() {
			if (v.Node == n.head.id()) != (v.Barred != "") {
				t.Errorf("%s: %s is barred: %q", what, v.Node.Short(), v.Barred)
			}
		}
	}
	barred("proven")

	var list struct {
		Proofs []proofs.View `json:"proofs"`
		Next   int64         `json:"next"`
	}
	if status := n.get("/v1/proofs", &list); status != 200 || len(list.Proofs) != 1 || list.Next != 0 {
		t.Fatalf("%d %+v", status, list)
	}
	p := list.Proofs[0]
	if p.Node != n.head.id() || p.Kind != "equivocation" || p.Session != r.Lease.Session || p.Lifted != nil || p.Text == "" {
		t.Errorf("%+v", p)
	}
	resp, err := http.Get(strings.TrimSuffix(n.URL(), "/") + "/v1/proofs/" + p.Proof.String())
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment; ") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v %v", resp.Header, err)
	}
	if f, err := audit.VerifyProof(file); err != nil || f.Culprit != n.head.id() || !f.Tracker.Equal(n.Key()) {
		t.Errorf("%+v, %v", f, err)
	}
	n.halt()

	keys := []*fake{n.head, n.tail, n.idle, n.gw}
	n.tracker = startWith(t, c, Options{Data: data})
	n.connect(keys[0].key, keys[1].key, keys[2].key, keys[3].key)
	barred("restarted")
	if err := n.core.receipts.Faults().Lift(t.Context(), p.Proof, "it was a test"); err != nil {
		t.Fatal(err)
	}
	n.session(nil) // a public one
	if n.balance(n.owner, store.Pending) != earned || n.balance(n.owner, store.Frozen) != 0 {
		t.Errorf("after the lift %s are pending", n.balance(n.owner, store.Pending))
	}
	if n.get("/v1/proofs", &list); list.Proofs[0].Lifted == nil || list.Proofs[0].Note != "it was a test" {
		t.Errorf("%+v", list.Proofs[0])
	}
	n.checkBooks()
}

func TestProofPages(t *testing.T) {
	t.Parallel()
	n := newReceiptNetwork(t, &clock{}, t.TempDir())
	r := n.session(nil)
	n.head.wantReceipts("accepted", r.Span(0, 0))
	var lies [][]byte
	for i := range 5 {
		lie := r.Receipt(0, 0)
		lie.Class.CPU = fmt.Sprint("cpu", i)
		lies = append(lies, r.Half(lie).Encode())
	}
	n.head.wantReceipts("receipt_conflict", lies...)
	type page struct {
		Proofs []proofs.View `json:"proofs"`
		Next   int64         `json:"next"`
	}
	seen := map[protocol.Hash]bool{}
	path, pages := "/v1/proofs?limit=2", 0
	for next := path; next != ""; pages++ {
		var p page
		if status := n.get(next, &p); status != 200 || len(p.Proofs) > 2 {
			t.Fatalf("%s: %d %+v", next, status, p)
		}
		for _, x := range p.Proofs {
			seen[x.Proof] = true
		}
		if next = ""; p.Next != 0 {
			next = fmt.Sprint(path, "&before=", p.Next)
		}
	}
	if len(seen) != 5 || pages != 3 {
		t.Errorf("%d proofs on %d pages", len(seen), pages)
	}
	var text string
	n.get("/metrics", &text)
	for _, want := range []string{
		`neuron_tracker_receipts_total{code="",status="accepted"} 1`, `neuron_tracker_receipts_total{code="receipt_conflict",status="refused"} 5`,
		`neuron_tracker_proofs_total{kind="equivocation"} 5`, `neuron_tracker_credit_posted_total 0`, `neuron_tracker_messages_total{kind="receipts"} 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

// TestReceiptsOfAnOldConnection: a node that connected anew may not use the
// connection before it.
func TestReceiptsOfAnOldConnection(t *testing.T) {
	t.Parallel()
	n := newReceiptNetwork(t, &clock{}, t.TempDir())
	r := n.session(nil)
	old := &stub{id: n.head.id(), hello: protocol.Hello{Role: protocol.RoleNode}}
	e, err := protocol.Pack(protocol.MsgReceipts, 1, protocol.Receipts{Receipts: [][]byte{r.Span(0, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	n.core.message(context.Background(), old, e)
	if len(old.sent) != 1 || old.sent[0].Kind != protocol.MsgError || !bytes.Contains(old.sent[0].Body, []byte("superseded")) {
		t.Errorf("%+v", old.sent)
	}
}
