package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"neuron/internal/bench/report"
	"neuron/internal/bench/rig"
)

// lawDelays are the one-way delays between two hops. The first stands for no
// line at all.
var lawDelays = []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond}

// lawRoute is a route of which every hop but the first may be far away.
type lawRoute struct {
	hops  int
	near  *rig.Route
	far   *rig.Route
	lines []*rig.Line
	times []report.Pairs // per delay: what the law says, and what was measured
	took  [][]time.Duration
}

func (x *lawRoute) close() {
	for _, y := range []*rig.Route{x.near, x.far} {
		if y != nil {
			y.Close()
		}
	}
	for _, l := range x.lines {
		l.Close()
	}
}

// law holds the time of a token against what it should be: the computation of
// the whole model and one trip round the route. Of n hops with a delay of d one
// way between any two of them, and the driver beside the first one, the rows
// are n-1 delays under way to the last hop, and the token comes back to the
// driver in one more: n d. With two hops that is a round trip.
func (r *run) law(ctx context.Context) error {
	s := r.s
	a, err := r.alone(r.model, s.shape.Layers, 1)
	if err != nil {
		return err
	}
	defer a.close()
	const prompt = 16
	cells := cellsOf(prompt + (s.lawRounds+1)*len(lawDelays)*s.lawSteps)
	l, err := a.newLoop(cells, 1)
	if err != nil {
		return err
	}
	defer l.close()
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	// Four nodes are enough for all three routes: a stage may stop early.
	layers := s.shape.Layers
	cut := []int{0, layers / 4, layers / 2, 3 * layers / 4, layers}
	var nodes []*rig.Node
	for _, loaded := range [][2]int{{0, 2}, {1, 2}, {2, 4}, {3, 4}} {
		x, err := r.node(ctx, r.model, fmt.Sprintf("%d-%d", cut[loaded[0]], cut[loaded[1]]), 1)
		if err != nil {
			return err
		}
		nodes = append(nodes, x)
	}
	var routes []*lawRoute
	defer func() {
		for _, x := range routes {
			x.close()
		}
	}()
	for _, hops := range [][]*rig.Node{
		{nodes[0], nodes[2]},
		{nodes[0], nodes[2].Using(cut[2], cut[3]), nodes[3]},
		{nodes[0].Using(cut[0], cut[1]), nodes[1], nodes[2].Using(cut[2], cut[3]), nodes[3]},
	} {
		x := &lawRoute{hops: len(hops), times: make([]report.Pairs, len(lawDelays)), took: make([][]time.Duration, len(lawDelays))}
		routes = append(routes, x)
		if err := x.open(ctx, n, cells, hops); err != nil {
			return err
		}
		for _, y := range []*rig.Route{x.near, x.far} {
			if _, err := y.Prefill(rig.Prompt(prompt), prompt, 1); err != nil {
				return err
			}
		}
	}
	if _, err := l.prefill(0, rig.Prompt(prompt), prompt); err != nil {
		return err
	}
	var alone []time.Duration
	for i := range s.lawRounds + 1 {
		steps := s.lawSteps
		if i == 0 { // warms up
			steps = 1
		}
		base, err := l.decode(1, steps, nil)
		if err != nil {
			return err
		}
		if i > 0 {
			alone = append(alone, base)
		}
		for k, d := range lawDelays {
			for _, x := range routes {
				t, err := x.decode(d, steps)
				if err != nil {
					return err
				}
				if i > 0 {
					x.times[k].Add(base+time.Duration(s.lawSteps*x.hops)*d, t)
					x.took[k] = append(x.took[k], t)
				}
			}
		}
	}
	step := func(t []time.Duration) float64 { return report.Millis(report.Median(t)) / float64(s.lawSteps) }
	for _, x := range routes {
		var ratios, took []string
		for k := range lawDelays {
			ratios = append(ratios, fmt.Sprintf("%.3f", x.times[k].Ratio()))
			took = append(took, fmt.Sprintf("%.1f", step(x.took[k])))
		}
		r.rep.Add(report.Row{
			Name:   fmt.Sprintf("%d hops 0, 5, 20, 50 ms apart, time per token over computation and %d delays", x.hops, x.hops),
			Figure: strings.Join(ratios, ", "),
			Note:   fmt.Sprintf("%s ms per token; libllama alone computes %.1f ms; %d pairs each", strings.Join(took, ", "), step(alone), s.lawRounds),
		})
	}
	// Later parts use none of these.
	for _, x := range routes {
		x.close()
	}
	routes = nil
	return r.forget(nodes...)
}

func (x *lawRoute) open(ctx context.Context, n *rig.Network, cells int, hops []*rig.Node) (err error) {
	if x.near, err = n.Open(ctx, cells, hops...); err != nil {
		return err
	}
	far := []*rig.Node{hops[0]}
	for _, h := range hops[1:] {
		l, err := rig.NewLine(h.Hop.Addr, 0)
		if err != nil {
			return err
		}
		x.lines = append(x.lines, l)
		far = append(far, h.Via(l))
	}
	x.far, err = n.Open(ctx, cells, far...)
	return err
}

// decode makes steps with a delay between the hops.
func (x *lawRoute) decode(d time.Duration, steps int) (time.Duration, error) {
	if d == 0 {
		return x.near.Decode(steps, nil)
	}
	for _, l := range x.lines {
		l.SetDelay(d)
	}
	return x.far.Decode(steps, nil)
}
