package bench

import (
	"context"

	"errors"
	"fmt"
	"time"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
	"neuron/engine/session"
	"neuron/internal/bench/report"
	"neuron/internal/bench/rig"
)

// delayWatch bounds how long the delay beside the long prompt is watched.
const delayWatch = 25 * time.Second

// delay measures the time between the tokens of a running session while a long
// prompt is prefilled beside it on the same stage. Both are driven by
// engine/session, which sizes the chunks.
func (r *run) delay(ctx context.Context) error {
	s := r.s
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	whole, err := r.node(ctx, r.model, "all", s.threads)
	if err != nil {
		return err
	}
	m, err := n.Manager(whole)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	// A first session makes the node's connections and learns its tracker.
	if err := rig.Retry(ctx, func() error { return short(ctx, m, whole.Capab) }); err != nil {
		return err
	}
	running, err := m.Generate(ctx, rig.Ask(whole.Capab, 64, 4000))
	if err != nil {
		return err
	}
	defer running.Cancel()
	calm, err := gaps(ctx, running, time.After(s.before), nil)
	if err != nil {
		return err
	}
	began := time.Now()
	long, err := m.Generate(ctx, rig.Ask(whole.Capab, s.longPrompt, 1))
	if err != nil {
		return err
	}
	done := make(chan time.Duration, 1)
	go func() {
		for range long.Tokens() {
		}
		done <- time.Since(began)
	}()
	var took time.Duration
	busy, err := gaps(ctx, running, nil, func() bool {
		select {
		case took = <-done:
			return true
		default:
			return time.Since(began) > delayWatch
		}
	})
	running.Cancel()
	for range running.Tokens() {
	}
	seen := s.longPrompt
	if took == 0 { // a slow machine has shown enough by now, or gaps failed
		t, _ := m.Telemetry(long.Session())
		seen = t.PrefillDone
		long.Cancel()
		took = <-done
	} else if _, e := long.Result(); err == nil && e != nil {
		err = e
	}
	if err != nil {
		return err
	}
	if len(busy) == 0 {
		return errors.New("no token came while the prompt was prefilled")
	}
	step, p50, p99, longest := report.Median(calm), report.Median(busy), report.Quantile(busy, 0.99), report.Quantile(busy, 1)
	r.rep.AtMost(fmt.Sprintf("delay between tokens beside a %d-token prompt, p99 above the step", s.longPrompt), report.Millis(p99-step), 300, " ms",
		fmt.Sprintf("step %.0f ms; beside the prompt p50 %.0f, p99 %.0f, longest %.0f ms; %d tokens of the prompt in %.1f s, %.0f tokens/s", report.Millis(step), report.Millis(p50), report.Millis(p99), report.Millis(longest),
			seen, took.Seconds(), float64(seen)/took.Seconds()))
	return nil
}

// short runs a session of a few tokens.
func short(ctx context.Context, m *session.Manager, c *protocol.Capability) error {
	g, err := m.Generate(ctx, rig.Ask(c, 64, 4))
	if err != nil {
		return err
	}
	for range g.Tokens() {
	}
	if _, e := g.Result(); e != nil {
		return e
	}
	return nil
}

// gaps collects the times between tokens until a timer or a condition that is
// asked after each token. The first token of g only starts the clock.
func gaps(ctx context.Context, g gateway.Generation, until <-chan time.Time, done func() bool) ([]time.Duration, error) {
	var out []time.Duration
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return out, context.Cause(ctx)
		case <-until:
			if len(out) > 0 {
				return out, nil
			}
			until = time.After(time.Second)
		case _, ok := <-g.Tokens():
			if !ok {
				if _, e := g.Result(); e != nil {
					return out, e
				}
				return out, errors.New("the running session ended too early")
			}
			now := time.Now()
			if !last.IsZero() {
				out = append(out, now.Sub(last))
			}
			last = now
			if done != nil && done() {
				return out, nil
			}
		}
	}
}
