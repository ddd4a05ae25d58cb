// Package completion asks the OpenAI API of this computer for answers, as the
// chat page needs them: text and telemetry as they come, and errors with their
// codes. The chat page's view model imports it; it knows no screen, and keeps
// nothing of what is said.
package completion

import (
	"context"
	"net/http"

	"neuron/app/chat/thread"
	"neuron/engine/cli/apiclient"
	"neuron/engine/protocol"
)

// Client talks to one gateway. It is safe for concurrent use and starts no
// goroutines but those of its connections.
type Client struct{ api *apiclient.Client }

// New makes a client of the API at url, which ends in /v1.
func New(url, key string) *Client { return &Client{apiclient.New(url, key)} }

// Model is a model that can be asked for.
type Model struct {
	// ID is what requests name it by.
	ID string
	// Ready says that it can answer now.
	Ready  bool
	Layers int
	// Held is how many of the layers some computer holds.
	Held    int
	Context int // tokens
}

// Request asks for one answer.
type Request struct {
	Model   string
	System  string
	Turns   []thread.Turn
	Params  thread.Params
	Private bool
}

// Models lists the models of the network.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var list struct {
		Data []struct {
			ID     string             `json:"id"`
			Neuron protocol.ModelInfo `json:"neuron"`
		} `json:"data"`
	}
	if _, err := c.api.JSON(ctx, http.MethodGet, "/models", nil, &list); err != nil {
		return nil, ended(ctx, err)
	}
	out := make([]Model, 0, len(list.Data))
	for _, m := range list.Data {
		held := 0
		for _, n := range m.Neuron.Replicas {
			if n > 0 {
				held++
			}
		}
		out = append(out, Model{ID: m.ID, Ready: m.Neuron.Routable, Layers: m.Neuron.Layers, Held: held, Context: m.Neuron.Context})
	}
	return out, nil
}

// body is the request's form (docs/api.md).
type body struct {
	Model       string              `json:"model"`
	Messages    []apiclient.Message `json:"messages"`
	Stream      bool                `json:"stream"`
	Temperature *float64            `json:"temperature,omitempty"`
	TopP        *float64            `json:"top_p,omitempty"`
	MaxTokens   int                 `json:"max_tokens,omitempty"`
	Seed        *uint32             `json:"seed,omitempty"`
	Neuron      struct {
		Telemetry bool   `json:"telemetry"`
		Policy    string `json:"policy"`
	} `json:"neuron"`
}

// Ask streams an answer. Both functions are called by the calling goroutine, in
// the order of what comes. An answer that does not end in order is an error,
// also after text has come; cancelled when ctx ended it.
func (c *Client) Ask(ctx context.Context, r Request, onTelemetry func(protocol.Telemetry), onText func(string)) (protocol.FinishReason, error) {
	b := body{Model: r.Model, Stream: true, Temperature: r.Params.Temperature, TopP: r.Params.TopP, MaxTokens: r.Params.MaxTokens, Seed: r.Params.Seed}
	b.Neuron.Telemetry, b.Neuron.Policy = true, thread.Policy(r.Private)
	if r.System != "" {
		b.Messages = append(b.Messages, apiclient.Message{Role: "system", Content: r.System})
	}
	for _, t := range r.Turns {
		b.Messages = append(b.Messages, apiclient.Message{Role: string(t.Role), Content: t.Text})
	}
	a, err := c.api.Stream(ctx, b, onTelemetry, onText)
	if err != nil {
		return "", ended(ctx, err)
	}
	return protocol.FinishReason(a.Finish), nil
}

// ended tells the end of ctx from a connection that broke.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return protocol.Errorf(protocol.CodeCancelled, "the request was stopped: %w", context.Cause(ctx))
	}
	return err
}
