package bench

import (
	"context"
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
	whole, err := n.Node(ctx, "whole", r.model, "all", s.threads, s.chunk)
	if err != nil {
		return err
	}
	first, second := halves(s.shape.Layers)
	h0, err := n.Node(ctx, "half-0", r.model, first, s.threads, s.chunk)
	if err != nil {
		return err
	}
	h1, err := n.Node(ctx, "half-1", r.model, second, s.threads, s.chunk)
	if err != nil {
		return err
	}
	one, err := n.Open(ctx, s.context, whole)
	if err != nil {
		return err
	}
	defer one.Close()
	two, err := n.Open(ctx, s.context, h0, h1)
	if err != nil {
		return err
	}
	defer two.Close()

	ids := rig.Prompt(s.prompt)
	var pre, dec [2]report.Pairs
	for i := range s.prefills + 1 {
		base, err := l.prefill(0, ids, s.chunk)
		if err != nil {
			return err
		}
		for k, x := range []*rig.Route{one, two} {
			t, err := x.Prefill(ids, s.chunk, 1)
			if err != nil {
				return err
			}
			if i > 0 { // the first touches memory for the first time
				pre[k].Add(base, t)
			}
		}
	}
	for i := range s.blocks + 1 {
		base, err := l.decode(1, s.block, nil)
		if err != nil {
			return err
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
	}
	for k, name := range []string{"one hop", "two hops"} {
		target := []float64{0.98, 0.95}[k]
		r.rep.AtLeast(name+", decode, of libllama alone", dec[k].Speed(), target, rates(&dec[k], s.block))
		r.rep.AtLeast(name+", prefill, one chunk in flight, of libllama alone", pre[k].Speed(), target, rates(&pre[k], s.prompt))
	}
	one.Close()
	two.Close()
	return n.Forget(whole, h0, h1)
}

// rates are the median speeds of both sides.
func rates(p *report.Pairs, tokens int) string {
	per := func(v []time.Duration) float64 { return float64(tokens) / report.Median(v).Seconds() }
	return fmt.Sprintf("%.1f of %.1f tokens/s", per(p.Other), per(p.Base))
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
	h0, err := n.Node(ctx, "half-0", r.model, first, 1, chunkRows)
	if err != nil {
		return err
	}
	h1, err := n.Node(ctx, "half-1", r.model, second, 1, chunkRows)
	if err != nil {
		return err
	}
	x, err := n.Open(ctx, s.context, h0, h1)
	if err != nil {
		return err
	}
	defer x.Close()
	ids := rig.Prompt(s.pipePrompt)
	if _, err := x.Prefill(ids[:2*chunk], chunk, 1); err != nil { // first touch
		return err
	}
	var p report.Pairs
	for range s.pipeRuns {
		base, err := x.Prefill(ids, chunk, 1)
		if err != nil {
			return err
		}
		t, err := x.Prefill(ids, chunk, 4)
		if err != nil {
			return err
		}
		p.Add(base, t)
	}
	r.rep.AtLeast("two hops, prompt of "+strconv.Itoa(s.pipePrompt)+", pipelined over unpipelined", p.Speed(), 1.6, rates(&p, s.pipePrompt))
	x.Close()
	return n.Forget(h0, h1)
}
