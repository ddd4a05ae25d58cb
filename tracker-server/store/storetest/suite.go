// Package storetest is the test suite that every store.Store passes. Only
// tests import it.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// Opener opens the same database again and again; the suite closes each store
// that it opens.
type Opener func(t *testing.T) store.Store

var t0 = time.UnixMicro(1_700_000_000_123_456).UTC()

var diff = cmpopts.IgnoreUnexported(protocol.Error{})

// Run runs the suite. fresh returns an Opener of a new, empty database.
func Run(t *testing.T, fresh func(t *testing.T) Opener) {
	for name, f := range map[string]func(*testing.T, Opener){
		"epochs": epochs, "concurrent epochs": concurrent, "nodes": nodes, "sessions": sessions, "prune": prune, "cancelled": cancelled,
		"catalog": catalog, "hostile catalog": hostileCatalog, "two owners": twoOwners,
		"entries": entries, "hours": hours, "reservations": reservations, "keys and owners": keysAndOwners, "two ledgers": twoLedgers,
		"standings": standings, "operator log": operatorLog,
		"receipts": receipts, "proofs": proofs, "audits": audits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, fresh(t))
		})
	}
}

func node(i int) store.Node {
	return store.Node{
		ID: protocol.NodeID(fmt.Sprintf("node-%d", i)), Role: protocol.RoleNode, Addr: "h:1", Host: "4 cores, 15.5 GB",
		Engine: "v1", Llama: "b1", LastSeen: t0.Add(time.Duration(i) * time.Second),
	}
}

func session(i int) store.Session {
	return store.Session{
		ID: protocol.SessionID(fmt.Sprintf("s-%d", i)), Driver: "gw", Model: "m", Name: "name's",
		Lease: json.RawMessage(`{"lease":{"a":"\u003c ü"},"sig":"AA=="}`), CostMicros: 42, KVBytes: []int64{1 << 40, 7},
		Issued: t0.Add(time.Duration(i) * time.Second), Phase: protocol.PhaseRouting,
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, s store.Store, n store.Node) uint64 {
	t.Helper()
	e, err := s.NodeConnected(t.Context(), n)
	must(t, err)
	return e
}

func reopen(t *testing.T, s store.Store, open Opener) store.Store {
	t.Helper()
	must(t, s.Close())
	return open(t)
}

func epochs(t *testing.T, open Opener) {
	s := open(t)
	last := uint64(0)
	for range 3 {
		for range 3 {
			e := connect(t, s, node(1))
			if e <= last {
				t.Fatalf("epoch %d after %d", e, last)
			}
			last = e
		}
		s = reopen(t, s, open)
	}
	if e := connect(t, s, node(2)); e != 1 {
		t.Errorf("a new node starts at %d", e)
	}
	must(t, s.Close())
}

func concurrent(t *testing.T, open Opener) {
	s := open(t)
	var mu sync.Mutex
	seen := make(map[uint64]bool)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				e, err := s.NodeConnected(context.Background(), node(1))
				mu.Lock()
				if err != nil || seen[e] {
					t.Errorf("epoch %d twice, or %v", e, err)
				}
				seen[e] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	must(t, s.Close())
}

func nodes(t *testing.T, open Opener) {
	s := open(t)
	connect(t, s, node(1))
	connect(t, s, node(2))
	again := node(1)
	again.LastSeen, again.Host = t0.Add(time.Hour), "other"
	connect(t, s, again)
	s = reopen(t, s, open)
	got, err := s.Nodes(t.Context(), 10)
	must(t, err)
	want := []store.Node{again, node(2)}
	want[0].Epoch, want[0].FirstSeen = 2, node(1).LastSeen
	want[1].Epoch, want[1].FirstSeen = 1, node(2).LastSeen
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got, err := s.Nodes(t.Context(), 1); err != nil || len(got) != 1 {
		t.Errorf("limit: %v, %v", got, err)
	}
	must(t, s.Close())
}

func sessions(t *testing.T, open Opener) {
	s := open(t)
	for i := range 3 {
		must(t, s.AddSession(t.Context(), session(i)))
	}
	if err := s.AddSession(t.Context(), session(1)); !errors.Is(err, &protocol.Error{Code: protocol.CodeSessionExists}) {
		t.Errorf("second add: %v", err)
	}
	s = reopen(t, s, open)
	live, err := s.LiveSessions(t.Context())
	must(t, err)
	if d := cmp.Diff([]store.Session{session(0), session(1), session(2)}, live, diff); d != "" {
		t.Error(d)
	}
	hop := 1
	done, running := session(0), session(1)
	running.Phase, running.Telemetry = protocol.PhaseDecode, json.RawMessage(`{"seq":3}`)
	done.Phase, done.Ended, done.Finish = protocol.PhaseFailed, t0.Add(time.Minute), protocol.FinishError
	done.Error = &protocol.Error{Code: protocol.CodeHopLost, Message: "it's gone", Hop: &hop, Phase: protocol.PhaseDecode, Detail: map[string]string{"a": "b"}}
	unknown := session(9)
	must(t, s.UpdateSessions(t.Context(), []store.Session{done, running, unknown}))
	must(t, s.UpdateSessions(t.Context(), nil))
	back := session(0)
	back.Phase = protocol.PhaseDecode
	must(t, s.UpdateSessions(t.Context(), []store.Session{back})) // an ended session stays ended
	s = reopen(t, s, open)
	for _, want := range []store.Session{done, running} {
		got, err := s.Session(t.Context(), want.ID)
		must(t, err)
		if d := cmp.Diff(want, got, diff); d != "" {
			t.Error(d)
		}
	}
	if _, err := s.Session(t.Context(), unknown.ID); !errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
		t.Errorf("unknown session: %v", err)
	}
	live, err = s.LiveSessions(t.Context())
	must(t, err)
	if len(live) != 2 {
		t.Errorf("%d live sessions", len(live))
	}
	newest, err := s.Sessions(t.Context(), 2)
	must(t, err)
	if len(newest) != 2 || newest[0].ID != session(2).ID {
		t.Errorf("newest: %+v", newest)
	}
	must(t, s.Close())
}

