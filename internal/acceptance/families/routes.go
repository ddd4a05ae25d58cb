package families

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"neuron/engine/cli/apiclient"
	"neuron/engine/protocol"
	"neuron/internal/localnet"
)

// subject is a family with cuts for two and for three nodes.
type subject struct {
	arch string
	cuts [][]string
}

// subjects: DeepSeek-V4 is cut behind and inside its hash layers, GLM-5 before a
// layer with an indexer (6) and between two (4 and 8), Qwen3.5 so that parts have
// layers of one kind only.
var subjects = []subject{
	{"deepseek4", [][]string{{"0-4", "4-8"}, {"0-1", "1-5", "5-8"}}},
	{"glm-dsa", [][]string{{"0-6", "6-10"}, {"0-4", "4-8", "8-10"}}},
	{"qwen35moe", [][]string{{"0-4", "4-8"}, {"0-2", "2-3", "3-8"}}},
}

const (
	promptTokens = 200 // several chunks, more than any window or choice
	answerTokens = 48
	covered      = time.Minute
)

// overSeams compares greedy answers of routes with those of the whole model.
func overSeams(ctx context.Context, bin, data string) (figure string, err error) {
	if err := os.MkdirAll(data, 0o755); err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	var paths []string
	for _, s := range subjects {
		path, err := write(data, s.arch)
		if err != nil {
			return "", err
		}
		paths = append(paths, path)
	}
	n, err := localnet.Start(ctx, localnet.Options{Bin: bin, Data: data})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	gateway, err := n.StartGateway(ctx, "gateway", paths)
	if err != nil {
		return "", err
	}
	end, err := localnet.Endpoint(gateway)
	if err != nil {
		return "", err
	}
	var told []string
	for i, s := range subjects {
		r := &trial{net: n, client: localnet.Client(end), model: s.arch, path: paths[i]}
		whole, err := r.over(ctx, []string{"all"})
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.arch, err)
		}
		for _, layers := range s.cuts {
			got, err := r.over(ctx, layers)
			if err == nil {
				err = got.equal(whole)
			}
			if err != nil {
				return "", fmt.Errorf("%s as %v: %w", s.arch, layers, err)
			}
			told = append(told, fmt.Sprintf("%s %s %d bytes/token", s.arch, strings.Join(layers, "+"), got.seam))
		}
	}
	return fmt.Sprintf("greedy tokens and log probabilities of %d tokens equal to the whole model: %s", answerTokens, strings.Join(told, ", ")), nil
}

// trial is one model on the network.
type trial struct {
	net    *localnet.Net
	client *apiclient.Client
	model  string
	path   string
}

// answer is what is read of a completion.
type answer struct {
	Choices []struct {
		Text     string `json:"text"`
		Logprobs struct {
			Logprob []float64 `json:"token_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
	Usage struct {
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Neuron struct {
		Telemetry protocol.Telemetry `json:"telemetry"`
	} `json:"neuron"`

	seam int64 // bytes of a decode frame into the last hop
}

// over asks a route of nodes with these layers, and ends the nodes.
func (r *trial) over(ctx context.Context, layers []string) (_ *answer, err error) {
	var nodes []*localnet.Node
	defer func() {
		for _, x := range nodes {
			err = errors.Join(err, r.net.Forget(x.Proc))
		}
	}()
	for i, l := range layers {
		x, err := r.net.StartNode(ctx, fmt.Sprintf("%s-%d-%d-%s", r.model, len(layers), i, l), localnet.NodeOptions{Model: r.path, Layers: l})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, x)
	}
	if err := r.net.WaitCovered(ctx, r.model, 1, covered); err != nil {
		return nil, err
	}
	prompt := make([]int32, promptTokens)
	for i := range prompt {
		prompt[i] = int32((i*i*7+i*31)%300) + 3
	}
	var a answer
	_, err = r.client.JSON(ctx, http.MethodPost, "/completions", map[string]any{
		"model": r.model, "prompt": prompt, "max_tokens": answerTokens, "temperature": 0, "ignore_eos": true, "logprobs": 1,
		"neuron": map[string]any{"telemetry": true, "draft": "off", "prefix": "off"},
	}, &a)
	if err != nil {
		return nil, err
	}
	route := a.Neuron.Telemetry.Route
	// Tokens without a text of their own have no entry among the probabilities.
	if len(a.Choices) != 1 || a.Usage.Completion != answerTokens || len(a.Choices[0].Logprobs.Logprob) < answerTokens/2 || len(route) != len(layers) {
		return nil, fmt.Errorf("%d choices of %d tokens, %d with a probability, over %d hops",
			len(a.Choices), a.Usage.Completion, len(a.Choices[0].Logprobs.Logprob), len(route))
	}
	a.seam = route[len(route)-1].Counters.LastDecodeIn
	return &a, nil
}

// equal compares tokens by their text and their log probabilities, bit by bit.
func (a *answer) equal(whole *answer) error {
	got, want := a.Choices[0], whole.Choices[0]
	if got.Text != want.Text || !slices.Equal(got.Logprobs.Logprob, want.Logprobs.Logprob) {
		return errors.New("another answer than the whole model's")
	}
	return nil
}
