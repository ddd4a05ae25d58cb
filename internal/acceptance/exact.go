package acceptance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"neuron/internal/localnet"
)

// sameTokens is AC-07. Each cut is checked twice: all logits of stages in one
// process against the whole model, and tokens with their log probabilities of
// a route of real nodes. Both must be equal bit by bit.
func sameTokens(ctx context.Context, e *env) (figure string, err error) {
	models := []struct{ path, name string }{{guide, guideName}}
	note := ""
	if _, err := os.Stat(stories); err == nil {
		models = append(models, struct{ path, name string }{stories, storiesName})
	} else {
		note = " (" + storiesName + " is not present: not checked)"
	}
	var paths []string
	for _, m := range models {
		paths = append(paths, m.path)
	}
	n, err := e.start(ctx, "exact", paths...)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, n.net.Stop()) }()
	cuts := 0
	var most float64
	for _, m := range models {
		r, err := newReference(ctx, m.path, filepath.Join(e.data, "exact", m.name))
		if err != nil {
			return "", err
		}
		for _, bounds := range r.cuts() {
			d, err := r.inProcess(bounds)
			if err == nil {
				most = max(most, d)
				err = r.route(ctx, n, m.path, m.name, bounds)
			}
			if err == nil && d != 0 {
				err = fmt.Errorf("largest logit difference %g", d)
			}
			if err != nil {
				r.close()
				return "", fmt.Errorf("%s cut at %v: %w", m.name, bounds, err)
			}
			cuts++
		}
		r.close()
		if err := n.clear(); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("cuts=%d tokens=%d max_logit_diff=%g%s", cuts, pinTokens, most, note), nil
}

// route runs the cut on real nodes and compares what the API tells.
func (r *reference) route(ctx context.Context, n *network, path, name string, bounds []int) error {
	var layers []string
	first := 0
	for _, last := range bounds {
		layers = append(layers, fmt.Sprintf("%d-%d", first, last))
		first = last
	}
	if err := n.hold(ctx, path, name, layers, localnet.NodeOptions{}); err != nil {
		return err
	}
	a, err := n.client.complete(ctx, name, promptIDs(pinPrompt), pinTokens, pinTop)
	if err != nil {
		return err
	}
	if got := len(a.Neuron.Telemetry.Route); got != len(bounds) {
		return fmt.Errorf("the route has %d hops, want %d", got, len(bounds))
	}
	lp := a.Choices[0].Logprobs
	if len(lp.Logprob) != pinTokens || len(lp.Top) != pinTokens {
		return fmt.Errorf("log probabilities of %d tokens", len(lp.Logprob))
	}
	for i, id := range r.whole.tokens {
		if got, want := float32(lp.Logprob[i]), r.probs[i].Of(id); math.Float32bits(got) != math.Float32bits(want) {
			return fmt.Errorf("token %d has log probability %g, the whole model %g", i, got, want)
		}
		if err := r.sameTop(i, lp.Top[i]); err != nil {
			return err
		}
	}
	return nil
}

// sameTop compares the alternatives at a step. Tokens that are no text of
// their own share a key in the API's answer, which keeps the best of them.
func (r *reference) sameTop(step int, got map[string]float64) error {
	want := map[string]float32{}
	for _, a := range r.probs[step].Top {
		piece, err := r.piece(a.ID)
		if err != nil {
			return err
		}
		key := string(piece)
		if !utf8.ValidString(key) {
			key = strings.ToValidUTF8(key, "\ufffd")
		}
		if old, ok := want[key]; !ok || a.Logprob > old {
			want[key] = a.Logprob
		}
	}
	for key, lp := range want {
		g, ok := got[key]
		if ok && math.Float32bits(float32(g)) != math.Float32bits(lp) {
			return fmt.Errorf("alternative %q of token %d has log probability %g, the whole model %g", key, step, g, lp)
		}
		if !ok && utf8.ValidString(key) && !strings.Contains(key, "\ufffd") {
			return fmt.Errorf("alternative %q of token %d is missing in the answer", key, step)
		}
	}
	return nil
}
