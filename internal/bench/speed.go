package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"neuron/internal/bench/report"
	"neuron/internal/bench/rig"
)

// halves are the layer ranges of a two-hop route.
func halves(layers int) (string, string) {
	h := layers / 2
	return fmt.Sprintf("0-%d", h), fmt.Sprintf("%d-%d", h, layers)
}

// cellsOf is the pool size that a stage makes for a context.
func cellsOf(context int) int {
	n := 256
	for n < context {
		n *= 2
	}
	return n
}

// speed compares routes of one and two hops with libllama, prefill with one
// chunk in flight and decode, stages of two threads that run one at a time. What
// the cut alone costs stands beside them.
func (r *run) speed(ctx context.Context) (err error) {
	s := r.s
	a, err := r.alone(r.model, s.shape.Layers, s.threads)
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
	c, err := r.loadChain(ctx, cellsOf(s.context))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	whole, err := r.node(ctx, r.model, "all", s.threads)
	if err != nil {
		return err
	}
	parts, err := r.halves(ctx, r.model, s.shape.Layers, s.threads)
	if err != nil {
		return err
	}
	one, err := n.Open(ctx, s.context, whole)
	if err != nil {
		return err
	}
	defer one.Close()
	two, err := n.Open(ctx, s.context, parts...)
	if err != nil {
		return err
	}
	defer two.Close()

	ids := rig.Prompt(s.prompt)
	if err := c.prefill(ids, s.chunk); err != nil {
		return err
	}
	var pre, dec [2]report.Pairs
	var both report.Pairs
	for i := range s.prefills + 1 {
		ids := ids
		if i == 0 { // touches memory for the first time
			ids = ids[:s.chunk]
		}
		base, err := l.prefill(0, ids, s.chunk)
		if err != nil {
			return err
		}
		for k, x := range []*rig.Route{one, two} {
			t, err := x.Prefill(ids, s.chunk, 1)
			if err != nil {
				return err
			}
			if i > 0 {
				pre[k].Add(base, t)
			}
		}
	}
	for i := range s.blocks + 1 {
		base, err := l.decode(1, s.block, nil)
		if err != nil {
			return err
		}
		cut, err := c.decode(s.block)
		if err != nil {
			return err
		}
		if i > 0 {
			both.Add(base, cut)
		}
		for k, x := range []*rig.Route{one, two} {
			t, err := x.Decode(s.block, nil)
			if err != nil {
				return err
			}
			if i > 0 {
				dec[k].Add(base, t)
			}
		}
		if i >= s.leastBlocks && dec[0].Settled(settled) && dec[1].Settled(settled) {
			break
		}
	}
	for k, name := range []string{"one hop", "two hops"} {
		target := []float64{0.98, 0.95}[k]
		r.rep.AtLeast(name+", decode, of libllama alone", dec[k].Speed(), target, rates(&dec[k], s.block))
		r.rep.AtLeast(name+", prefill, one chunk in flight, of libllama alone", pre[k].Speed(), target, rates(&pre[k], s.prompt))
	}
	r.rep.Add(report.Row{Name: "two stages in this process, decode, of libllama alone", Figure: fmt.Sprintf("%.3f", both.Speed()), OK: true, Note: rates(&both, s.block)})
	one.Close()
	two.Close()
	return r.forget(parts...)
}

// settled is the spread of a median, of its value, below which no more pairs are
// measured: one percent to either side.
const settled = 0.02

// behind says how many pairs a ratio is of, and how far they leave it open.
func behind(p *report.Pairs) string {
	low, high := p.Spread()
	if len(p.Base) == 1 {
		return "1 pair"
	}
	return fmt.Sprintf("%d pairs, %.3f to %.3f", len(p.Base), low, high)
}

// rates are the median speeds of both sides, and what the ratio is made of.
func rates(p *report.Pairs, tokens int) string {
	per := func(v []time.Duration) float64 { return float64(tokens) / report.Median(v).Seconds() }
	return fmt.Sprintf("%.1f of %.1f tokens/s; %s", per(p.Other), per(p.Base), behind(p))
}

// pipeline compares a prompt with several chunks in flight with the same route
// one chunk at a time, one thread per stage. The prompt takes so long that each
// turn of one side is compared with both neighbours of the other side.
func (r *run) pipeline(ctx context.Context) error {
	s := r.s
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	const chunk = 64
	nodes, err := r.halves(ctx, r.model, s.shape.Layers, 1)
	if err != nil {
		return err
	}
	x, err := n.Open(ctx, s.context, nodes...)
	if err != nil {
		return err
	}
	defer x.Close()
	ids := rig.Prompt(s.pipePrompt)
	if _, err := x.Prefill(ids[:2*chunk], chunk, 4); err != nil { // first touch
		return err
	}
	var p report.Pairs
	before, err := x.Prefill(ids, chunk, 4)
	if err != nil {
		return err
	}
	for range s.pipeRuns {
		base, err := x.Prefill(ids, chunk, 1)
		if err != nil {
			return err
		}
		after, err := x.Prefill(ids, chunk, 4)
		if err != nil {
			return err
		}
		p.Add(base, before)
		p.Add(base, after)
		before = after
	}
	r.rep.AtLeast("two hops, prompt of "+strconv.Itoa(s.pipePrompt)+", pipelined over unpipelined", p.Speed(), 1.6, rates(&p, s.pipePrompt))
	return nil
}
