package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// halves are the layer ranges of a two-hop route.
func halves(layers int) (string, string) {
	h := layers / 2
	return fmt.Sprintf("0-%d", h), fmt.Sprintf("%d-%d", h, layers)
}

// chunkRows is the engines' default.
const chunkRows = 256

// cellsOf is the pool size that a stage makes for a context.
func cellsOf(context int) int {
	n := 256
	for n < context {
		n *= 2
	}
	return n
}

// speed compares routes of one and two hops with libllama, prefill with one
// chunk in flight and decode, stages of two threads that run one at a time.
func (r *run) speed(ctx context.Context) error {
	s := r.s
	a, err := loadAlone(r.model, s.shape.Layers, s.threads, s.chunk)
	if err != nil {
		return err
	}
	defer a.close()
	l, err := a.newLoop(cellsOf(s.context), 4)
	if err != nil {
		return err
	}
	defer l.close()
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	whole, err := n.node(ctx, "whole", r.model, "all", s.threads, s.chunk)
	if err != nil {
		return err
	}
	first, second := halves(s.shape.Layers)
	h0, err := n.node(ctx, "half-0", r.model, first, s.threads, s.chunk)
	if err != nil {
		return err
	}
	h1, err := n.node(ctx, "half-1", r.model, second, s.threads, s.chunk)
	if err != nil {
		return err
	}
	one, err := n.open(ctx, s.context, whole)
	if err != nil {
		return err
	}
	defer one.close()
	two, err := n.open(ctx, s.context, h0, h1)
	if err != nil {
		return err
	}
	defer two.close()

	ids := promptOf(s.prompt)
	var pre, dec [2]pairs
	for i := range s.prefills + 1 {
		base, err := l.prefill(0, ids, s.chunk)
		if err != nil {
			return err
		}
		for k, x := range []*route{one, two} {
			t, err := x.prefill(ids, s.chunk, 1)
			if err != nil {
				return err
			}
			if i > 0 { // the first touches memory for the first time
				pre[k].add(base, t)
			}
		}
	}
	for i := range s.blocks + 1 {
		base, err := l.decode(1, s.block, nil)
		if err != nil {
			return err
		}
		for k, x := range []*route{one, two} {
			t, err := x.decode(s.block, nil)
			if err != nil {
				return err
			}
			if i > 0 {
				dec[k].add(base, t)
			}
		}
	}
	for k, name := range []string{"one hop", "two hops"} {
		target := []float64{0.98, 0.95}[k]
		r.rep.atLeast(name+", decode, of libllama alone", dec[k].speed(), target, rates(&dec[k], s.block))
		r.rep.atLeast(name+", prefill, one chunk in flight, of libllama alone", pre[k].speed(), target, rates(&pre[k], s.prompt))
	}
	one.close()
	two.close()
	return n.forget(whole, h0, h1)
}

// rates are the median speeds of both sides.
func rates(p *pairs, tokens int) string {
	per := func(v []time.Duration) float64 { return float64(tokens) / median(v).Seconds() }
	return fmt.Sprintf("%.1f of %.1f tokens/s", per(p.other), per(p.base))
}

// pipeline compares a prompt with several chunks in flight with the same route
// one chunk at a time, one thread per stage.
func (r *run) pipeline(ctx context.Context) error {
	s := r.s
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	first, second := halves(s.shape.Layers)
	const chunk = 64
	h0, err := n.node(ctx, "half-0", r.model, first, 1, chunkRows)
	if err != nil {
		return err
	}
	h1, err := n.node(ctx, "half-1", r.model, second, 1, chunkRows)
	if err != nil {
		return err
	}
	x, err := n.open(ctx, s.context, h0, h1)
	if err != nil {
		return err
	}
	defer x.close()
	ids := promptOf(s.pipePrompt)
	if _, err := x.prefill(ids[:2*chunk], chunk, 1); err != nil { // first touch
		return err
	}
	var p pairs
	for range s.pipeRuns {
		base, err := x.prefill(ids, chunk, 1)
		if err != nil {
			return err
		}
		t, err := x.prefill(ids, chunk, 4)
		if err != nil {
			return err
		}
		p.add(base, t)
	}
	r.rep.atLeast("two hops, prompt of "+strconv.Itoa(s.pipePrompt)+", pipelined over unpipelined", p.speed(), 1.6, rates(&p, s.pipePrompt))
	x.close()
	return n.forget(h0, h1)
}

