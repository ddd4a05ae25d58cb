package sim

import (
	"fmt"
	"io"
	"slices"
	"time"
)

func (s *world) header() {
	if s.o.Out != nil {
		fmt.Fprintf(s.o.Out, "%4s %7s %8s %15s %8s %7s %9s %10s %11s %6s\n",
			"hour", "online", "serving", "asked/routable", "demand", "routes", "weighted", "boundaries", "fetched", "moves")
	}
}

func (s *world) print(r *Row) {
	if s.o.Out != nil {
		fmt.Fprintf(s.o.Out, "%4d %7d %8d %11d/%-3d %7.1f%% %7d %9.1f %10.1f %8.1f GB %6d\n",
			r.Hour, r.Online, r.Serving, r.Asked, r.Routable, 100*r.Demand, r.Routes, r.Weighted, r.Boundaries, float64(r.Fetched)/gb, r.Moves)
	}
}

// finish fills what is known at the end.
func (s *world) finish() {
	r := &s.res
	slices.Sort(s.times)
	if n := len(s.times); n > 0 {
		r.Decisions = n
		r.DecisionP50, r.DecisionP99, r.DecisionMax = s.times[n/2], s.times[n*99/100], s.times[n-1]
		sum := time.Duration(0)
		for _, t := range s.times {
			sum += t
		}
		r.DecisionMean = sum / time.Duration(n)
	}
	slices.Sort(s.rescues)
	if n := len(s.rescues); n > 0 {
		r.Rescue = s.rescues[n/2]
	}
	r.Rescued = len(s.rescues)
	for _, sh := range s.shelves {
		if sh.since >= 0 {
			r.Waiting++
		}
	}
	r.Lacks = s.m.Lacks()
	// The first hour is spent on fetching.
	for _, row := range r.Rows[min(1, len(r.Rows)):] {
		r.MeanDemand += row.Demand / float64(len(r.Rows)-1)
		r.MeanRoutes += float64(row.Routes) / float64(len(r.Rows)-1)
	}
}

// Print writes the summary.
func (r *Result) Print(w io.Writer) {
	tb := func(n int64) string { return fmt.Sprintf("%.2f TB", float64(n)/1e12) }
	fmt.Fprintf(w, "joins %d, leaves %d, crashes %d, joins with nothing that fits %d\n", r.Joins, r.Leaves, r.Crashes, r.Idle)
	fmt.Fprintf(w, "fetched %s, found on disks %s; moves of online nodes %d, fetched for them %s\n", tb(r.Fetched), tb(r.Cached), r.Moves, tb(r.Moved))
	fmt.Fprintf(w, "models asked for of a sudden: %d got a route, median after %s; still without %d\n", r.Rescued, r.Rescue.Round(time.Second), r.Waiting)
	fmt.Fprintf(w, "after the first hour, on average: %.1f %% of demand has a route, %.0f routes of distinct nodes\n", 100*r.MeanDemand, r.MeanRoutes)
	for i, l := range r.Lacks {
		if i == 10 {
			fmt.Fprintf(w, "  and %d more\n", len(r.Lacks)-i)
			break
		}
		fmt.Fprintf(w, "  %s, demand %.2f, lacks layers %v, of these %v are being fetched (%s)\n", l.Name, l.Demand, l.Missing, l.Coming, tb(l.Bytes))
	}
	fmt.Fprintf(w, "decisions %d: p50 %s, p99 %s, mean %s, max %s\n", r.Decisions,
		r.DecisionP50.Round(time.Microsecond), r.DecisionP99.Round(time.Microsecond), r.DecisionMean.Round(time.Microsecond), r.DecisionMax.Round(time.Microsecond))
	fmt.Fprintf(w, "route searches %d: no covered model was ever without a route\n", r.Checks)
}
