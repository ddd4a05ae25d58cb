package storetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
)

func entry(i int, action, subject string) store.LogEntry {
	return store.LogEntry{At: t0.Add(time.Duration(i) * time.Second), By: "alice, browser", Action: action, Subject: subject, Reason: "it's <b>", Detail: "d"}
}

func standings(t *testing.T, open Opener) {
	s := open(t)
	mark := func(i int, why string) standing.Mark {
		return standing.Mark{At: t0.Add(time.Duration(i) * time.Second), By: "bob", Reason: why}
	}
	node := standing.Record{Subject: standing.Node("n-1"), Approved: mark(1, ""), Banned: mark(2, "it's <b>"), Drained: mark(3, "ü")}
	owner := standing.Record{Subject: standing.Owner("n-1"), Banned: mark(4, "all")} // the same id, another kind
	for i, r := range []standing.Record{node, owner} {
		seq, err := s.SetStanding(t.Context(), r, entry(i, "ban", r.ID))
		if must(t, err); seq != int64(i+1) {
			t.Errorf("entry %d has number %d", i, seq)
		}
	}
	is := func(want ...standing.Record) {
		t.Helper()
		have, err := s.Standings(t.Context())
		must(t, err)
		if d := cmp.Diff(want, have); d != "" {
			t.Error(d)
		}
	}
	is(node, owner)
	s = reopen(t, s, open)
	is(node, owner)
	// What the log refuses is not done.
	if _, err := s.SetStanding(t.Context(), standing.Record{Subject: node.Subject}, store.LogEntry{}); !isCode(err, protocol.CodeInvalidRequest) {
		t.Errorf("a change without an entry: %v", err)
	}
	is(node, owner)
	node.Banned = standing.Mark{}
	_, err := s.SetStanding(t.Context(), node, entry(3, "unban", node.ID))
	must(t, err)
	is(node, owner)
	_, err = s.SetStanding(t.Context(), standing.Record{Subject: owner.Subject}, entry(4, "unban", owner.ID))
	must(t, err)
	is(node)
	must(t, s.Prune(t.Context(), t0.Add(time.Hour))) // forgets no ban
	is(node)
	must(t, s.Close())
}

func operatorLog(t *testing.T, open Opener) {
	s := open(t)
	var want []store.LogEntry
	for i := range 5 {
		e := entry(i, "grant", []string{"a", "b"}[i%2])
		if i == 3 {
			e.Failed = "conflict"
		}
		seq, err := s.AppendLog(t.Context(), e)
		must(t, err)
		e.Seq = seq
		want = append([]store.LogEntry{e}, want...)
	}
	s = reopen(t, s, open)
	read := func(subject string, before int64, limit int, want []store.LogEntry) {
		t.Helper()
		have, err := s.OperatorLog(t.Context(), subject, before, limit)
		must(t, err)
		if d := cmp.Diff(want, have); d != "" {
			t.Error(d)
		}
	}
	read("", 0, 10, want)
	read("", 0, 2, want[:2])
	read("", want[1].Seq, 2, want[2:4])
	read("b", 0, 10, []store.LogEntry{want[1], want[3]})
	read("none", 0, 10, nil)
	for name, e := range map[string]store.LogEntry{
		"nobody": {At: t0, Action: "x"}, "no time": {By: "x", Action: "x"}, "nothing": {By: "x", At: t0},
		"long": {By: "x", At: t0, Action: "x", Reason: strings.Repeat("x", store.MaxLogText+1)},
	} {
		if _, err := s.AppendLog(t.Context(), e); !isCode(err, protocol.CodeInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if _, err := s.AppendLog(context.Background(), entry(9, "x", "y")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, err := s.OperatorLog(t.Context(), "", 0, 100)
	must(t, err)
	if len(all) != 25 || all[0].Seq != 25 || all[24].Seq != 1 {
		t.Errorf("%d entries, the newest %d", len(all), all[0].Seq)
	}
	must(t, s.Close())
}
