package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
	"neuron/tracker-server/store"
)

func audits(t *testing.T, open Opener) {
	s := open(t)
	at := func(i int) time.Time { return t0.Add(time.Duration(i) * time.Minute) }
	class := auditmsg.AuditClass{Threads: 2, CPU: "haswell", Llama: "b1", Engine: "0.2"}
	var want []store.Audit // newest first
	for i := range 5 {
		a := store.Audit{
			Audit: auditmsg.NewAuditID(), Session: "s-1", Model: "m", Name: "name's", Hop: i, Use: protocol.Range{First: i, Last: i + 3},
			Node: "n", Auditor: "o", Begun: at(i), Ended: at(i + 1), Class: class,
		}
		if i%2 == 0 {
			a.Measures = &auditmsg.AuditMeasures{
				Basis: auditmsg.AuditContribution, Rows: 40, Proven: 32, Exact: 3, Max: 1e-3, P90: 2.5e-4, Median: 1e-7, MinCosine: .999, MaxAbs: .25,
				Micros: 1234, Class: class,
			}
		} else {
			a.Error, a.Auditor = protocol.Errorf(protocol.CodeTimeout, "no answer of %s", "o").AtHop(1), ""
		}
		want = append([]store.Audit{a}, want...)
	}
	must(t, s.AddAudits(t.Context(), want))
	again := want[0]
	again.Name = "other"
	must(t, s.AddAudits(t.Context(), []store.Audit{again})) // stays as it is
	s = reopen(t, s, open)
	read := func(before time.Time, limit int, want []store.Audit) {
		t.Helper()
		have, err := s.Audits(t.Context(), before, limit)
		must(t, err)
		if d := cmp.Diff(want, have, diff); d != "" {
			t.Error(d)
		}
	}
	read(time.Time{}, 10, want)
	read(time.Time{}, 2, want[:2])
	read(want[1].Ended, 2, want[2:4])
	must(t, s.Prune(t.Context(), want[2].Ended))
	read(time.Time{}, 10, slices.Clone(want[:3]))
	must(t, s.Close())
}
