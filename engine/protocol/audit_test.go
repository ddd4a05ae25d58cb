package protocol_test

import (
	"crypto/ed25519"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"

	"github.com/google/go-cmp/cmp"
)

// The forms of the audit messages are golden files like all others.
func init() {
	for name, zero := range map[string]any{
		"audit-keep": protocol.AuditKeep{}, "audit-run": protocol.AuditRun{}, "audit-ready": protocol.AuditReady{},
		"audit-send": protocol.AuditSend{}, "audit-result": protocol.AuditResult{}, "audit-ticket": protocol.AuditTicket{},
	} {
		jsonTypes[name] = zero
	}
}

func testTicket() *protocol.AuditTicket {
	l := testLease()
	return &protocol.AuditTicket{
		Version: protocol.Version, Audit: "a-aaaaaaaaaaaaaaaaaaaaaaaaaa", Session: l.Session, Model: l.Model, Layers: l.Layers,
		Use: l.Hops[0].Use, Build: l.EngineBuild, Rows: 512, Input: l.Driver, Output: l.Hops[1].Node,
		Auditor: protocol.Peer{Node: testNode("auditor"), Addr: "127.0.0.1:4009"}, Expires: leaseTime.Add(time.Minute),
	}
}

func TestAuditTicket(t *testing.T) {
	t.Parallel()
	key := testKey("tracker")
	pub := key.Public().(ed25519.PublicKey)
	s, err := protocol.SignAuditTicket(testTicket(), key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Verify(pub, leaseTime)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(testTicket(), got); d != "" {
		t.Error(d)
	}
	if got.Keeper(protocol.AuditInput) != testNode("driver") || got.Keeper(protocol.AuditOutput) != testNode("b") {
		t.Error("the keepers are mixed up")
	}
	if _, err := s.Verify(pub, leaseTime.Add(2*time.Minute)); code(err) != protocol.CodeForbidden {
		t.Errorf("expired: %v", err)
	}
	if _, err := s.Verify(testKey("other").Public().(ed25519.PublicKey), leaseTime); code(err) != protocol.CodeUnauthorized {
		t.Errorf("another tracker: %v", err)
	}
	if _, err := s.Verify(nil, leaseTime); code(err) != protocol.CodeUnauthorized {
		t.Errorf("no tracker: %v", err)
	}
	changed := *s
	changed.Ticket = json.RawMessage(strings.Replace(string(s.Ticket), `"rows":512`, `"rows":513`, 1))
	if _, err := changed.Verify(pub, leaseTime); code(err) != protocol.CodeUnauthorized {
		t.Errorf("changed: %v", err)
	}
	// A lease's signature is not a ticket's.
	lease := sign(t, testLease(), key)
	if _, err := (&protocol.SignedAuditTicket{Ticket: lease.Lease, Key: lease.Key, Sig: lease.Sig}).Verify(pub, leaseTime); code(err) != protocol.CodeUnauthorized {
		t.Errorf("a lease as ticket: %v", err)
	}
}

func TestAuditTicketRules(t *testing.T) {
	t.Parallel()
	key := testKey("tracker")
	for name, change := range map[string]func(*protocol.AuditTicket){
		"version":      func(x *protocol.AuditTicket) { x.Version = 9 },
		"audit":        func(x *protocol.AuditTicket) { x.Audit = "a-x" },
		"session":      func(x *protocol.AuditTicket) { x.Session = "s-x" },
		"model":        func(x *protocol.AuditTicket) { x.Model = "m" },
		"input":        func(x *protocol.AuditTicket) { x.Input = "n" },
		"auditor":      func(x *protocol.AuditTicket) { x.Auditor.Node = "" },
		"addr":         func(x *protocol.AuditTicket) { x.Auditor.Addr = "nowhere" },
		"tail":         func(x *protocol.AuditTicket) { x.Use = protocol.Range{First: 3, Last: 8} },
		"range":        func(x *protocol.AuditTicket) { x.Use = protocol.Range{First: 3, Last: 2} },
		"no rows":      func(x *protocol.AuditTicket) { x.Rows = 0 },
		"many rows":    func(x *protocol.AuditTicket) { x.Rows = protocol.MaxAuditRows + 1 },
		"one keeper":   func(x *protocol.AuditTicket) { x.Output = x.Input },
		"self auditor": func(x *protocol.AuditTicket) { x.Auditor.Node = x.Output },
	} {
		x := testTicket()
		change(x)
		if _, err := protocol.SignAuditTicket(x, key); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
}

func TestAuditChecks(t *testing.T) {
	t.Parallel()
	keep := protocol.AuditKeep{Session: testLease().Session, Side: protocol.AuditInput, Rows: 10, Seconds: 600}
	if err := keep.Check(); err != nil {
		t.Error(err)
	}
	drop := protocol.AuditKeep{Session: keep.Session, Side: protocol.AuditOutput, Drop: true}
	if err := drop.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*protocol.AuditKeep){
		"session": func(k *protocol.AuditKeep) { k.Session = "x" }, "side": func(k *protocol.AuditKeep) { k.Side = "both" },
		"rows": func(k *protocol.AuditKeep) { k.Rows = 1 << 30 }, "time": func(k *protocol.AuditKeep) { k.Seconds = 601 },
	} {
		k := keep
		change(&k)
		if k.Check() == nil {
			t.Errorf("%s: passed", name)
		}
	}
	good := func() *protocol.AuditMeasures {
		return &protocol.AuditMeasures{Basis: protocol.AuditContribution, Rows: 4, Proven: 4, Max: .3, P90: .2, Median: .1, MinCosine: .9, MaxAbs: 2}
	}
	id := testTicket().Audit
	if err := (&protocol.AuditResult{Audit: id, Measures: good()}).Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*protocol.AuditMeasures){
		"nan": func(m *protocol.AuditMeasures) { m.Median = math.NaN() }, "inf": func(m *protocol.AuditMeasures) { m.Max = math.Inf(1) },
		"order": func(m *protocol.AuditMeasures) { m.Median = .25 }, "cosine": func(m *protocol.AuditMeasures) { m.MinCosine = -1.1 },
		"rows": func(m *protocol.AuditMeasures) { m.Rows = 0 }, "proven": func(m *protocol.AuditMeasures) { m.Proven = 5 },
		"basis": func(m *protocol.AuditMeasures) { m.Basis = "x" }, "abs": func(m *protocol.AuditMeasures) { m.MaxAbs = math.NaN() },
		"class": func(m *protocol.AuditMeasures) { m.Class.CPU = strings.Repeat("x", 65) },
	} {
		m := good()
		change(m)
		if (&protocol.AuditResult{Audit: id, Measures: m}).Check() == nil {
			t.Errorf("%s: passed", name)
		}
	}
	for name, r := range map[string]protocol.AuditResult{
		"neither": {Audit: id}, "both": {Audit: id, Error: protocol.Errorf(protocol.CodeTimeout, "x"), Measures: good()}, "id": {Audit: "a", Measures: good()},
	} {
		if r.Check() == nil {
			t.Errorf("%s: passed", name)
		}
	}
}