// batches compares several sessions on one stage with a loop that decodes the
// same number of sequences in one call.
func (r *run) batches(ctx context.Context) error {
	s := r.s
	const most, prompt = 8, 64
	groups := []int{2, 4, 8}
	cells := cellsOf(prompt + len(groups)*(s.batchRuns+1)*s.batchSteps)
	a, err := loadAlone(r.model, s.shape.Layers, s.threads, s.chunk)
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
	whole, err := n.node(ctx, "whole", r.model, "all", s.threads, s.chunk)
	if err != nil {
		return err
	}
	ids := promptOf(prompt)
	var open []*route
	defer func() {
		for _, x := range open {
			x.close()
		}
	}()
	for i := range most {
		x, err := n.open(ctx, cells, whole)
		if err != nil {
			return err
		}
		open = append(open, x)
		if _, err := x.prefill(ids, prompt, 1); err != nil {
			return err
		}
		if _, err := l.prefill(i, ids, prompt); err != nil {
			return err
		}
	}
	for _, k := range groups {
		var p pairs
		for i := range s.batchRuns + 1 {
			base, err := l.decode(k, s.batchSteps, nil)
			if err != nil {
				return err
			}
			t, err := together(open[:k], s.batchSteps)
			if err != nil {
				return err
			}
			if i > 0 {
				p.add(base, t)
			}
		}
		r.rep.atLeast(strconv.Itoa(k)+" sessions on one stage, of libllama with the same batch", p.speed(), 0.9, rates(&p, k*s.batchSteps))
	}
	for _, x := range open {
		x.close()
	}
	open = nil
	return n.forget(whole)
}

// together decodes on several routes at a time, as their drivers would, and
// says how long all took.
func together(routes []*route, steps int) (time.Duration, error) {
	errs := make(chan error, len(routes))
	began := time.Now()
	for _, x := range routes {
		go func() {
			_, err := x.decode(steps, nil)
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

// guide prints what a hop adds to each step of the bundled model, of which the
// computation is short.
func (r *run) guide(ctx context.Context) error {
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	whole, err := n.node(ctx, "guide-whole", r.o.Guide, "all", 1, chunkRows)
	if err != nil {
		return err
	}
	layers := whole.capab.Layers
	a, err := loadAlone(r.o.Guide, layers, 1, chunkRows)
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
	first, second := halves(layers)
	h0, err := n.node(ctx, "guide-0", r.o.Guide, first, 1, chunkRows)
	if err != nil {
		return err
	}
	h1, err := n.node(ctx, "guide-1", r.o.Guide, second, 1, chunkRows)
	if err != nil {
		return err
	}
	one, err := n.open(ctx, cells, whole)
	if err != nil {
		return err
	}
	defer one.close()
	two, err := n.open(ctx, cells, h0, h1)
	if err != nil {
		return err
	}
	defer two.close()
	ids := promptOf(prompt)
	if _, err := l.prefill(0, ids, prompt); err != nil {
		return err
	}
	for _, x := range []*route{one, two} {
		if _, err := x.prefill(ids, prompt, 1); err != nil {
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
		for k, x := range []*route{one, two} {
			if _, err := x.decode(block, &times[k]); err != nil {
				return err
			}
		}
	}
	b := median(base)
	for k, name := range []string{"one hop", "two hops"} {
		m := median(times[k])
		over := (m - b) / time.Duration(k+1)
		inTail := median([]*route{one, two}[k].compute)
		r.rep.add(Row{Name: "guide model, " + name + ", overhead per step and hop", Figure: strconv.FormatInt(over.Microseconds(), 10) + " us",
			Note: fmt.Sprintf("steps of %d us, %d us of them in the tail's stage; %d us alone", m.Microseconds(), inTail.Microseconds(), b.Microseconds())})
	}
	one.close()
	two.close()
	return n.forget(whole, h0, h1)
}
