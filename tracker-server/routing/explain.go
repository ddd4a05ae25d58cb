package routing

import (
	"fmt"
	"slices"
	"strings"

	"neuron/engine/protocol"
)

// explain says why there is no route, trying one filter after the other.
func explain(n *Network, r Request) error {
	if search(n, r, rules{anySessions: true}) != nil {
		return protocol.Errorf(protocol.CodeNoRoute,
			"all nodes that could carry the route are at their session limit").With("reason", "sessions")
	}
	if search(n, r, rules{anyKV: true, anySessions: true}) != nil {
		fits := 0
		for cells := nextPow2(r.Context) / 2; cells >= 1; cells /= 2 {
			shorter := r
			shorter.Context, shorter.Prompt = cells, 0
			if search(n, shorter, rules{anySessions: true}) != nil {
				fits = cells
				break
			}
		}
		msg := "the nodes have no KV memory left for a session"
		if fits > 0 {
			msg = fmt.Sprintf("the nodes have KV memory for a context of %d tokens, not of %d", fits, r.Context)
		}
		return protocol.Errorf(protocol.CodeKVBudget, "%s", msg).With("asked", itoa(r.Context)).With("fits", itoa(fits))
	}
	missing, blocked := missingLayers(n, r)
	if len(missing) == 0 {
		return protocol.Errorf(protocol.CodeNoRoute,
			"all layers are held, but no chain of distinct nodes with one build and legal cuts covers them").With("reason", "cuts")
	}
	var names []string
	for _, m := range missing {
		names = append(names, m.String())
	}
	msg := fmt.Sprintf("no ready node holds layers %s of %d", strings.Join(names, ", "), n.Layers)
	if len(blocked) > 0 {
		msg += " (held, but not available: " + strings.Join(blocked, ", ") + ")"
	}
	return protocol.Errorf(protocol.CodeNoRoute, "%s", msg).With("reason", "layers").With("missing", strings.Join(names, ","))
}

// missingLayers lists the ranges that no usable shard covers, and why shards
// that hold some of them cannot be used.
func missingLayers(n *Network, r Request) (missing []protocol.Range, reasons []string) {
	covered := make([]bool, n.Layers)
	for i := range n.Shards {
		if s := &n.Shards[i]; s.usable(n, r, rules{anySessions: true}) {
			for l := s.Loaded.First; l < s.Loaded.Last; l++ {
				covered[l] = true
			}
		}
	}
	for l := 0; l < n.Layers; l++ {
		if covered[l] {
			continue
		}
		if k := len(missing); k > 0 && missing[k-1].Last == l {
			missing[k-1].Last = l + 1
		} else {
			missing = append(missing, protocol.Range{First: l, Last: l + 1})
		}
	}
	for i := range n.Shards {
		s := &n.Shards[i]
		reason := s.Blocked
		if reason == "" && s.Loaded.Valid(n.Layers) && s.MaxContext < r.Context {
			reason = "context too short"
		}
		overlaps := slices.ContainsFunc(missing, func(m protocol.Range) bool {
			return m.First < s.Loaded.Last && s.Loaded.First < m.Last
		})
		if reason != "" && overlaps {
			reasons = append(reasons, reason)
		}
	}
	slices.Sort(reasons)
	return missing, slices.Compact(reasons)
}