// FuzzAudit: what a tracker or node accepts of the audit messages keeps its
// bounds, and no ticket passes without the tracker's signature.
func FuzzAudit(f *testing.F) {
	key := testKey("tracker")
	pub := key.Public().(ed25519.PublicKey)
	good, err := json.Marshal(testTicket())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"session":"s-aaaaaaaaaaaaaaaaaaaaaaaaaa","side":"input","rows":9,"seconds":600}`))
	f.Add([]byte(`{"audit":"a-aaaaaaaaaaaaaaaaaaaaaaaaaa","measures":{"basis":"whole","rows":1,"max":1e308}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := (&protocol.SignedAuditTicket{Ticket: raw, Key: pub, Sig: raw}).Verify(pub, leaseTime); err == nil {
			t.Fatal("accepted without a signature")
		}
		var k protocol.AuditKeep
		if json.Unmarshal(raw, &k) == nil && k.Check() == nil && !k.Drop && (k.Rows < 1 || k.Rows > protocol.MaxAuditRows) {
			t.Fatalf("accepted %+v", k)
		}
		var r protocol.AuditResult
		if json.Unmarshal(raw, &r) == nil && r.Check() == nil {
			if _, err := json.Marshal(r); err != nil {
				t.Fatal(err)
			}
		}
		signed := &protocol.SignedAuditTicket{Ticket: raw, Key: pub, Sig: ed25519.Sign(key, append([]byte("neuron-audit-v1\x00"), raw...))}
		x, err := signed.Verify(pub, leaseTime)
		if err != nil {
			return
		}
		if _, err := protocol.SignAuditTicket(x, key); err != nil {
			t.Fatalf("accepted, but cannot be signed: %v", err)
		}
	})
}
