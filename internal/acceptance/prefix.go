package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"neuron/internal/localnet"
)

const (
	// reusePrompt is nearly the guide's whole context; of it reuseKept tokens
	// are whole blocks of 64, with one token at least left to run.
	reusePrompt = 2000
	reuseKept   = 1984
	reusePairs  = 3
	reuseFactor = 5
	// reuseWait bounds the wait for snapshots, which are written after two
	// seconds without work.
	reuseWait = 30 * time.Second
)

// reuse is AC-18's network: a route of two nodes, and their folders of
// snapshots.
type reuse struct {
	*network
	folders []string
}

// reusesPrefixes is AC-18: a repeated prompt is not computed again, from memory
// and, after a restart of the nodes, from snapshots, which are written only
// while nothing decodes; a damaged one is removed and costs nothing but time.
func reusesPrefixes(ctx context.Context, e *env) (figure string, err error) {
	n, err := e.start(ctx, "reuse", guide)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, n.net.Stop()) }()
	r := &reuse{network: n}
	if err := r.restart(ctx); err != nil {
		return "", err
	}
	for _, x := range []string{"0-0-4", "1-4-8"} {
		r.folders = append(r.folders, filepath.Join(e.data, "reuse", guideName+"-"+x, "prefixes"))
	}
	var whole, again []float64
	for i := range reusePairs {
		for _, c := range []struct {
			kept  int
			times *[]float64
		}{{0, &whole}, {reuseKept, &again}} {
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
	restored, err := r.ask(ctx, reusePairs-1, 4, reuseKept)
	if err != nil {
		return "", fmt.Errorf("from the disk: %w", err)
	}
	if err := r.damaged(ctx); err != nil {
		return "", err
	}
	factor, fromDisk := middle(whole)/middle(again), middle(whole)/restored
	if factor < reuseFactor || fromDisk < reuseFactor {
		return "", fmt.Errorf("the first token came %.1f times as fast from memory and %.1f times from the disk, want %d", factor, fromDisk, reuseFactor)
	}
	return fmt.Sprintf("prompt=%d kept=%d first_token_ms=%.0f again=%.0f (x%.1f) restored=%.0f (x%.1f), a damaged snapshot is removed",
		reusePrompt, reuseKept, middle(whole), middle(again), factor, restored, fromDisk), nil
}

// ask asks with prompt number i and returns the time to the first token; kept is
// how much of the prompt must not have been computed.
func (r *reuse) ask(ctx context.Context, i, tokens, kept int) (float64, error) {
	ids := promptIDs(reusePrompt)
	ids[0] += int32(i) // another prompt from its first block on
	a, err := r.client.repeat(ctx, guideName, ids, tokens)
	if err != nil {
		return 0, err
	}
	t := a.Neuron.Telemetry
	if t.PrefillCached != kept || a.Usage.Details.Cached != kept || a.Usage.Prompt != reusePrompt {
		return 0, fmt.Errorf("prompt %d: %d tokens were kept, usage says %d of %d; want %d", i, t.PrefillCached, a.Usage.Details.Cached, a.Usage.Prompt, kept)
	}
	if len(t.Route) != 2 {
		return 0, fmt.Errorf("%d hops, want 2", len(t.Route))
	}
	for _, h := range t.Route {
		if c := h.Counters; c.PrefillRows != int64(reusePrompt-kept) {
			return 0, fmt.Errorf("hop %d ran %d rows of the prompt, want %d", h.Hop, c.PrefillRows, reusePrompt-kept)
		}
	}
	return t.FirstTokenMillis, nil
}

// quietDecode decodes for longer than a stage waits before it saves: until the
// end there must be no snapshot.
func (r *reuse) quietDecode(ctx context.Context) error {
	began := time.Now()
	for time.Since(began) < 4*time.Second {
		if _, err := r.client.complete(ctx, guideName, promptIDs(16), 400, 0); err != nil {
			return err
		}
		for i := range r.folders {
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
func (r *reuse) files(node int) ([]string, error) {
	return filepath.Glob(filepath.Join(r.folders[node], "*.prefix"))
}

// written waits for the snapshots of both nodes.
func (r *reuse) written(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.Now().Add(reuseWait)
	for {
		a, err := r.files(0)
		b, err2 := r.files(1)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if len(a) == reusePairs && len(b) == reusePairs {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d and %d snapshots were written, want %d each", len(a), len(b), reusePairs)
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
func (r *reuse) restart(ctx context.Context) error {
	return r.hold(ctx, guide, guideName, []string{"0-4", "4-8"}, localnet.NodeOptions{})
}

// damaged changes a byte in each snapshot of the tail; the next session begins
// at its start, and the file that it asked for is gone.
func (r *reuse) damaged(ctx context.Context) error {
	if err := r.clear(); err != nil {
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
	if _, err := r.ask(ctx, reusePairs-1, 4, 0); err != nil {
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
