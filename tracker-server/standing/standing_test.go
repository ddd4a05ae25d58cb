package standing

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
)

var t0 = time.Unix(1_800_000_000, 0).UTC()

func nodeID(b byte) protocol.NodeID {
	return protocol.NodeIDOf(ed25519.PublicKey(strings.Repeat(string(rune(b)), 32)))
}

func (b *Book) do(t *testing.T, s Subject, a Action, reason string, at time.Time) bool {
	t.Helper()
	c := Change{Subject: s, Action: a, Mark: Mark{At: at, By: "tester", Reason: reason}}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	r, changed := b.After(c)
	b.Put(r)
	return changed
}

func TestLife(t *testing.T) {
	t.Parallel()
	id := nodeID('a')
	s, o := Node(id), Owner("o-"+string(nodeID('b')))
	b := NewBook(Approve, nil)
	is := func(want State, waits, drained, refused bool) {
		t.Helper()
		r := b.Get(s)
		if r.State() != want || (b.Waits(id) != "") != waits || (b.Drained(id) != "") != drained || (b.Refusal(id, o.ID) != nil) != refused {
			t.Errorf("state %s, waits %q, drained %q, refusal %v; want %s %t %t %t", r.State(), b.Waits(id), b.Drained(id), b.Refusal(id, o.ID), want, waits, drained, refused)
		}
	}
	is(StateUnknown, true, false, false)
	if !b.do(t, s, ActApprove, "", t0) || b.do(t, s, ActApprove, "", t0.Add(time.Hour)) {
		t.Error("an approval counts once")
	}
	is(StateApproved, false, false, false)
	b.do(t, s, ActDrain, "new disk", t0)
	is(StateDrained, false, true, false)
	b.do(t, s, ActBan, "cheated", t0)
	is(StateBanned, false, true, true)
	if e := b.Refusal(id, ""); e.Code != protocol.CodeForbidden || !strings.Contains(e.Message, "cheated") {
		t.Errorf("refusal %v", e)
	}
	if !b.do(t, s, ActBan, "cheated twice", t0.Add(time.Hour)) {
		t.Error("a new reason is a change")
	}
	if m := b.Get(s).Banned; !m.At.Equal(t0) || m.Reason != "cheated twice" {
		t.Errorf("mark %+v", m)
	}
	// Each mark is lifted by itself.
	if !b.do(t, s, ActUnban, "", t0) || b.do(t, s, ActUnban, "", t0) {
		t.Error("an unban counts once")
	}
	is(StateDrained, false, true, false)
	b.do(t, s, ActUndrain, "", t0)
	is(StateApproved, false, false, false)
	b.do(t, o, ActBan, "all of them", t0)
	is(StateApproved, false, false, true)
	if b.Refusal(id, "") != nil || b.Refusal(nodeID('c'), o.ID) == nil {
		t.Error("an owner's ban is about the owner's nodes, all of them")
	}
	again := NewBook(Open, b.List())
	if l := again.List(); len(l) != 2 || again.Refusal(id, o.ID) == nil || again.Waits(nodeID('c')) != "" {
		t.Errorf("made anew: %+v", l)
	}
	b.do(t, o, ActUnban, "", t0)
	b.do(t, s, ActDisapprove, "", t0)
	is(StateUnknown, true, false, false)
	if l := b.List(); len(l) != 0 {
		t.Errorf("empty records stay: %+v", l)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	id := nodeID('a')
	m := Mark{At: t0, Reason: "r"}
	for name, c := range map[string]Change{
		"no reason":     {Node(id), ActBan, Mark{At: t0, Reason: " "}},
		"long reason":   {Node(id), ActDrain, Mark{At: t0, Reason: strings.Repeat("x", MaxReason+1)}},
		"no time":       {Node(id), ActDrain, Mark{Reason: "r"}},
		"action":        {Node(id), "praise", m},
		"kind":          {Subject{"house", string(id)}, ActBan, m},
		"node id":       {Subject{KindNode, "<script>"}, ActBan, m},
		"owner id":      {Owner(string(id)), ActBan, m},
		"client":        {Owner("c-abc"), ActBan, m},
		"drained owner": {Owner("o-" + string(id)), ActDrain, m},
	} {
		if err := c.Check(); !errors.Is(err, &protocol.Error{Code: protocol.CodeInvalidRequest}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, p := range []string{"", "open", "approve"} {
		if _, err := ParsePolicy(p); err != nil {
			t.Error(err)
		}
	}
	if _, err := ParsePolicy("closed"); err == nil {
		t.Error("an unknown policy passed")
	}
}
