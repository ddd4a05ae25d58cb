package routing

import (
	"errors"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
)

func TestExplainNamesWhatDecides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		net  *world
		want string
	}{
		"the only one": {network(4, shard("a", 4, 0, 4)), "without one of its shards there is no route"},
		"dearer":       {network(4, shard("a", 4, 0, 4), with(shard("b", 4, 0, 4), func(s *Shard) { s.Queue = 2 })), "costs 8.0 ms per token more (queue 8.0 ms)"},
		"equal":        {network(4, shard("a", 4, 0, 4), shard("b", 4, 0, 4)), "the order of node ids decides"},
		"more hops": {network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.StepMicros += 1500 }), shard("b", 4, 0, 2), shard("c", 4, 2, 4)),
			"costs the same and has more hops"},
		"no headroom": {network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.FreeKV = 4 * 64 })), "last fifth"},
	} {
		e, err := c.net.index().Explain(&Request{Gateway: "gw", Context: 64})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(e.Why, c.want) {
			t.Errorf("%s: %q, want %q", name, e.Why, c.want)
		}
	}
}

func TestLeftOutSaysWhy(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	net := network(4, shard("a", 4, 0, 4),
		with(shard("kv", 4, 0, 4), func(s *Shard) { s.FreeKV = 4 * 600 }),
		with(shard("context", 4, 0, 4), func(s *Shard) { s.MaxContext = 700 }),
		with(shard("full", 4, 0, 4), func(s *Shard) { s.Sessions = 8 }),
		with(shard("off", 4, 0, 4), func(s *Shard) { s.Blocked = "sharing off" }),
		with(shard("late", 4, 0, 4), func(s *Shard) { s.Until = now.Add(-1) }),
		with(shard("barred", 4, 0, 4), func(s *Shard) { s.Barred = "a proven fault" }),
		with(shard("deaf", 4, 0, 2), func(s *Shard) { s.Head = false }),
		with(shard("mute", 4, 2, 4), func(s *Shard) { s.Tail = false }))
	e, err := net.index().Explain(&Request{Now: now, Gateway: "gw", Context: 1000})
	if err != nil {
		t.Fatal(err)
	}
	got := map[protocol.NodeID]LeftOut{}
	for _, l := range e.LeftOut {
		got[l.Node] = l
	}
	for node, want := range map[protocol.NodeID][2]string{
		"kv": {outKV, "context of 512 tokens"}, "context": {outContext, "longest context is 700"}, "full": {outSessions, "8 of 8 sessions"},
		"off": {outState, "sharing off"}, "late": {outState, "draining"}, "barred": {outPolicy, "a proven fault"}, "deaf": {"shape", "no route"}, "mute": {"shape", "no route"},
	} {
		if l := got[node]; l.Reason != want[0] || !strings.Contains(l.Text, want[1]) {
			t.Errorf("%s: %+v, want %v", node, l, want)
		}
	}
	if e.Shards != 9 || e.Out != 8 || *got["kv"].Fits != 512 || *got["context"].Fits != 700 || got["off"].Fits != nil {
		t.Errorf("%+v", e.LeftOut)
	}
}

// TestRefusalFits: what a refusal says would fit gets a route, and one token
// more does not.
func TestRefusalFits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		net  *world
		fits string
		code protocol.Code
	}{
		"memory":  {network(4, shard("a", 4, 0, 2), with(shard("b", 4, 2, 4), func(s *Shard) { s.FreeKV = 2 * 300 })), "256", protocol.CodeKVBudget},
		"context": {network(4, shard("a", 4, 0, 2), with(shard("b", 4, 2, 4), func(s *Shard) { s.MaxContext = 700 })), "700", protocol.CodeContextExceeded},
		"both": {network(4, with(shard("a", 4, 0, 2), func(s *Shard) { s.FreeKV = 2 * 512 }), with(shard("b", 4, 2, 4), func(s *Shard) { s.MaxContext = 700 })),
			"512", protocol.CodeContextExceeded},
		"nothing": {network(4, with(shard("a", 4, 0, 4), func(s *Shard) { s.FreeKV = 0 })), "0", protocol.CodeKVBudget},
	} {
		x := c.net.index()
		err := x.Refusal(&Request{Gateway: "gw", Context: 4096})
		var e *protocol.Error
		if !errors.As(err, &e) || e.Code != c.code || e.Detail["fits"] != c.fits || e.Detail["asked"] != "4096" {
			t.Errorf("%s: %v %v", name, err, e.Detail)
		}
	}
}

func TestRefusalOfPrivateRoutes(t *testing.T) {
	t.Parallel()
	x := network(4, shard("a", 4, 0, 4), shard("b", 4, 0, 2)).index()
	err := x.Refusal(&Request{Gateway: "gw", Context: 64, Only: map[protocol.NodeID]bool{"b": true}})
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != protocol.CodeNoRoute || e.Detail["reason"] != outPolicy {
		t.Errorf("got %v", err)
	}
	// Nobody could serve it: then that is the reason.
	y := network(4, shard("b", 4, 0, 2)).index()
	if err := y.Refusal(&Request{Gateway: "gw", Context: 64, Only: map[protocol.NodeID]bool{"b": true}}); !strings.Contains(err.Error(), "layers 2-4") {
		t.Errorf("got %v", err)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	l := NewLinks()
	i, k := l.hold("a"), l.hold("b")
	l.Set("a", map[protocol.NodeID]int64{"b": 1000, "stranger": 5, "a": 7})
	l.Set("b", map[protocol.NodeID]int64{"a": 3001})
	if half, ok := l.half(i, k); !ok || half != 1501 {
		t.Errorf("the longer claim: %d %v", half, ok)
	}
	l.Set("b", nil)
	if half, ok := l.half(k, i); !ok || half != 500 {
		t.Errorf("one claim left: %d %v", half, ok)
	}
	l.Set("a", nil)
	if _, ok := l.half(i, k); ok || len(l.index) != 2 {
		t.Errorf("no claim left: %v", l.index)
	}
	l.release("a")
	l.release("b")
	if len(l.index) != 0 || len(l.claims) != 0 || len(l.free) != 3 {
		t.Errorf("something stays: %+v", l)
	}
}

// TestManyShardsPerNode: a node that reports many cheap shards cannot make the
// tracker search for long, and the answer is legal.
func TestManyShardsPerNode(t *testing.T) {
	t.Parallel()
	const layers = 64
	var shards []Shard
	for _, node := range []string{"x", "y", "z"} {
		for l := range layers {
			shards = append(shards, with(shard(node, layers, l, l+1), func(s *Shard) { s.StepMicros = 1 }))
		}
	}
	shards = append(shards, shard("honest-1", layers, 0, 30), shard("honest-2", layers, 30, layers))
	x := network(layers, shards...).index()
	r := x.Find(&Request{Gateway: "gw", Context: 64})
	if r == nil {
		t.Fatal("no route")
	}
	seen := map[protocol.NodeID]bool{}
	for _, h := range r.Hops {
		if seen[h.Node] {
			t.Errorf("%s is visited twice: %s", h.Node, path(r))
		}
		seen[h.Node] = true
	}
}
