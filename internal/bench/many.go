package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"neuron/internal/bench/report"
	"neuron/internal/bench/rig"
)

// batches runs several sessions on one stage, in turns with a loop that decodes
// the same number of sequences in one call, and with one session. Each session
// has ended once and begun again, as those of clients do all the time: a stage
// that has seen many gives them room in one pool.
func (r *run) batches(ctx context.Context) error {
	s := r.s
	const most, prompt = 16, 16
	groups := []int{2, 4, 8, 16}
	// The first session is part of each group and is the one alone as well.
	cells := cellsOf(prompt + 2*len(groups)*(s.batchRuns+1)*s.batchSteps)
	a, err := r.alone(r.model, s.shape.Layers, s.threads)
	if err != nil {
		return err
	}
	defer a.close()
	l, err := a.newLoop(cells, most)
	if err != nil {
		return err
	}
	defer l.close()
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	whole, err := r.node(ctx, r.model, "all", s.threads)
	if err != nil {
		return err
	}
	ids := rig.Prompt(prompt)
	var open []*rig.Route
	defer func() {
		for _, x := range open {
			x.Close()
		}
	}()
	for range most {
		x, err := n.Open(ctx, cells, whole)
		if err != nil {
			return err
		}
		open = append(open, x)
	}
	for i, x := range open {
		x.Close()
		if x, err = n.Open(ctx, cells, whole); err != nil {
			return err
		}
		open[i] = x
		if _, err := x.Prefill(ids, prompt, 1); err != nil {
			return err
		}
		if _, err := l.prefill(i, ids, prompt); err != nil {
			return err
		}
	}
	var gains []string
	for _, k := range groups {
		var p report.Pairs
		var gain []float64 // all tokens per second over one session's
		for i := range s.batchRuns + 1 {
			steps, single := s.batchSteps, s.batchSteps/2
			if i == 0 { // touches memory for the first time
				steps, single = 2, 2
			}
			one, err := together(open[:1], single)
			if err != nil {
				return err
			}
			base, err := l.decode(k, steps, nil)
			if err != nil {
				return err
			}
			t, err := together(open[:k], steps)
			if err != nil {
				return err
			}
			if i > 0 {
				p.Add(base, t)
				gain = append(gain, float64(k*steps)/t.Seconds()/(float64(single)/one.Seconds()))
			}
		}
		r.rep.AtLeast(strconv.Itoa(k)+" sessions on one stage, of libllama with the same batch", p.Speed(), 0.9, rates(&p, k*s.batchSteps))
		gains = append(gains, fmt.Sprintf("%d: %.2f", k, report.MedianOf(gain)))
	}
	r.rep.Add(report.Row{Name: "tokens/s of all sessions on one stage over those of one", Figure: strings.Join(gains, ", ")})
	return nil
}

// together decodes on several routes at a time, as their drivers would, and
// says how long all took.
func together(routes []*rig.Route, steps int) (time.Duration, error) {
	errs := make(chan error, len(routes))
	began := time.Now()
	for _, x := range routes {
		go func() {
			_, err := x.Decode(steps, nil)
			errs <- err
		}()
	}
	var err error
	for range routes {
		if e := <-errs; err == nil {
			err = e
		}
	}
	return time.Since(began), err
}
