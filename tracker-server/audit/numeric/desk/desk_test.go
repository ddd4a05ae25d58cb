package desk

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
	"neuron/tracker-server/audit/numeric"
	"neuron/tracker-server/store"
)

// disk is a store that can be full.
type disk struct {
	full   bool
	audits []store.Audit
}

func (d *disk) AddAudits(_ context.Context, as []store.Audit) error {
	if d.full {
		return protocol.Errorf(protocol.CodeDiskFull, "full")
	}
	d.audits = append(d.audits, as...)
	return nil
}

func (d *disk) Audits(_ context.Context, _ time.Time, limit int) ([]store.Audit, error) {
	return d.audits[:min(limit, len(d.audits))], nil
}

func (d *disk) Receipts(context.Context, protocol.SessionID) ([][]byte, error) {
	return [][]byte{{1, 2, 3}}, errors.New("cannot be read")
}

type sent struct {
	to   protocol.NodeID
	kind protocol.MessageKind
}

// world is a desk with a clock, three nodes of a route and one auditor.
type world struct {
	*Desk
	mu     sync.Mutex
	disk   disk
	now    time.Time
	sent   []sent
	absent map[protocol.NodeID]bool
	woken  int
	ended  []numeric.Record
	lease  *protocol.Lease
}

func id(name string) protocol.NodeID {
	seed := sha256.Sum256([]byte(name))
	return protocol.NodeIDOf(seed[:])
}

func newWorld() *world {
	w := &world{now: time.Unix(1_800_000_000, 0), absent: map[protocol.NodeID]bool{}}
	build := protocol.Build{Protocol: protocol.Version, Llama: "b1"}
	w.lease = &protocol.Lease{
		Session: protocol.NewSessionID(), Model: protocol.ModelIDOf(nil), Layers: 6, Driver: id("driver"), Context: 100, EngineBuild: build, Policy: protocol.PolicyPublic,
		Hops: []protocol.Hop{{Node: id("a"), Use: protocol.Range{Last: 2}}, {Node: id("b"), Use: protocol.Range{First: 2, Last: 4}}, {Node: id("c"), Use: protocol.Range{First: 4, Last: 6}}},
	}
	_, key, _ := ed25519.GenerateKey(nil)
	w.Desk = New(Options{
		Rules: numeric.Config{Share: 1}, Key: key, Store: &w.disk, Now: func() time.Time { return w.now },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Lock: &w.mu,
		Send: func(to protocol.NodeID, _ protocol.Role, kind protocol.MessageKind, _ any) bool {
			if w.absent[to] {
				return false
			}
			w.sent = append(w.sent, sent{to, kind})
			return true
		},
		Nodes: func(time.Time, protocol.ModelID) []numeric.Candidate {
			return []numeric.Candidate{{Node: id("x"), Addr: "h:1", Loaded: protocol.Range{First: 2, Last: 4}, Build: build, Idle: true}}
		},
		Owner: func(protocol.NodeID) string { return "" },
		Ended: func(r *numeric.Record) { w.ended = append(w.ended, *r) },
		Wake:  func() { w.woken++ },
	})
	return w
}

func (w *world) end(failed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.SessionEndedLocked(w.lease.Session, failed)
}

// TestFullDisk: what cannot be written is written later, and not asked for all
// the time.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.disk.full = true
	w.Sample(w.lease, "m")
	w.end(true)
	if len(w.ended) != 1 || w.woken != 1 {
		t.Fatalf("%d ended, woken %d times", len(w.ended), w.woken)
	}
	w.Write(t.Context())
	for range 9 {
		w.now = w.now.Add(time.Second)
		w.Tick(t.Context())
	}
	if w.woken != 1 {
		t.Errorf("woken %d times within the pause", w.woken)
	}
	w.now = w.now.Add(time.Second)
	w.Tick(t.Context())
	w.disk.full = false
	w.Write(t.Context())
	w.Write(t.Context())
	if w.woken != 2 || len(w.disk.audits) != 1 || w.disk.audits[0].Session != w.lease.Session {
		t.Errorf("woken %d times, written %+v", w.woken, w.disk.audits)
	}
	if p, err := w.Page(t.Context(), time.Time{}, 5); err != nil || p.Failures[protocol.CodeCancelled] != 1 || len(p.Audits) != 1 || p.Open != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestAwayKeeper: a keeper that left ends the audit; receipts that cannot be
// read do not.
func TestAwayKeeper(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.Sample(w.lease, "m")
	w.end(false)
	w.now = w.now.Add(10 * time.Second)
	w.Tick(t.Context())
	if last := w.sent[len(w.sent)-1]; last != (sent{id("x"), auditmsg.MsgAuditRun}) {
		t.Fatalf("%+v", w.sent)
	}
	w.absent[id("c")] = true
	audit := auditmsg.AuditID("")
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ReadyLocked(protocol.Peer{Node: id("x"), Addr: "h:1"}, &auditmsg.AuditReady{Audit: audit}); !errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
		t.Errorf("no audit: %v", err)
	}
	audit = w.book.Plans()[0].Audit
	if err := w.ReadyLocked(protocol.Peer{Node: id("x"), Addr: "h:1"}, &auditmsg.AuditReady{Audit: audit}); err != nil {
		t.Fatal(err)
	}
	if len(w.ended) != 1 || w.ended[0].Error.Code != protocol.CodeUnavailable || w.OpenLocked() != 0 {
		t.Errorf("%+v", w.ended)
	}
}

func TestNilDeskDoesNothing(t *testing.T) {
	t.Parallel()
	var d *Desk
	d.Sample(&protocol.Lease{}, "")
	d.SessionEndedLocked("", true)
	d.Tick(t.Context())
	d.Write(t.Context())
}
