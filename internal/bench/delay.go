package bench

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
	"neuron/engine/session"
)

// router gives leases over fixed nodes to a session manager. It implements
// session.Router and session.Texts.
type router struct {
	n     *network
	nodes []*node
}

func (r router) Route(_ context.Context, q protocol.RouteRequest) (*protocol.RouteReply, error) {
	s, _, err := r.n.lease(q.Session, q.Context, r.nodes...)
	return &protocol.RouteReply{Lease: s}, err
}

func (r router) Models(context.Context) ([]protocol.ModelInfo, error) { return nil, nil }
func (r router) TrackerKey() ed25519.PublicKey                        { return r.n.key.Public().(ed25519.PublicKey) }
func (r router) SendSession(protocol.Telemetry)                       {}

func (r router) HopFailed(protocol.SessionID, protocol.NodeID, *protocol.Error) {}

// Text has no tools: prompts here are token ids.
func (r router) Text(context.Context, string) (gateway.TextModel, error) {
	return nil, protocol.Errorf(protocol.CodeModelUnknown, "no text tools")
}

func (n *network) manager(nodes ...*node) (*session.Manager, error) {
	r := router{n, nodes}
	// A route that is slow for a while is measured, not given up.
	return session.New(session.Options{Node: n.id.ID(), Hops: session.SeamHops{Client: n.client}, Router: r, Texts: r})
}

func ask(c *protocol.Capability, prompt, tokens int) gateway.GenerateRequest {
	return gateway.GenerateRequest{Request: "bench", Model: string(c.Model), Prompt: promptOf(prompt), MaxTokens: tokens,
		Sampler: protocol.Sampler{IgnoreEOG: true}, Policy: protocol.PolicyPublic, NoDraft: true}
}

// delayWatch bounds how long the delay beside the long prompt is watched.
const delayWatch = 90 * time.Second

// delay measures the time between the tokens of a running session while a long
// prompt is prefilled beside it on the same stage. Both are driven by
// engine/session, which sizes the chunks.
func (r *run) delay(ctx context.Context) error {
	s := r.s
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	whole, err := n.node(ctx, "whole", r.model, "all", s.threads, chunkRows)
	if err != nil {
		return err
	}
	m, err := n.manager(whole)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	// A first session makes the node's connections and learns its tracker.
	if err := retry(ctx, func() error { return short(ctx, m, whole.capab) }); err != nil {
		return err
	}
	running, err := m.Generate(ctx, ask(whole.capab, 64, 4000))
	if err != nil {
		return err
	}
	defer running.Cancel()
	calm, err := gaps(ctx, running, time.After(s.before), nil)
	if err != nil {
		return err
	}
	began := time.Now()
	long, err := m.Generate(ctx, ask(whole.capab, s.longPrompt, 1))
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
	step, p50, p99, longest := median(calm), median(busy), quantile(busy, 0.99), quantile(busy, 1)
	r.rep.atMost(fmt.Sprintf("delay between tokens beside a %d-token prompt, p99 above the step", s.longPrompt), ms(p99-step), 300, " ms",
		fmt.Sprintf("step %.0f ms; beside the prompt p50 %.0f, p99 %.0f, longest %.0f ms; %d tokens of the prompt in %.1f s, %.0f tokens/s", ms(step), ms(p50), ms(p99), ms(longest),
			seen, took.Seconds(), float64(seen)/took.Seconds()))
	return n.forget(whole)
}

// short runs a session of a few tokens.
func short(ctx context.Context, m *session.Manager, c *protocol.Capability) error {
	g, err := m.Generate(ctx, ask(c, 64, 4))
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

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
