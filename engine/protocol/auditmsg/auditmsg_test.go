package auditmsg_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"

	"github.com/google/go-cmp/cmp"
)

// testKey is a fixed key: signatures of Ed25519 are deterministic.
func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("test key " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func testNode(name string) protocol.NodeID {
	return protocol.NodeIDOf(testKey(name).Public().(ed25519.PublicKey))
}

func code(err error) protocol.Code {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

var ticketTime = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func testTicket() *auditmsg.AuditTicket {
	return &auditmsg.AuditTicket{
		Version: protocol.Version, Audit: "a-aaaaaaaaaaaaaaaaaaaaaaaaaa", Session: "s-aaaaaaaaaaaaaaaaaaaaaaaaaa",
		Model: protocol.ModelIDOf([][sha256.Size]byte{{1}, {2}}), Layers: 8, Use: protocol.Range{First: 0, Last: 3},
		Build: protocol.Build{Protocol: protocol.Version, Llama: "v0.4.0"}, Rows: 512, Input: testNode("driver"), Output: testNode("b"),
		Auditor: protocol.Peer{Node: testNode("auditor"), Addr: "127.0.0.1:4009"}, Expires: ticketTime.Add(time.Minute),
	}
}

func TestAuditTicket(t *testing.T) {
	t.Parallel()
	key := testKey("tracker")
	pub := key.Public().(ed25519.PublicKey)
	s, err := auditmsg.SignAuditTicket(testTicket(), key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Verify(pub, ticketTime)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(testTicket(), got); d != "" {
		t.Error(d)
	}
	if got.Keeper(auditmsg.AuditInput) != testNode("driver") || got.Keeper(auditmsg.AuditOutput) != testNode("b") {
		t.Error("the keepers are mixed up")
	}
	if _, err := s.Verify(pub, ticketTime.Add(2*time.Minute)); code(err) != protocol.CodeForbidden {
		t.Errorf("expired: %v", err)
	}
	if _, err := s.Verify(testKey("other").Public().(ed25519.PublicKey), ticketTime); code(err) != protocol.CodeUnauthorized {
		t.Errorf("another tracker: %v", err)
	}
	if _, err := s.Verify(nil, ticketTime); code(err) != protocol.CodeUnauthorized {
		t.Errorf("no tracker: %v", err)
	}
	changed := *s
	changed.Ticket = json.RawMessage(strings.Replace(string(s.Ticket), `"rows":512`, `"rows":513`, 1))
	if _, err := changed.Verify(pub, ticketTime); code(err) != protocol.CodeUnauthorized {
		t.Errorf("changed: %v", err)
	}
	// A lease's signature is not a ticket's.
	lease := &auditmsg.SignedAuditTicket{Ticket: s.Ticket, Key: pub, Sig: ed25519.Sign(key, append([]byte("neuron-lease-v1\x00"), s.Ticket...))}
	if _, err := lease.Verify(pub, ticketTime); code(err) != protocol.CodeUnauthorized {
		t.Errorf("a lease as ticket: %v", err)
	}
}

func TestAuditTicketRules(t *testing.T) {
	t.Parallel()
	key := testKey("tracker")
	for name, change := range map[string]func(*auditmsg.AuditTicket){
		"version":      func(x *auditmsg.AuditTicket) { x.Version = 9 },
		"audit":        func(x *auditmsg.AuditTicket) { x.Audit = "a-x" },
		"session":      func(x *auditmsg.AuditTicket) { x.Session = "s-x" },
		"model":        func(x *auditmsg.AuditTicket) { x.Model = "m" },
		"input":        func(x *auditmsg.AuditTicket) { x.Input = "n" },
		"auditor":      func(x *auditmsg.AuditTicket) { x.Auditor.Node = "" },
		"addr":         func(x *auditmsg.AuditTicket) { x.Auditor.Addr = "nowhere" },
		"tail":         func(x *auditmsg.AuditTicket) { x.Use = protocol.Range{First: 3, Last: 8} },
		"range":        func(x *auditmsg.AuditTicket) { x.Use = protocol.Range{First: 3, Last: 2} },
		"no rows":      func(x *auditmsg.AuditTicket) { x.Rows = 0 },
		"many rows":    func(x *auditmsg.AuditTicket) { x.Rows = auditmsg.MaxAuditRows + 1 },
		"one keeper":   func(x *auditmsg.AuditTicket) { x.Output = x.Input },
		"self auditor": func(x *auditmsg.AuditTicket) { x.Auditor.Node = x.Output },
	} {
		x := testTicket()
		change(x)
		if _, err := auditmsg.SignAuditTicket(x, key); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
}

func TestAuditChecks(t *testing.T) {
	t.Parallel()
	keep := auditmsg.AuditKeep{Session: testTicket().Session, Side: auditmsg.AuditInput, Rows: 10, Seconds: 600}
	if err := keep.Check(); err != nil {
		t.Error(err)
	}
	drop := auditmsg.AuditKeep{Session: keep.Session, Side: auditmsg.AuditOutput, Drop: true}
	if err := drop.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*auditmsg.AuditKeep){
		"session": func(k *auditmsg.AuditKeep) { k.Session = "x" }, "side": func(k *auditmsg.AuditKeep) { k.Side = "both" },
		"rows": func(k *auditmsg.AuditKeep) { k.Rows = 1 << 30 }, "time": func(k *auditmsg.AuditKeep) { k.Seconds = 601 },
	} {
		k := keep
		change(&k)
		if k.Check() == nil {
			t.Errorf("%s: passed", name)
		}
	}
	good := func() *auditmsg.AuditMeasures {
		return &auditmsg.AuditMeasures{Basis: auditmsg.AuditContribution, Rows: 4, Proven: 4, Max: .3, P90: .2, Median: .1, MinCosine: .9, MaxAbs: 2}
	}
	id := testTicket().Audit
	if err := (&auditmsg.AuditResult{Audit: id, Measures: good()}).Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*auditmsg.AuditMeasures){
		"nan": func(m *auditmsg.AuditMeasures) { m.Median = math.NaN() }, "inf": func(m *auditmsg.AuditMeasures) { m.Max = math.Inf(1) },
		"order": func(m *auditmsg.AuditMeasures) { m.Median = .25 }, "cosine": func(m *auditmsg.AuditMeasures) { m.MinCosine = -1.1 },
		"rows": func(m *auditmsg.AuditMeasures) { m.Rows = 0 }, "proven": func(m *auditmsg.AuditMeasures) { m.Proven = 5 },
		"basis": func(m *auditmsg.AuditMeasures) { m.Basis = "x" }, "abs": func(m *auditmsg.AuditMeasures) { m.MaxAbs = math.NaN() },
		"class": func(m *auditmsg.AuditMeasures) { m.Class.CPU = strings.Repeat("x", 65) },
	} {
		m := good()
		change(m)
		if (&auditmsg.AuditResult{Audit: id, Measures: m}).Check() == nil {
			t.Errorf("%s: passed", name)
		}
	}
	for name, r := range map[string]auditmsg.AuditResult{
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
		if _, err := (&auditmsg.SignedAuditTicket{Ticket: raw, Key: pub, Sig: raw}).Verify(pub, ticketTime); err == nil {
			t.Fatal("accepted without a signature")
		}
		var k auditmsg.AuditKeep
		if json.Unmarshal(raw, &k) == nil && k.Check() == nil && !k.Drop && (k.Rows < 1 || k.Rows > auditmsg.MaxAuditRows) {
			t.Fatalf("accepted %+v", k)
		}
		var r auditmsg.AuditResult
		if json.Unmarshal(raw, &r) == nil && r.Check() == nil {
			if _, err := json.Marshal(r); err != nil {
				t.Fatal(err)
			}
		}
		signed := &auditmsg.SignedAuditTicket{Ticket: raw, Key: pub, Sig: ed25519.Sign(key, append([]byte("neuron-audit-v1\x00"), raw...))}
		x, err := signed.Verify(pub, ticketTime)
		if err != nil {
			return
		}
		if _, err := auditmsg.SignAuditTicket(x, key); err != nil {
			t.Fatalf("accepted, but cannot be signed: %v", err)
		}
	})
}
