package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"neuron/internal/bench/chatload"
	"neuron/internal/bench/report"
	"neuron/internal/bench/rig"
)

const (
	apiTokens = 128 // of an answer
	apiPrompt = 64
)

// gateway compares tokens that a client of the gateway streams with steps that
// this process's driver makes over the same route, one hop with the bundled
// model, in turns. The difference is what the gateway's process adds: its
// driver with telemetry and receipts, the text, the event stream and the
// client's reading of it.
func (r *run) gateway(ctx context.Context) error {
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	whole, err := r.node(ctx, r.o.Guide, "all", 1)
	if err != nil {
		return err
	}
	if err := r.forgetOthers(r.o.Guide, whole); err != nil {
		return err
	}
	p, api, err := r.gatewayOf(ctx, r.o.Guide, whole.Capab.Model)
	if err != nil {
		return err
	}
	prompt := rig.Prompt(apiPrompt)
	var through, direct, over []time.Duration
	for i := range r.s.apiRuns + 1 {
		bare, err := bareSteps(ctx, n, whole, prompt)
		if err != nil {
			return err
		}
		a, err := api.Stream(ctx, prompt, apiTokens, nil)
		if err != nil {
			return err
		}
		if len(a.Pieces) < 9*apiTokens/10 {
			return fmt.Errorf("%d tokens came in %d pieces", a.Tokens, len(a.Pieces))
		}
		if i == 0 {
			continue // connections, and the memory of the session
		}
		t := perToken(a)
		through, direct, over = append(through, t), append(direct, bare), append(over, t-bare)
	}
	r.rep.AtMost("guide model, one hop, time per streamed token over the bare step", float64(report.Median(over).Microseconds()), 150, " us",
		fmt.Sprintf("%d us per token through the API, %d us per step of a bare driver", report.Median(through).Microseconds(), report.Median(direct).Microseconds()))
	return errors.Join(r.end(p), r.forget(whole))
}

// perToken is the time per token of an answer, as far as pieces show it: one
// that ends inside a character waits for the next one.
func perToken(a *chatload.Answer) time.Duration {
	return a.PerPiece() * time.Duration(len(a.Pieces)-1) / time.Duration(a.Tokens-1)
}

// bareSteps is the time of a step in a session of as many tokens.
func bareSteps(ctx context.Context, n *rig.Network, x *rig.Node, prompt []int32) (time.Duration, error) {
	route, err := n.Open(ctx, apiPrompt+apiTokens, x)
	if err != nil {
		return 0, err
	}
	defer route.Close()
	if _, err := route.Prefill(prompt, apiPrompt, 1); err != nil {
		return 0, err
	}
	t, err := route.Decode(apiTokens-1, nil)
	return t / (apiTokens - 1), err
}
