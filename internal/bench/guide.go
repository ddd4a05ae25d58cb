package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"neuron/internal/bench/report"
	"neuron/internal/bench/rig"
)

// guide prints what a hop adds to each step of the bundled model, of which the
// computation is short.
func (r *run) guide(ctx context.Context) error {
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	whole, err := r.node(ctx, r.o.Guide, "all", 1)
	if err != nil {
		return err
	}
	layers := whole.Capab.Layers
	a, err := r.alone(r.o.Guide, layers, 1)
	if err != nil {
		return err
	}
	defer a.close()
	const cells, prompt, block = 2048, 64, 32
	l, err := a.newLoop(cells, 4)
	if err != nil {
		return err
	}
	defer l.close()
	parts, err := r.halves(ctx, r.o.Guide, layers, 1)
	if err != nil {
		return err
	}
	one, err := n.Open(ctx, cells, whole)
	if err != nil {
		return err
	}
	defer one.Close()
	two, err := n.Open(ctx, cells, parts...)
	if err != nil {
		return err
	}
	defer two.Close()
	ids := rig.Prompt(prompt)
	if _, err := l.prefill(0, ids, prompt); err != nil {
		return err
	}
	for _, x := range []*rig.Route{one, two} {
		if _, err := x.Prefill(ids, prompt, 1); err != nil {
			return err
		}
	}
	var base []time.Duration
	var times [2][]time.Duration
	for i := range r.s.guideBlocks + 1 {
		if i == 1 { // the first block warms up
			base, times = nil, [2][]time.Duration{}
		}
		if _, err := l.decode(1, block, &base); err != nil {
			return err
		}
		for k, x := range []*rig.Route{one, two} {
			if _, err := x.Decode(block, &times[k]); err != nil {
				return err
			}
		}
	}
	b := report.Median(base)
	for k, name := range []string{"one hop", "two hops"} {
		m := report.Median(times[k])
		over := (m - b) / time.Duration(k+1)
		inTail := report.Median([]*rig.Route{one, two}[k].Compute)
		r.rep.Add(report.Row{Name: "guide model, " + name + ", overhead per step and hop", Figure: strconv.FormatInt(over.Microseconds(), 10) + " us",
			Note: fmt.Sprintf("steps of %d us, %d us of them in the tail's stage; %d us alone", m.Microseconds(), inTail.Microseconds(), b.Microseconds())})
	}
	return nil
}
