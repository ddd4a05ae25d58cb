package acceptance

import (
	"context"
	"fmt"
	"net/http"

	"neuron/engine/cli/apiclient"
	"neuron/engine/protocol"
)

// client asks for completions of token ids, which fixes the prompt exactly.
type client struct{ *apiclient.Client }

// completion is what the criteria read of an answer.
type completion struct {
	Choices []struct {
		Text     string `json:"text"`
		Finish   string `json:"finish_reason"`
		Logprobs struct {
			Tokens  []string             `json:"tokens"`
			Logprob []float64            `json:"token_logprobs"`
			Top     []map[string]float64 `json:"top_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Neuron struct {
		Session   protocol.SessionID `json:"session"`
		Telemetry protocol.Telemetry `json:"telemetry"`
	} `json:"neuron"`
}

// complete asks for exactly tokens greedy tokens after ids.
func (c *client) complete(ctx context.Context, model string, ids []int32, tokens, top int) (*completion, error) {
	body := map[string]any{
		"model": model, "prompt": ids, "max_tokens": tokens, "temperature": 0, "ignore_eos": true,
		// One token per pass, and every prompt from its start: these figures are
		// about rows and frames.
		"neuron": map[string]any{"telemetry": true, "draft": "off", "prefix": "off"},
	}
	if top > 0 {
		body["logprobs"] = top
	}
	var out completion
	if _, err := c.JSON(ctx, http.MethodPost, "/completions", body, &out); err != nil {
		return nil, err
	}
	switch {
	case len(out.Choices) != 1:
		return nil, fmt.Errorf("%d choices", len(out.Choices))
	case out.Usage.Completion != tokens || out.Choices[0].Finish != "length":
		return nil, fmt.Errorf("%d tokens and finish %q, want %d and length", out.Usage.Completion, out.Choices[0].Finish, tokens)
	case out.Neuron.Telemetry.Phase != protocol.PhaseDone:
		return nil, fmt.Errorf("the last telemetry is of phase %q", out.Neuron.Telemetry.Phase)
	}
	return &out, nil
}

// promptIDs is a fixed sequence of n ids that every vocabulary from 512 on has.
func promptIDs(n int) []int32 {
	ids := make([]int32, n)
	x := uint32(12345)
	for i := range ids {
		x = x*1664525 + 1013904223 // a common linear congruential generator (Numerical Recipes)
		ids[i] = int32(x>>16) % 500
	}
	return ids
}