func prune(t *testing.T, open Opener) {
	s := open(t)
	must(t, s.Prune(t.Context(), t0)) // an empty store
	for range 5 {
		connect(t, s, node(1))
	}
	connect(t, s, node(100))
	old, live, fresh := session(0), session(1), session(2)
	for _, x := range []store.Session{old, live, fresh} {
		must(t, s.AddSession(t.Context(), x))
	}
	old.Ended, fresh.Ended = t0.Add(time.Second), t0.Add(time.Minute)
	must(t, s.UpdateSessions(t.Context(), []store.Session{old, fresh}))
	for range 2 {
		must(t, s.Prune(t.Context(), t0.Add(30*time.Second)))
	}
	got, err := s.Sessions(t.Context(), 10)
	must(t, err)
	if len(got) != 2 || got[0].ID != fresh.ID || got[1].ID != live.ID {
		t.Errorf("after prune: %+v", got)
	}
	known, err := s.Nodes(t.Context(), 10)
	must(t, err)
	if len(known) != 1 || known[0].ID != node(100).ID {
		t.Errorf("after prune: %+v", known)
	}
	if e := connect(t, s, node(1)); e != 6 {
		t.Errorf("a forgotten node returns with epoch %d, had 5", e)
	}
	if e := connect(t, s, node(100)); e != 2 {
		t.Errorf("a kept node has epoch %d", e)
	}
	must(t, s.Close())
}

func cancelled(t *testing.T, open Opener) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.AddSession(ctx, session(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	must(t, s.AddSession(t.Context(), session(1)))
	must(t, s.Close())
}
