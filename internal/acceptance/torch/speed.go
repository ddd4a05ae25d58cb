package torch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"neuron/engine/cli/apiclient"
	"neuron/engine/protocol"
	"neuron/internal/localnet"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// The race: the model of docs/performance.md, a 1B Llama shape in Q4_0, over a
// real route of one hop, against the same weights in the reference. Both keep
// their keys and values and have one thread; they run in turns.
const (
	raceModel  = "llama-1b"
	racePrompt = 64
	raceTokens = 16 // of the route per turn
	raceSteps  = 4  // of the reference per turn
	raceTurns  = 4
)

// checkSpeed races; it passes when the route is faster in the median turn.
func checkSpeed(ctx context.Context, bin, python, dir string) (figure string, err error) {
	shape, err := synth.Preset(raceModel)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, raceModel+".gguf")
	if err := synth.Write(path, shape, synth.Options{Type: gguf.TypeQ4_0}); err != nil {
		return "", err
	}
	n, err := localnet.Start(ctx, localnet.Options{Bin: bin, Data: filepath.Join(dir, "net")})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	gateway, err := n.StartGateway(ctx, "gateway", []string{path})
	if err != nil {
		return "", err
	}
	if _, err := n.StartNode(ctx, "node", localnet.NodeOptions{Model: path, Layers: "all"}); err != nil {
		return "", err
	}
	ref, err := start(ctx, python, dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, ref.close()) }()
	if err := ref.load(path); err != nil {
		return "", err
	}
	if err := n.WaitCovered(ctx, raceModel, 1, 2*time.Minute); err != nil {
		return "", err
	}
	end, err := localnet.Endpoint(gateway)
	if err != nil {
		return "", err
	}
	ids := prompt(racePrompt)
	if err := ref.prompt(ids); err != nil {
		return "", err
	}
	client := localnet.Client(end)
	var route, torch, ratio []float64
	for i := range raceTurns + 1 {
		a, err := ask(ctx, client, ids)
		if err != nil {
			return "", err
		}
		_, took, err := ref.decode(raceSteps)
		if err != nil {
			return "", err
		}
		if i == 0 { // touches memory for the first time
			continue
		}
		route, torch = append(route, perSecond(raceTokens-1, a)), append(torch, perSecond(raceSteps, took))
		ratio = append(ratio, route[len(route)-1]/torch[len(torch)-1])
	}
	if m := median(ratio); m <= 1 {
		return "", fmt.Errorf("the route of one hop makes %.2f of PyTorch's speed: %.2f and %.2f tokens/s", m, median(route), median(torch))
	}
	return fmt.Sprintf("one hop is %.1f times as fast as PyTorch %s: %.1f and %.2f tokens/s (1.1 billion weights, Q4_0 against the same in float32, one thread each)",
		median(ratio), ref.version, median(route), median(torch)), nil
}

// ask has the route answer the prompt, and says how long the tokens behind the
// first one took.
func ask(ctx context.Context, c *apiclient.Client, ids []int32) (time.Duration, error) {
	var a struct {
		Usage struct {
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
		Neuron struct {
			Telemetry protocol.Telemetry `json:"telemetry"`
		} `json:"neuron"`
	}
	body := map[string]any{
		"model": raceModel, "prompt": ids, "max_tokens": raceTokens, "temperature": 0, "ignore_eos": true,
		"neuron": map[string]any{"telemetry": true, "draft": "off", "prefix": "off"},
	}
	if _, err := c.JSON(ctx, http.MethodPost, "/completions", body, &a); err != nil {
		return 0, err
	}
	t := a.Neuron.Telemetry
	took := time.Duration((t.ElapsedMillis - t.FirstTokenMillis) * float64(time.Millisecond))
	if a.Usage.Completion != raceTokens || len(t.Route) != 1 || took <= 0 {
		return 0, fmt.Errorf("%d tokens over %d hops in %s", a.Usage.Completion, len(t.Route), took)
	}
	return took, nil
}
