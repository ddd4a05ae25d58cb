// Package reuse is acceptance criterion AC-18: the beginning of a prompt that a
// route has seen is not computed again, and what is kept of it on disk stays
// outside of the decode loop. Package acceptance runs it; nothing else imports
// it.
package reuse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"neuron/engine/cli/apiclient"
	"neuron/engine/protocol"
	"neuron/internal/localnet"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

const (
	// Of promptTokens tokens keptTokens are whole blocks of 64, with one token at
	// least left to run.
	promptTokens = 2000
	keptTokens   = 1984
	pairs        = 3
	memoryFactor = 5
	// diskFactor is less: it is one request, the first of new processes.
	diskFactor = 2
	// writeWait bounds the wait for snapshots, which are written after two
	// seconds without work.
	writeWait = 30 * time.Second
	modelName = "reuse"
)

// shape is a model of 100 million random weights: computing a prompt has to
// take longer than what a request costs besides.
var shape = synth.Shape{
	Family: synth.FamilyLlama, Layers: 8, Embd: 1024, FF: 2816, Heads: 16, KVHeads: 4, HeadDim: 64, Vocab: 512, Context: 4096,
}

// layers are those of the two nodes.
var layers = []string{"0-4", "4-8"}

// route is a route of two nodes.
type route struct {
	net    *localnet.Net
	client *apiclient.Client
	model  string
	data   string
	nodes  []*localnet.Node
}

// Check runs the criterion with the programs in bin and everything it writes in
// data: a repeated prompt is not computed again, from memory and, after a
// restart of the nodes, from snapshots, which are written only while nothing
// decodes; a damaged one is removed and costs nothing but time.
func Check(ctx context.Context, bin, data string) (figure string, err error) {
	r := &route{model: filepath.Join(data, modelName+".gguf"), data: filepath.Join(data, "prefixes")}
	if err := synth.Write(r.model, shape, synth.Options{Type: gguf.TypeQ4_0}); err != nil {
		return "", err
	}
	if r.net, err = localnet.Start(ctx, localnet.Options{Bin: bin, Data: r.data}); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.net.Stop()) }()
	gateway, err := r.net.StartGateway(ctx, "gateway", []string{r.model})
	if err != nil {
		return "", err
	}
	end, err := localnet.Endpoint(gateway)
	if err != nil {
		return "", err
	}
	r.client = localnet.Client(end)
	if err := r.restart(ctx); err != nil {
		return "", err
	}
	var whole, again []float64
	for i := range pairs {
		for _, c := range []struct {
			kept  int
			times *[]float64
		}{{0, &whole}, {keptTokens, &again}} {
			ms, err := r.ask(ctx, i, 4, c.kept)
			if err != nil {
				return "", err
			}
			*c.times = append(*c.times, ms)
		}
	}
	if err := r.quietDecode(ctx); err != nil {
		return "", err
	}
	if err := r.written(ctx); err != nil {
		return "", err
	}
	if err := r.restart(ctx); err != nil {
		return "", err
	}
	restored, err := r.ask(ctx, pairs-1, 4, keptTokens)
	if err != nil {
		return "", fmt.Errorf("from the disk: %w", err)
	}
	if err := r.damaged(ctx); err != nil {
		return "", err
	}
	factor, fromDisk := middle(whole)/middle(again), middle(whole)/restored
	if factor < memoryFactor || fromDisk < diskFactor {
		return "", fmt.Errorf("the first token came after %.0f ms, from memory after %.0f (x%.1f) and from the disk after %.0f (x%.1f), want x%d and x%d",
			middle(whole), middle(again), factor, restored, fromDisk, memoryFactor, diskFactor)
	}
	return fmt.Sprintf("prompt=%d kept=%d first_token_ms=%.0f again=%.0f (x%.1f) restored=%.0f (x%.1f), a damaged snapshot is removed",
		promptTokens, keptTokens, middle(whole), middle(again), factor, restored, fromDisk), nil
}

