package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"neuron/engine/cli/apiclient"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

const ask = "What is a route? Explain it."

func chat(tokens int) apiclient.ChatRequest {
	return apiclient.ChatRequest{
		Model: guideName, Messages: []apiclient.Message{{Role: "user", Content: ask}}, MaxTokens: tokens, IgnoreEOS: tokens > 0,
	}
}

// telemetrySeen is AC-08, streamed (events) and not streamed (by asking the
// session endpoint while the request runs).
func telemetrySeen(ctx context.Context, e *env) (string, error) {
	n, err := e.twoNodes(ctx)
	if err != nil {
		return "", err
	}
	before, during, first := 0, 0, false
	r := chat(600)
	r.OnTelemetry = func(t protocol.Telemetry) {
		switch {
		case !first:
			before++
		case t.Phase == protocol.PhaseDecode:
			during++
		}
	}
	if _, err := n.client.Chat(ctx, r, func(string) { first = true }); err != nil {
		return "", err
	}
	if before == 0 || during == 0 {
		return "", fmt.Errorf("streamed: %d snapshots before the first token, %d during decode", before, during)
	}
	phases, err := watchWhole(ctx, n)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("streamed: %d before the first token, %d during decode; not streamed: %s", before, during, phases), nil
}

// watchWhole asks for an answer that is not streamed and looks at its session
// meanwhile.
func watchWhole(ctx context.Context, n *network) (string, error) {
	known := map[protocol.SessionID]bool{}
	list, err := sessionsOf(ctx, n)
	if err != nil {
		return "", err
	}
	for _, t := range list {
		known[t.Session] = true
	}
	done := make(chan error, 1)
	go func() {
		_, err := n.client.complete(ctx, guideName, promptIDs(1200), 800, 0)
		done <- err
	}()
	seen := map[protocol.Phase]bool{}
	early, decode := 0, 0
	for {
		select {
		case err := <-done:
			if err != nil {
				return "", err
			}
			if early == 0 || decode == 0 {
				return "", fmt.Errorf("not streamed: %d snapshots before the first token, %d during decode (%v)", early, decode, seen)
			}
			return fmt.Sprintf("%d before, %d during decode", early, decode), nil
		case <-time.After(2 * time.Millisecond):
			list, err := sessionsOf(ctx, n)
			if err != nil {
				return "", err
			}
			for _, t := range list {
				if known[t.Session] {
					continue
				}
				seen[t.Phase] = true
				switch {
				case t.Phase == protocol.PhaseDecode && t.Tokens > 0:
					decode++
				case t.Tokens == 0 && !t.Phase.Ended():
					early++
				}
			}
		}
	}
}

func sessionsOf(ctx context.Context, n *network) ([]protocol.Telemetry, error) {
	var out struct {
		Data []protocol.Telemetry `json:"data"`
	}
	_, err := n.client.JSON(ctx, http.MethodGet, "/sessions", nil, &out)
	return out.Data, err
}

// deltasJoin is AC-09.
func deltasJoin(ctx context.Context, e *env) (string, error) {
	n, err := e.twoNodes(ctx)
	if err != nil {
		return "", err
	}
	a, err := n.client.Chat(ctx, chat(0), nil)
	if err != nil {
		return "", err
	}
	var whole struct {
		Choices []struct {
			Message apiclient.Message `json:"message"`
			Finish  string            `json:"finish_reason"`
		} `json:"choices"`
	}
	body := map[string]any{"model": guideName, "messages": []apiclient.Message{{Role: "user", Content: ask}}, "temperature": 0}
	if _, err := n.client.JSON(ctx, http.MethodPost, "/chat/completions", body, &whole); err != nil {
		return "", err
	}
	switch {
	case len(whole.Choices) != 1:
		return "", fmt.Errorf("%d choices", len(whole.Choices))
	case a.Deltas < 2:
		return "", fmt.Errorf("%d deltas", a.Deltas)
	case a.Text == "" || a.Text != whole.Choices[0].Message.Content || a.Finish != whole.Choices[0].Finish:
		return "", fmt.Errorf("the deltas join to %d bytes (%s), the whole text has %d (%s)", len(a.Text), a.Finish, len(whole.Choices[0].Message.Content), whole.Choices[0].Finish)
	}
	return fmt.Sprintf("deltas=%d bytes=%d equal", a.Deltas, len(a.Text)), nil
}

// sameSession is AC-13: one id on both hops while it runs, in the telemetry,
// and in the logs of nodes, gateway and tracker.
func sameSession(ctx context.Context, e *env) (string, error) {
	n, err := e.twoNodes(ctx)
	if err != nil {
		return "", err
	}
	var id protocol.SessionID
	onHops := 0
	r := chat(400)
	r.OnTelemetry = func(t protocol.Telemetry) {
		if t.Phase == protocol.PhaseDecode && onHops == 0 {
			id = t.Session
			onHops = hopsWith(ctx, n, id)
		}
	}
	a, err := n.client.Chat(ctx, r, nil)
	if err != nil {
		return "", err
	}
	if onHops != len(n.nodes) {
		return "", fmt.Errorf("%d of %d hops knew session %s while it ran", onHops, len(n.nodes), id)
	}
	if a.Session != id || a.Telemetry.Session != id {
		return "", fmt.Errorf("sessions %s, %s and %s in one answer", id, a.Session, a.Telemetry.Session)
	}
	logs := []string{n.net.Tracker.Log, n.gateway.Log}
	for _, x := range n.nodes {
		logs = append(logs, x.Log)
	}
	for _, path := range logs {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if !strings.Contains(string(raw), string(id)) {
			return "", fmt.Errorf("the log %s does not name session %s", path, id)
		}
	}
	return fmt.Sprintf("hops=%d logs=%d and telemetry agree", onHops, len(logs)), nil
}

// hopsWith counts the nodes whose local API lists the session.
func hopsWith(ctx context.Context, n *network, id protocol.SessionID) int {
	found := 0
	for _, x := range n.nodes {
		c, err := localapi.Dial(x.Data)
		if err != nil {
			continue
		}
		list, err := c.Sessions(ctx)
		c.Close()
		if err != nil {
			continue
		}
		for _, s := range list {
			if s.Session == id {
				found++
			}
		}
	}
	return found
}
