package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"neuron/engine/gateway"
	"neuron/internal/bench/chatload"
	"neuron/internal/bench/report"
	"neuron/internal/bench/rig"
)

// prefixes compares the time to the first token of a prompt with that of the
// same prompt when it comes again, over two hops. Each round has a text of its
// own.
func (r *run) prefixes(ctx context.Context) error {
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	nodes, err := r.halves(ctx, r.model, r.s.shape.Layers, 1)
	if err != nil {
		return err
	}
	m, err := n.Manager(nodes...)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	if err := rig.Retry(ctx, func() error { return short(ctx, m, nodes[0].Capab) }); err != nil {
		return err
	}
	var p report.Pairs
	kept := 0
	for i := range r.s.prefixRuns {
		q := rig.Ask(nodes[0].Capab, 1, 2)
		q.Prompt, q.NoPrefix = chatload.Text(rand.New(rand.NewPCG(1, uint64(i))), r.s.prefixPrompt), false
		var took [2]time.Duration
		for k := range took {
			began := time.Now()
			g, err := m.Generate(ctx, q)
			if err != nil {
				return err
			}
			if took[k], err = firstToken(g, began); err != nil {
				return err
			}
			if t, ok := m.Telemetry(g.Session()); ok && k == 1 {
				kept = t.PrefillCached
			}
		}
		p.Add(took[0], took[1])
	}
	r.rep.AtLeast(fmt.Sprintf("two hops, prompt of %d, time to its first token the first time over the second", r.s.prefixPrompt), p.Speed(), 5,
		fmt.Sprintf("%.2f and %.2f s; %d tokens were kept; %s", report.Median(p.Base).Seconds(), report.Median(p.Other).Seconds(), kept, behind(&p)))
	return nil
}

// firstToken reads an answer to its end and says when its first token came.
func firstToken(g gateway.Generation, began time.Time) (first time.Duration, err error) {
	for range g.Tokens() {
		if first == 0 {
			first = time.Since(began)
		}
	}
	if _, e := g.Result(); e != nil {
		return 0, e
	}
	return first, nil
}