// answer is what is read of an answer.
type answer struct {
	Usage struct {
		Prompt  int `json:"prompt_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Neuron struct {
		Telemetry protocol.Telemetry `json:"telemetry"`
	} `json:"neuron"`
}

// complete asks for so many greedy tokens; prefix is auto or off.
func (r *route) complete(ctx context.Context, ids []int32, tokens int, prefix string) (*answer, error) {
	var out answer
	_, err := r.client.JSON(ctx, http.MethodPost, "/completions", map[string]any{
		"model": modelName, "prompt": ids, "max_tokens": tokens, "temperature": 0, "ignore_eos": true,
		"neuron": map[string]any{"telemetry": true, "draft": "off", "prefix": prefix},
	}, &out)
	return &out, err
}

// prompt is a fixed sequence of n ids of the model.
func prompt(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i*i+7*i) % 500
	}
	return ids
}

// ask asks with prompt number i and returns the time to the first token; kept is
// how much of the prompt must not have been computed.
func (r *route) ask(ctx context.Context, i, tokens, kept int) (float64, error) {
	ids := prompt(promptTokens)
	ids[0] += int32(i) // another prompt from its first block on
	a, err := r.complete(ctx, ids, tokens, "auto")
	if err != nil {
		return 0, err
	}
	t := a.Neuron.Telemetry
	if t.PrefillCached != kept || a.Usage.Details.Cached != kept || a.Usage.Prompt != promptTokens {
		return 0, fmt.Errorf("prompt %d: %d tokens were kept, usage says %d of %d; want %d", i, t.PrefillCached, a.Usage.Details.Cached, a.Usage.Prompt, kept)
	}
	if len(t.Route) != len(layers) {
		return 0, fmt.Errorf("%d hops, want %d", len(t.Route), len(layers))
	}
	for _, h := range t.Route {
		if c := h.Counters; c.PrefillRows != int64(promptTokens-kept) {
			return 0, fmt.Errorf("hop %d ran %d rows of the prompt, want %d", h.Hop, c.PrefillRows, promptTokens-kept)
		}
	}
	return t.FirstTokenMillis, nil
}

// quietDecode decodes for longer than a stage waits before it saves: until the
// end there must be no snapshot.
func (r *route) quietDecode(ctx context.Context) error {
	began := time.Now()
	for time.Since(began) < 4*time.Second {
		if _, err := r.complete(ctx, prompt(16), 200, "off"); err != nil {
			return err
		}
		for i := range layers {
			list, err := r.files(i)
			if err != nil {
				return err
			}
			if len(list) > 0 {
				return fmt.Errorf("node %d wrote a snapshot while a session decoded", i)
			}
		}
	}
	return nil
}

// files are the snapshots of a node.
func (r *route) files(node int) ([]string, error) {
	return filepath.Glob(filepath.Join(r.data, nodeName(node), "prefixes", "*.prefix"))
}

// written waits for the snapshots of both nodes.
func (r *route) written(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.Now().Add(writeWait)
	for {
		a, err := r.files(0)
		b, err2 := r.files(1)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if len(a) == pairs && len(b) == pairs {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d and %d snapshots were written, want %d each", len(a), len(b), pairs)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// restart stops the nodes, if they run, and starts them with what they have on
// the disk.
func (r *route) restart(ctx context.Context) error {
	if err := r.stop(); err != nil {
		return err
	}
	for i, l := range layers {
		x, err := r.net.StartNode(ctx, nodeName(i), localnet.NodeOptions{Model: r.model, Layers: l})
		if err != nil {
			return err
		}
		r.nodes = append(r.nodes, x)
	}
	return r.net.WaitCovered(ctx, modelName, 1, time.Minute)
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// stop stops the nodes.
func (r *route) stop() error {
	for _, x := range r.nodes {
		if err := r.net.Forget(x.Proc); err != nil {
			return err
		}
	}
	r.nodes = nil
	return nil
}

// damaged changes a byte in each snapshot of the tail; the next session begins
// at its start, and the file that it asked for is gone.
func (r *route) damaged(ctx context.Context) error {
	if err := r.stop(); err != nil {
		return err
	}
	list, err := r.files(1)
	if err != nil {
		return err
	}
	for _, path := range list {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			return err
		}
	}
	if err := r.restart(ctx); err != nil {
		return err
	}
	if _, err := r.ask(ctx, pairs-1, 4, 0); err != nil {
		return fmt.Errorf("with damaged snapshots: %w", err)
	}
	left, err := r.files(1)
	if err != nil {
		return err
	}
	if len(left) != len(list)-1 {
		return fmt.Errorf("%d of %d damaged snapshots are left after one was asked for", len(left), len(list))
	}
	return nil
}

// middle is the median.
func middle(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
