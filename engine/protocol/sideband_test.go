package protocol_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
)

func hops(firsts ...int) []protocol.Hop {
	out := make([]protocol.Hop, len(firsts))
	for i, f := range firsts {
		out[i].Use = protocol.Range{First: f, Last: f + 1}
	}
	return out
}

func TestSeamNeeds(t *testing.T) {
	t.Parallel()
	// Layers 0 to 2 look ids up, 0, 3 and 6 have indexers.
	at := func(b int) protocol.Sideband {
		s := protocol.Sideband{IDs: b < 3}
		if b%3 != 0 {
			s.TopK = 8
		}
		return s
	}
	c := &protocol.Capability{Layers: 8, Seams: protocol.SeamNeeds(8, at)}
	want := []protocol.SeamNeed{
		{First: 1, Last: 3, Sideband: protocol.Sideband{IDs: true, TopK: 8}},
		{First: 4, Last: 6, Sideband: protocol.Sideband{TopK: 8}},
		{First: 7, Last: 8, Sideband: protocol.Sideband{TopK: 8}},
	}
	if d := cmp.Diff(want, c.Seams); d != "" {
		t.Fatal(d)
	}
	if err := protocol.CheckSeamNeeds(c.Seams, 8); err != nil {
		t.Error(err)
	}
	for b := 1; b < 8; b++ {
		if c.Needs(b) != at(b) {
			t.Errorf("boundary %d: %+v", b, c.Needs(b))
		}
	}
	if got := protocol.SidebandNames(c.Seams); !slices.Equal(got, []string{"ids", "top_k"}) || protocol.SidebandNames(nil) == nil {
		t.Errorf("names %v", got)
	}
	none := protocol.Sideband{}
	for _, x := range []struct {
		firsts []int
		want   []protocol.Sideband
	}{
		{[]int{0, 3, 6}, []protocol.Sideband{none, none, none}},
		{[]int{0, 1, 2}, []protocol.Sideband{none, {IDs: true, TopK: 8}, {IDs: true, TopK: 8}}},
		{[]int{0, 4, 6}, []protocol.Sideband{none, {TopK: 8}, none}},
	} {
		for i, w := range x.want {
			if got := c.Crosses(hops(x.firsts...), i); got != w {
				t.Errorf("cuts %v: %+v into hop %d, want %+v", x.firsts, got, i, w)
			}
		}
	}
	// Ids go through a hop that does not need them.
	late := &protocol.Capability{Layers: 8, Seams: protocol.SeamNeeds(8, func(b int) protocol.Sideband { return protocol.Sideband{IDs: b > 5} })}
	if got := late.Crosses(hops(0, 2, 6), 1); !got.IDs || late.Crosses(hops(0, 2, 4), 1).IDs {
		t.Errorf("ids on the way to a later hop: %+v", got)
	}
	if late.Crosses(hops(0, 2), 2) != none || late.Crosses(nil, 0) != none {
		t.Error("a seam that is none")
	}
}

