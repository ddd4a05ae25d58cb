package routing

import (
	"testing"

	"neuron/engine/protocol"
)

// TestEachFactorAloneChangesTheChoice: two nodes are equal, so the smaller id
// carries the route; then one of them differs in one thing.
func TestEachFactorAloneChangesTheChoice(t *testing.T) {
	t.Parallel()
	base := func() (a, b Shard) {
		a, b = shard("a", 4, 0, 4), shard("b", 4, 0, 4)
		a.ChunkMicros, b.ChunkMicros = 40_000, 40_000
		return a, b
	}
	ask := func(a, b Shard, q Request) *Route {
		q.Gateway, q.Context, q.Prompt = "gw", 1000, 500
		r, err := find(network(4, a, b), q)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name, c := range map[string]struct {
		change func(a, b *Shard, q *Request)
		part   func(Cost) int64
	}{
		"stage time":   {func(a, _ *Shard, _ *Request) { a.StepMicros++ }, func(c Cost) int64 { return c.Stage }},
		"not measured": {func(a, _ *Shard, _ *Request) { a.StepMicros = 0 }, func(c Cost) int64 { return c.Stage }},
		"prefill":      {func(a, _ *Shard, _ *Request) { a.ChunkMicros = 80_000 }, func(c Cost) int64 { return c.Prefill }},
		"round trip": {func(_, _ *Shard, q *Request) {
			q.RTT = map[protocol.NodeID]int64{"a": 5000, "b": 4000}
		}, func(c Cost) int64 { return c.Link }},
		"sessions":        {func(a, _ *Shard, _ *Request) { a.Sessions = 1 }, func(c Cost) int64 { return c.Load }},
		"queue":           {func(a, _ *Shard, _ *Request) { a.Queue = 1 }, func(c Cost) int64 { return c.Queue }},
		"memory pressure": {func(a, _ *Shard, _ *Request) { a.Pressure = 100 }, func(c Cost) int64 { return c.Memory }},
		"disk pressure":   {func(a, _ *Shard, _ *Request) { a.DiskPressure = 100 }, func(c Cost) int64 { return c.Disk }},
		"relay":           {func(a, _ *Shard, _ *Request) { a.Relayed = true }, func(c Cost) int64 { return c.Relay }},
		"fairness":        {func(a, _ *Shard, _ *Request) { a.Recent = 1 }, func(c Cost) int64 { return c.Fair }},
		"cache warmth": {func(_, b *Shard, q *Request) {
			b.Cached, q.Prefixes = []string{"x", "p"}, []protocol.Prefix{{ID: "p", Tokens: 400}}
		}, func(c Cost) int64 { return c.Cache }},
		"policy":       {func(_, _ *Shard, q *Request) { q.Only = map[protocol.NodeID]bool{"b": true} }, nil},
		"barred":       {func(a, _ *Shard, _ *Request) { a.Barred = "a proven fault" }, nil},
		"KV memory":    {func(a, _ *Shard, _ *Request) { a.FreeKV = 4 * 1023 }, nil},
		"headroom":     {func(a, _ *Shard, _ *Request) { a.FreeKV = 4 * 1024 }, nil},
		"context":      {func(a, _ *Shard, _ *Request) { a.MaxContext = 999 }, nil},
		"session room": {func(a, _ *Shard, _ *Request) { a.Sessions, a.MaxSessions = 0, 0 }, nil},
	} {
		a, b := base()
		before := ask(a, b, Request{})
		if got := path(before); got != "a:0-4" {
			t.Fatalf("%s: equals go to %s", name, got)
		}
		var q Request
		c.change(&a, &b, &q)
		after := ask(a, b, q)
		if got := path(after); got != "b:0-4" {
			t.Errorf("%s: the choice stays %s", name, got)
		}
		if c.part == nil {
			continue
		}
		// In the cost of the node that changed only this part is another.
		changed := ask(a, with(b, func(s *Shard) { s.Blocked = "away" }), q).Hops[0].Cost
		from := before.Hops[0].Cost
		if name == "cache warmth" || name == "round trip" {
			changed, from = after.Hops[0].Cost, before.Hops[0].Cost
		}
		if c.part(changed) == c.part(from) {
			t.Errorf("%s: its part stays %d", name, c.part(from))
		}
	}
}

// TestHopsBreakTies: chains that cost the same differ in their hops.
func TestHopsBreakTies(t *testing.T) {
	t.Parallel()
	a, b, whole := shard("a", 4, 0, 2), shard("b", 4, 2, 4), shard("z", 4, 0, 4)
	// What the second hop costs more is what the long stage takes longer.
	whole.StepMicros += HopOverhead + 1000
	r, err := find(network(4, a, b, whole), Request{Gateway: "gw", Context: 10})
	if err != nil {
		t.Fatal(err)
	}
	long, err := find(network(4, a, b), Request{Gateway: "gw", Context: 10})
	if err != nil {
		t.Fatal(err)
	}
	if long.TotalMicros != r.TotalMicros || path(r) != "z:0-4" {
		t.Errorf("%s for %d, the two hops cost %d", path(r), r.TotalMicros, long.TotalMicros)
	}
}
