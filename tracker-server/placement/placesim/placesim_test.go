package placesim_test

import (
	"reflect"
	"strings"
	"testing"

	"neuron/tracker-server/placement/placesim"
)

func TestChurnNeverLeavesCoverageWithoutARoute(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) *placesim.Result {
		var table strings.Builder
		r, err := placesim.Run(t.Context(), placesim.Options{Nodes: 300, Models: 12, Hours: 12, Seed: seed, Out: &table})
		if err != nil {
			t.Fatal(err)
		}
		r.Print(&table)
		t.Log("\n" + table.String())
		return r
	}
	a, b := run(1), run(1)
	if a.Joins < 300 || a.Leaves == 0 || a.Crashes == 0 || a.Checks < 1000 || a.Cached == 0 || len(a.Rows) != 12 {
		t.Errorf("nothing happened: %+v", a)
	}
	last := a.Rows[len(a.Rows)-1]
	if last.Routes == 0 || last.Demand < 0.5 {
		t.Errorf("%+v", last)
	}
	for _, r := range []*placesim.Result{a, b} {
		r.DecisionP50, r.DecisionP99, r.DecisionMax, r.DecisionMean = 0, 0, 0, 0
	}
	if !reflect.DeepEqual(a, b) {
		t.Error("one seed, two runs")
	}
	run(2)
}
