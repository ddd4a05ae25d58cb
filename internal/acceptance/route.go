package acceptance

import (
	"context"
	"errors"
	"fmt"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamclient"
	"neuron/internal/identity"
	"neuron/internal/localnet"
)

// prefillOnce is AC-01: by their own counters both hops executed each position
// exactly once.
func prefillOnce(ctx context.Context, e *env) (string, error) {
	n, err := e.twoNodes(ctx)
	if err != nil {
		return "", err
	}
	const prompt, tokens = 300, 100
	a, err := n.client.complete(ctx, guideName, promptIDs(prompt), tokens, 0)
	if err != nil {
		return "", err
	}
	route := a.Neuron.Telemetry.Route
	if len(route) != 2 {
		return "", fmt.Errorf("%d hops, want 2", len(route))
	}
	for _, h := range route {
		c := h.Counters
		// The last token is sampled and never run.
		if c.PrefillRows != prompt || c.DecodeRows != tokens-1 || c.NextPos != prompt+tokens-1 {
			return "", fmt.Errorf("hop %d ran %d prefill and %d decode rows up to position %d; want %d, %d, %d",
				h.Hop, c.PrefillRows, c.DecodeRows, c.NextPos, prompt, tokens-1, prompt+tokens-1)
		}
	}
	return fmt.Sprintf("prompt=%d tokens=%d rows_per_hop=%d", prompt, tokens, prompt+tokens-1), nil
}

// constantSeam is AC-02: between position 16 and 1500 every decode frame has
// the same size, one hidden state.
func constantSeam(ctx context.Context, e *env) (string, error) {
	n, err := e.twoNodes(ctx)
	if err != nil {
		return "", err
	}
	const prompt, tokens = 16, 1486
	a, err := n.client.complete(ctx, guideName, promptIDs(prompt), tokens, 0)
	if err != nil {
		return "", err
	}
	if len(a.Neuron.Telemetry.Route) != 2 {
		return "", fmt.Errorf("%d hops, want 2", len(a.Neuron.Telemetry.Route))
	}
	head, tail := a.Neuron.Telemetry.Route[0].Counters, a.Neuron.Telemetry.Route[1].Counters
	report, err := capability(ctx, n.nodes[1])
	if err != nil {
		return "", err
	}
	want := int64(protocol.HeaderSize + 4*report.Width)
	if head.LastDecodeOut != want || tail.LastDecodeIn != want ||
		head.DecodeBytesOut != want*head.DecodeRows || tail.DecodeBytesIn != want*tail.DecodeRows {
		return "", fmt.Errorf("decode frames have %d bytes, together %d in %d steps; want %d each", head.LastDecodeOut, head.DecodeBytesOut, head.DecodeRows, want)
	}
	if tail.NextPos <= 1500 {
		return "", fmt.Errorf("decoding ended at position %d", tail.NextPos)
	}
	return fmt.Sprintf("bytes_per_token=%d (header %d + width %d x 4) positions=%d-%d", want, protocol.HeaderSize, report.Width, prompt, tail.NextPos), nil
}

// boundedPrefill is AC-20: a long prompt crosses the seam in chunks, never with
// more than the stated bytes unacknowledged.
func boundedPrefill(ctx context.Context, e *env) (string, error) {
	n, err := e.twoNodes(ctx)
	if err != nil {
		return "", err
	}
	const prompt = 1900
	a, err := n.client.complete(ctx, guideName, promptIDs(prompt), 2, 0)
	if err != nil {
		return "", err
	}
	report, err := capability(ctx, n.nodes[1])
	if err != nil {
		return "", err
	}
	if len(a.Neuron.Telemetry.Route) != 2 {
		return "", fmt.Errorf("%d hops, want 2", len(a.Neuron.Telemetry.Route))
	}
	c := a.Neuron.Telemetry.Route[0].Counters
	whole := int64(prompt * report.Width * 4)
	switch {
	case c.PrefillChunks < prompt/protocol.MaxChunkRows:
		return "", fmt.Errorf("%d chunks for %d tokens", c.PrefillChunks, prompt)
	case c.MaxInFlight == 0 || c.MaxInFlight > report.InFlightBytes:
		return "", fmt.Errorf("%d bytes in flight, stated are %d", c.MaxInFlight, report.InFlightBytes)
	case c.MaxInFlight >= whole:
		return "", fmt.Errorf("the whole prompt of %d bytes was in flight at once", whole)
	}
	return fmt.Sprintf("chunks=%d max_in_flight=%d stated=%d whole_prompt=%d", c.PrefillChunks, c.MaxInFlight, report.InFlightBytes, whole), nil
}

// wholeModel is AC-10: one node with the whole file, as it lies, serves a
// one-hop route through the same API.
func wholeModel(ctx context.Context, e *env) (figure string, err error) {
	n, err := e.start(ctx, "whole", guide)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, n.net.Stop()) }()
	if err := n.hold(ctx, guide, guideName, []string{"all"}, localnet.NodeOptions{}); err != nil {
		return "", err
	}
	a, err := n.client.complete(ctx, guideName, promptIDs(100), 50, 0)
	if err != nil {
		return "", err
	}
	if len(a.Neuron.Telemetry.Route) != 1 {
		return "", fmt.Errorf("%d hops, want 1", len(a.Neuron.Telemetry.Route))
	}
	pair, err := e.twoNodes(ctx)
	if err != nil {
		return "", err
	}
	b, err := pair.client.complete(ctx, guideName, promptIDs(100), 50, 0)
	if err != nil {
		return "", err
	}
	if a.Choices[0].Text != b.Choices[0].Text {
		return "", fmt.Errorf("the one-hop route answers otherwise than two hops")
	}
	return "hops=1 tokens=50, text equal to the two-hop route", nil
}

// capability asks a node's seam for its report.
func capability(ctx context.Context, n *localnet.Node) (*protocol.Capability, error) {
	id, err := identity.New()
	if err != nil {
		return nil, err
	}
	c := seamclient.New(id)
	defer c.Close()
	return c.Report(ctx, n.Seam, protocol.NodeID(n.ID))
}
