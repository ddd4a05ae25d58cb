package sim_test

import (
	"reflect"
	"strings"
	"testing"

	"neuron/internal/cmd/placesim/sim"
)

func TestChurnNeverLeavesCoverageWithoutARoute(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) *sim.Result {
		var table strings.Builder
		r, err := sim.Run(t.Context(), sim.Options{Nodes: 150, Models: 10, Hours: 8, Seed: seed, Out: &table})
		if err != nil {
			t.Fatal(err)
		}
		r.Print(&table)
		t.Log("\n" + table.String())
		return r
	}
	a, b := run(1), run(1)
	if a.Joins < 150 || a.Leaves == 0 || a.Crashes == 0 || a.Checks < 500 || a.Cached == 0 || len(a.Rows) != 8 {
		t.Errorf("nothing happened: %+v", a)
	}
	last := a.Rows[len(a.Rows)-1]
	if last.Routes == 0 || last.Demand < 0.5 {
		t.Errorf("%+v", last)
	}
	for _, r := range []*sim.Result{a, b} {
		r.DecisionP50, r.DecisionP99, r.DecisionMax, r.DecisionMean = 0, 0, 0, 0
	}
	if !reflect.DeepEqual(a, b) {
		t.Error("one seed, two runs")
	}
	run(2)
}
