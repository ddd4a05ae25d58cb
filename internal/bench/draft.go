package bench

import (
	"context"
	"fmt"
	"time"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
	"neuron/engine/session"
	"neuron/internal/bench/report"
	"neuron/internal/bench/rig"
)

const (
	draftTokens = 120 // of an answer that repeats itself; its first sentence cannot be guessed
	novelTokens = 80  // of one that does not
	draftRuns   = 2   // answers per side and kind of text; even, so that each side goes first as often
	draftPrompt = 120
	lineDelay   = 20 * time.Millisecond // one way, between two hops
)

// drafts compares answers with guesses and without, in turns, over two hops of
// the bundled model: text that repeats itself and text that does not, with a
// long line between the hops and without one. The driver is beside hop 0.
func (r *run) drafts(ctx context.Context) error {
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	whole, err := r.node(ctx, r.o.Guide, "all", 1) // says how many layers there are
	if err != nil {
		return err
	}
	nodes, err := r.halves(ctx, r.o.Guide, whole.Capab.Layers, 1)
	if err != nil {
		return err
	}
	for _, delay := range []time.Duration{lineDelay, 0} {
		if err := r.draftOver(ctx, n, nodes[0], nodes[1], delay); err != nil {
			return err
		}
	}
	return nil
}

// draftOver measures over a line with a delay.
func (r *run) draftOver(ctx context.Context, n *rig.Network, near, far *rig.Node, delay time.Duration) error {
	line, err := rig.NewLine(far.Hop.Addr, delay)
	if err != nil {
		return err
	}
	defer line.Close()
	end := *far
	end.Hop.Addr = line.Addr()
	m, err := n.Manager(near, &end)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	if err := rig.Retry(ctx, func() error { return short(ctx, m, near.Capab) }); err != nil {
		return err
	}
	// A grammar makes the model repeat a sentence; a hot answer holds no more
	// than chance matches.
	prompt := novelIDs(draftPrompt)
	for _, text := range []struct {
		name    string
		tokens  int
		target  float64
		sampler protocol.Sampler
	}{
		{"repetitive text", draftTokens, 2, protocol.Sampler{IgnoreEOG: true, Grammar: `root ::= ("a hop computes its layers and passes the hidden states on to the next one.\n")+`}},
		{"novel text", novelTokens, 0.97, protocol.Sampler{IgnoreEOG: true, Temperature: 1.2}},
	} {
		var p report.Pairs
		drafted, accepted, others := 0, 0, 0
		runs := draftRuns
		if delay == 0 {
			runs *= 3 // they are short, and what disturbs the machine weighs more
		}
		for i := range runs {
			q := rig.Ask(near.Capab, draftPrompt, text.tokens)
			q.Prompt, q.Sampler = prompt, text.sampler
			q.Sampler.Seed = uint32(i)
			var took [2]time.Duration
			var ids [2][]int32
			for k := range took {
				side := (k + i) % 2 // whoever goes first has the colder machine
				q.NoDraft = side == 0
				var t protocol.Telemetry
				if took[side], ids[side], t, err = answerTime(ctx, m, q); err != nil {
					return err
				}
				if side == 1 {
					drafted, accepted = drafted+t.Drafted, accepted+t.Accepted
				}
			}
			p.Add(took[0], took[1])
			for k := range ids[0] {
				if ids[0][k] != ids[1][k] {
					others++ // a tie of two logits, see "Exactness" in the tests of the session
					break
				}
			}
		}
		tokens := float64(text.tokens - 1) // the time is from the first one on
		note := fmt.Sprintf("%.1f tokens/s with, %.1f without; %s; the lowest pair %.2f; %d of %d guesses right in %d tokens; %d of %d answers took another turn; load %s",
			tokens/report.Median(p.Other).Seconds(), tokens/report.Median(p.Base).Seconds(), behind(&p), p.Slowest(), accepted, drafted, runs*text.tokens, others, runs, report.LoadAverage())
		name := fmt.Sprintf("guesses on against off, two hops %d ms apart, %s", delay.Milliseconds(), text.name)
		if delay == 0 && text.target > 1 {
			r.rep.Add(report.Row{Name: name, Figure: fmt.Sprintf("%.3f", p.Speed()), Note: note})
			continue
		}
		r.rep.AtLeast(name, p.Speed(), text.target, note)
	}
	return nil
}

// answerTime runs one answer and says how long it took from its first token to
// its last one.
func answerTime(ctx context.Context, m *session.Manager, q gateway.GenerateRequest) (took time.Duration, ids []int32, t protocol.Telemetry, err error) {
	g, err := m.Generate(ctx, q)
	if err != nil {
		return 0, nil, t, err
	}
	var first, last time.Time
	for tok := range g.Tokens() {
		if last = time.Now(); first.IsZero() {
			first = last
		}
		ids = append(ids, tok.ID)
	}
	if _, e := g.Result(); e != nil {
		return 0, nil, t, e
	}
	t, _ = m.Telemetry(g.Session())
	if len(ids) != q.MaxTokens {
		return 0, nil, t, fmt.Errorf("an answer of %d tokens, want %d", len(ids), q.MaxTokens)
	}
	return last.Sub(first), ids, t, nil
}

// novelIDs is a fixed text of n tokens without repetition.
func novelIDs(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(20 + 3*i)
	}
	return ids
}