func TestSeamNeedsThatCannotBe(t *testing.T) {
	t.Parallel()
	ids := protocol.Sideband{IDs: true}
	for name, l := range map[string][]protocol.SeamNeed{
		"the head":         {{First: 0, Last: 1, Sideband: ids}},
		"behind the model": {{First: 3, Last: 9, Sideband: ids}},
		"empty":            {{First: 3, Last: 3, Sideband: ids}},
		"nothing":          {{First: 3, Last: 4}},
		"out of order":     {{First: 3, Last: 4, Sideband: ids}, {First: 2, Last: 3, Sideband: ids}},
		"overlapping":      {{First: 3, Last: 5, Sideband: ids}, {First: 4, Last: 6, Sideband: ids}},
		"negative":         {{First: 3, Last: 4, Sideband: protocol.Sideband{TopK: -1}}},
		"huge":             {{First: 3, Last: 4, Sideband: protocol.Sideband{TopK: protocol.MaxTopK + 1}}},
		"too many":         make([]protocol.SeamNeed, protocol.MaxSeamNeeds+1),
	} {
		if protocol.CheckSeamNeeds(l, 8) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestSameSeams(t *testing.T) {
	t.Parallel()
	a := protocol.Capability{Width: 64, Vocab: 100, Layers: 4, Seams: []protocol.SeamNeed{{First: 1, Last: 2, Sideband: protocol.Sideband{IDs: true}}}}
	for name, change := range map[string]func(*protocol.Capability){
		"width":      func(c *protocol.Capability) { c.Width = 128 },
		"sidebands":  func(c *protocol.Capability) { c.Seams = nil },
		"vocabulary": func(c *protocol.Capability) { c.Vocab = 99 },
	} {
		b := a
		change(&b)
		if err := a.SameSeams(&b); err == nil || err.Code != protocol.CodeSeamMismatch {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := a
	if err := a.SameSeams(&b); err != nil {
		t.Error(err)
	}
	a.Seams, b.Seams, b.Vocab = nil, nil, 0
	if err := a.SameSeams(&b); err != nil {
		t.Errorf("a vocabulary that nobody needs: %v", err)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	m := protocol.Memory{
		{Kind: protocol.MemoryFull, Layers: 2, CellBytes: 100},
		{Kind: protocol.MemorySliding, Layers: 3, CellBytes: 10, WindowCells: 768},
		{Kind: protocol.MemoryCompressed, Layers: 1, CellBytes: 7, Every: 128, StateBytes: 5},
		{Kind: protocol.MemoryRecurrent, Layers: 4, StateBytes: 1000},
		{Kind: protocol.MemoryFull, Layers: 1, CellBytes: 50, Pad: true},
	}
	if err := protocol.CheckMemory(m); err != nil {
		t.Fatal(err)
	}
	for cells, want := range map[int]int64{
		256:   256*150 + 256*10 + 256*7 + 1005,
		1024:  1024*150 + 768*10 + 256*7 + 1005,
		65536: 65536*150 + 768*10 + 512*7 + 1005,
	} {
		if got := m.Bytes(cells); got != want {
			t.Errorf("%d cells take %d, want %d", cells, got, want)
		}
		c := protocol.Capability{Memory: m, ComputeBytes: 3}
		if got := c.PoolBytes(cells, 2); got != 2*want+3 {
			t.Errorf("a pool of two takes %d, want %d", got, 2*want+3)
		}
	}
	if m.StateBytes() != 1005 || m.PadBytes(256) != 256*50 || !m.Has(protocol.MemoryRecurrent) || m.Has(protocol.MemoryMLA) {
		t.Errorf("state %d, pads %d", m.StateBytes(), m.PadBytes(256))
	}
	indexed := protocol.Memory{{Kind: protocol.MemoryMLA}, {Kind: protocol.MemoryIndexer}}
	if m.Rewinds() || !m[:1].Rewinds() || !indexed.Rewinds() || m[1:2].Rewinds() || m[2:3].Rewinds() || m[3:4].Rewinds() {
		t.Error("which memory can be taken back")
	}
	if indexed.Moves() || !indexed[:1].Moves() || m.Moves() {
		t.Error("which memory can be moved")
	}
	for name, p := range map[string]protocol.MemoryPart{
		"no kind":        {},
		"negative cells": {Kind: "x", CellBytes: -1},
		"huge state":     {Kind: "x", StateBytes: 1 << 41},
		"window":         {Kind: "x", WindowCells: -1},
		"every":          {Kind: "x", Every: -1},
		"layers":         {Kind: "x", Layers: 5000},
	} {
		if protocol.CheckMemory(protocol.Memory{p}) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if protocol.CheckMemory(make(protocol.Memory, protocol.MaxMemoryParts+1)) == nil {
		t.Error("any number of parts is taken")
	}
}
