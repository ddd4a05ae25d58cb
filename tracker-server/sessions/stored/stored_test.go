package stored

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/store"
)

func session(t *testing.T) sessions.Session {
	t.Helper()
	at := time.Unix(1_700_000_000, 0).UTC()
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	node := protocol.NodeIDOf(key.Public().(ed25519.PublicKey))
	l := &protocol.Lease{
		Version: protocol.Version, Session: protocol.NewSessionID(), Driver: node, Layers: 4, Context: 100,
		Model: "0000000000000000000000000000000000000000000000000000000000000001", DType: protocol.DTypeF32,
		Policy: protocol.PolicyPublic, Issued: at, Expires: at.Add(time.Hour),
		Hops: []protocol.Hop{{Node: node, Addr: "127.0.0.1:1", Use: protocol.Range{First: 0, Last: 4}, StepMicros: 5}},
	}
	signed, err := protocol.SignLease(l, key)
	if err != nil {
		t.Fatal(err)
	}
	return sessions.Session{
		Lease: l, Signed: signed, Name: "guide", CostMicros: 7, KVBytes: []int64{9}, Phase: protocol.PhaseFailed, Updated: at,
		Telemetry: protocol.Telemetry{Session: l.Session, Seq: 3, Phase: protocol.PhaseFailed, Tokens: 5},
		End:       &sessions.End{At: at.Add(time.Minute), Finish: protocol.FinishError, Error: protocol.Errorf(protocol.CodeHopLost, "gone").AtHop(0)},
	}
}

func text(t *testing.T, s sessions.Session) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRoundTrip: a session that was stored is the one that lived.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*sessions.Session){
		"ended": func(*sessions.Session) {}, "live": func(s *sessions.Session) { s.End = nil }, "unheard": func(s *sessions.Session) { s.Telemetry = protocol.Telemetry{} },
	} {
		want := session(t)
		change(&want)
		rec, err := To(want)
		if err != nil {
			t.Fatal(err)
		}
		if (rec.Telemetry == nil) != (name == "unheard") || rec.Ended.IsZero() != (name == "live") {
			t.Errorf("%s: record %+v", name, rec)
		}
		got, err := From(rec)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := text(t, got), text(t, want); a != b {
			t.Errorf("%s:\n%s\n%s", name, a, b)
		}
	}
}

func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*store.Session){
		"no lease":      func(r *store.Session) { r.Lease = []byte("null") },
		"not JSON":      func(r *store.Session) { r.Lease = r.Lease[1:] },
		"another lease": func(r *store.Session) { r.Lease = []byte(`{"lease":"e30="}`) },
		"KV bytes":      func(r *store.Session) { r.KVBytes = nil },
		"telemetry":     func(r *store.Session) { r.Telemetry = []byte("{") },
	} {
		rec, err := To(session(t))
		if err != nil {
			t.Fatal(err)
		}
		damage(&rec)
		if _, err := From(rec); !errors.Is(err, &protocol.Error{Code: protocol.CodeInternal}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
