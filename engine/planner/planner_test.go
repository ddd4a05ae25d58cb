package planner_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/planner"
	"neuron/engine/protocol"
)

const (
	mb = 1_000_000
	gb = 1_000 * mb
)

// plain is a model of equal layers.
func plain(name string, layers int, layer int64) *planner.Model {
	return &planner.Model{
		ID: protocol.ModelID(strings.Repeat(fmt.Sprintf("%02x", name[0]), 32)), Name: name, Layers: layers,
		Context: 131072, Width: 4096, Vocab: 128_000, PieceLength: 4 << 20,
		Parts: planner.Parts{Header: 8 * mb, All: 1024, Head: 500 * mb, Tail: 500 * mb, Layers: slices.Repeat([]int64{layer}, layers)},
		KV:    slices.Repeat([]int64{4096}, layers),
	}
}

// desktop is a computer without a GPU.
func desktop() planner.Limits {
	return planner.Limits{Disk: 100 * gb, Memory: 16 * gb, Down: 10 * mb, DecodeRate: 20 * gb}
}

func check(t *testing.T, p *planner.Planner, m *planner.Model, first, last int) planner.Answer {
	t.Helper()
	return p.Check(m, planner.Assignment{Model: m.ID, Range: protocol.Range{First: first, Last: last}})
}

func TestSentenceSaysWhatARangeCosts(t *testing.T) {
	t.Parallel()
	m := plain("Willow", 32, 150*mb)
	a := check(t, planner.New(desktop(), nil), m, 4, 12)
	if a.Refused != nil {
		t.Fatal(a.Refused)
	}
	want := "Layers 4 to 11 of Willow: 1.2 GB to fetch, about 3 minutes; leaves 11.5 GB for conversations"
	if a.Text != want {
		t.Errorf("got  %s\nwant %s", a.Text, want)
	}
	c := a.Cost
	// Eight layers, the header, what all stages need.
	if c.FetchBytes != 8*150*mb+8*mb+1024 || c.WireBytes-c.FetchBytes != 4*m.PieceLength || c.DiskBytes != c.FetchBytes {
		t.Errorf("fetch %d, wire %d, disk %d", c.FetchBytes, c.WireBytes, c.DiskBytes)
	}
	if c.Weights != 8*150*mb+1024 || c.KVPerCell != 8*4096 || c.KV != 4*4096*8*4096 {
		t.Errorf("weights %d, %d a cell, KV %d", c.Weights, c.KVPerCell, c.KV)
	}
	if c.Anonymous != c.Weights+c.KV+c.Compute || c.Cache != 0 {
		t.Errorf("anonymous %d of %d + %d + %d, cache %d", c.Anonymous, c.Weights, c.KV, c.Compute, c.Cache)
	}
	if c.KVRoom != 16*gb*4/5-c.Weights-c.Compute || int64(c.Fit4K) != c.KVRoom/(4096*8*4096) || int64(c.Fit32K) != c.KVRoom/(32768*8*4096) {
		t.Errorf("room %d, %d of 4K, %d of 32K", c.KVRoom, c.Fit4K, c.Fit32K)
	}
	if ms := c.Step.Milliseconds(); ms < 59 || ms > 61 {
		t.Errorf("1.2 GB at 20 GB/s is not %s", c.Step)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	m := plain("Elm", 8, 900)
	m.Parts = planner.Parts{Layers: slices.Repeat([]int64{900}, 8)}
	l := desktop()
	for _, c := range []struct {
		first, last int
		down        int64
		want        string
	}{
		{0, 8, 0, "All 8 layers of Elm: 7 kB to fetch; "},
		{3, 4, 1000, "Layer 3 of Elm: 900 bytes to fetch, less than a minute; "},
		{3, 5, 10, "Layers 3 to 4 of Elm: 2 kB to fetch, about 12 minutes; "},
		{3, 5, 1, "Layers 3 to 4 of Elm: 2 kB to fetch, about 2 hours; "},
	} {
		l.Down = c.down
		if a := check(t, planner.New(l, nil), m, c.first, c.last); !strings.HasPrefix(a.Text, c.want) {
			t.Errorf("%q does not begin with %q", a.Text, c.want)
		}
	}
}

func TestOnlyWhatIsMissingIsFetched(t *testing.T) {
	t.Parallel()
	m := plain("Birch", 32, 150*mb)
	held := planner.Held{Model: m.ID, Parts: planner.Parts{Header: 8 * mb, All: 1024, Layers: make([]int64, 32)}, Serving: protocol.Range{First: 4, Last: 12}}
	for i := 4; i < 12; i++ {
		held.Parts.Layers[i] = 150 * mb
	}
	p := planner.New(desktop(), []planner.Held{held})
	if a := check(t, p, m, 6, 14); a.Cost.FetchBytes != 300*mb {
		t.Errorf("moving to 6-14 fetches %d bytes, not layers 12 and 13", a.Cost.FetchBytes)
	}
	a := check(t, p, m, 5, 11)
	if a.Cost.FetchBytes != 0 || a.Cost.WireBytes != 0 || !strings.Contains(a.Text, "already on this disk") {
		t.Errorf("a part of what is held: %d bytes, %q", a.Cost.FetchBytes, a.Text)
	}
	// The tail's tensors are missing, its layers are not more than one layer's
	// worth of another one.
	if a := check(t, p, m, 11, 32); a.Cost.FetchBytes != 20*150*mb+500*mb {
		t.Errorf("the tail fetches %d bytes", a.Cost.FetchBytes)
	}
	if got := p.HeldLayers([]*planner.Model{m}); len(got) != 1 || !slices.Equal(got[0].Ranges, []protocol.Range{{First: 4, Last: 12}}) {
		t.Errorf("held layers: %v", got)
	}
	if o := p.Offer(); o.Disk != 100*gb+8*150*mb+8*mb+1024 || o.Memory != 16*gb*4/5 || o.DownRate != 10*mb || o.Speed != 20*gb {
		t.Errorf("offer: %+v", o)
	}
}

func TestRefusalsSayWhy(t *testing.T) {
	t.Parallel()
	m := plain("Oak", 32, 1*gb)
	deep := plain("Ash", 32, 10*mb)
	deep.KV = slices.Repeat([]int64{256 << 10}, 32)
	whole := plain("Fir", 8, 10*mb)
	whole.WholeOnly = "its family is not certified"
	cut := plain("Yew", 8, 10*mb)
	cut.Ends = make([][]manifest.Span, 8)
	cut.Ends[0], cut.Ends[4] = []manifest.Span{{From: 4, To: 4}}, []manifest.Span{{From: 8, To: 8}}
	small := desktop()
	small.Disk = 5 * gb
	for _, c := range []struct {
		name        string
		l           planner.Limits
		m           *planner.Model
		first, last int
		code        protocol.Code
		fits        string
	}{
		{"weights", desktop(), m, 0, 32, protocol.CodeDoesNotFit, "0-11"},
		{"conversations", desktop(), deep, 0, 32, protocol.CodeKVBudget, "0-2"},
		{"disk", small, m, 8, 16, protocol.CodeDiskFull, "8-12"},
		{"whole only", desktop(), whole, 0, 4, protocol.CodeModelUncut, ""},
		{"whole", desktop(), whole, 0, 8, "", ""},
		{"illegal cut", desktop(), cut, 0, 3, protocol.CodeRangeInvalid, ""},
		{"legal cut", desktop(), cut, 4, 8, "", ""},
		{"outside", desktop(), m, 4, 33, protocol.CodeRangeInvalid, ""},
		{"empty", desktop(), m, 4, 4, protocol.CodeRangeInvalid, ""},
		{"nothing at all", planner.Limits{Disk: gb}, m, 4, 8, protocol.CodeDoesNotFit, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planner.New(c.l, nil)
			a := check(t, p, c.m, c.first, c.last)
			if c.code == "" {
				if a.Refused != nil {
					t.Fatal(a.Refused)
				}
				return
			}
			if a.Refused == nil || a.Refused.Code != c.code || a.Refused.Detail["fits"] != c.fits {
				t.Fatalf("got %v %v, want %s with fits %q", a.Refused, a.Refused.Detail, c.code, c.fits)
			}
			if (a.Instead != nil) != (c.fits != "") {
				t.Fatalf("instead: %v", a.Instead)
			}
			if a.Instead == nil {
				return
			}
			if b := check(t, p, c.m, a.Instead.Range.First, a.Instead.Range.Last); b.Refused != nil || !reflect.DeepEqual(b.Cost, a.Instead.Cost) {
				t.Errorf("what would fit is refused: %v", b.Refused)
			}
			if b := check(t, p, c.m, a.Instead.Range.First, a.Instead.Range.Last+1); b.Refused == nil {
				t.Errorf("one more layer than %s would fit too", a.Instead.Range)
			}
			t.Log(a.Text)
		})
	}
	a := planner.New(desktop(), nil).Check(m, planner.Assignment{Model: deep.ID, Range: protocol.Range{Last: 1}})
	if a.Refused == nil || a.Refused.Code != protocol.CodeModelUnknown {
		t.Errorf("another model's manifest: %v", a.Refused)
	}
}

func TestOldLayersAreGivenUpForNewOnes(t *testing.T) {
	t.Parallel()
	m, old := plain("Pine", 32, 1*gb), plain("Reed", 32, 1*gb)
	l := desktop()
	l.Disk = 1 * gb
	full := func(id protocol.ModelID, r, serving protocol.Range) planner.Held {
		h := planner.Held{Model: id, Parts: planner.Parts{Layers: make([]int64, 32)}, Serving: serving}
		for i := r.First; i < r.Last; i++ {
			h.Parts.Layers[i] = gb
		}
		return h
	}
	idle := full(old.ID, protocol.Range{First: 0, Last: 8}, protocol.Range{})
	if a := check(t, planner.New(l, []planner.Held{idle}), m, 8, 12); a.Refused != nil || a.Cost.GiveUpBytes != a.Cost.WireBytes-gb {
		t.Errorf("nothing serves the old layers: %v, gives up %d", a.Refused, a.Cost.GiveUpBytes)
	}
	busy := full(old.ID, protocol.Range{First: 0, Last: 8}, protocol.Range{First: 0, Last: 8})
	if a := check(t, planner.New(l, []planner.Held{busy}), m, 8, 12); a.Refused == nil || a.Refused.Code != protocol.CodeDiskFull {
		t.Errorf("layers that a stage runs were given up: %v", a.Refused)
	}
	foreign := full(old.ID, protocol.Range{First: 0, Last: 8}, protocol.Range{})
	foreign.InPlace = true
	if a := check(t, planner.New(l, []planner.Held{foreign}), m, 8, 12); a.Refused == nil {
		t.Error("a file of another program was given up")
	}
	// What is held of the wanted range itself frees nothing.
	self := full(m.ID, protocol.Range{First: 8, Last: 11}, protocol.Range{})
	if a := check(t, planner.New(l, []planner.Held{self}), m, 8, 13); a.Refused == nil || a.Refused.Code != protocol.CodeDiskFull {
		t.Errorf("layers of the range were given up for it: %v", a.Refused)
	}
}

func TestGPUsAreFilledFirst(t *testing.T) {
	t.Parallel()
	m := plain("Lime", 32, 500*mb)
	l := desktop()
	l.Memory = 8 * gb
	l.Devices = []planner.Device{{Name: "Vulkan0", Memory: 8 * gb, DecodeRate: 300 * gb}, {Name: "Vulkan1", Memory: 4 * gb, DecodeRate: 100 * gb}}
	a := check(t, planner.New(l, nil), m, 4, 28)
	if a.Refused != nil {
		t.Fatal(a.Refused)
	}
	d := a.Cost.Devices
	if len(d) != 2 || d[0].Range.First != 4 || d[1].Range.First != d[0].Range.Last || d[1].Range.Last >= 28 {
		t.Fatalf("devices: %+v", d)
	}
	for i, dev := range d {
		if used := dev.Weights + dev.KV + dev.Compute; used > l.Devices[i].Memory*4/5 {
			t.Errorf("%s: %d bytes of %d", dev.Name, used, l.Devices[i].Memory)
		}
	}
	if w := d[0].Weights + d[1].Weights + a.Cost.Anonymous - int64(28-d[1].Range.Last)*4096*4*4096; w < 24*500*mb {
		t.Errorf("weights are lost: %d", w)
	}
	// All on the GPU: main memory keeps what belongs to no layer.
	if a := check(t, planner.New(l, nil), m, 4, 8); a.Cost.Anonymous != 1024 || a.Cost.Step == 0 || a.Cost.Step > 10*time.Millisecond {
		t.Errorf("main memory takes %d bytes, a step %s", a.Cost.Anonymous, a.Cost.Step)
	}
}

func TestWithoutRepackingWeightsAreCache(t *testing.T) {
	t.Parallel()
	m := plain("Alder", 32, 150*mb)
	l := desktop()
	l.NoRepack = true
	c := check(t, planner.New(l, nil), m, 4, 12).Cost
	if c.Cache != c.Weights || c.Anonymous != c.KV+c.Compute {
		t.Errorf("cache %d, anonymous %d", c.Cache, c.Anonymous)
	}
}

func TestProposalsFillWhatLacks(t *testing.T) {
	t.Parallel()
	a, b, c := plain("Aspen", 32, 500*mb), plain("Beech", 32, 500*mb), plain("Cedar", 32, 500*mb)
	cover := slices.Repeat([]int{2}, 32)
	hole := slices.Clone(cover)
	for i := 10; i < 14; i++ {
		hole[i] = 0
	}
	thin := slices.Clone(cover)
	for i := 20; i < 32; i++ {
		thin[i] = 1
	}
	needs := []planner.Need{{a, cover, 9}, {b, hole, 1}, {c, thin, 5}}
	p := planner.New(desktop(), nil)
	got, err := p.Propose(needs)
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	if got[0].Model != b.ID || !got[0].Range.Contains(protocol.Range{First: 10, Last: 14}) || got[0].Fills != 4 || got[0].Level != 0 {
		t.Errorf("a model that is asked for and lacks layers is not first: %+v", got[0])
	}
	if q := got[slices.IndexFunc(got, func(q planner.Proposal) bool { return q.Model == c.ID })]; q.Range != (protocol.Range{First: 20, Last: 32}) || q.Fills != 12 || q.Level != 1 {
		t.Errorf("the weak end is not filled: %+v", q)
	}
	again, _ := p.Propose(needs)
	if !reflect.DeepEqual(got, again) {
		t.Error("the same input gave two answers")
	}
	for _, q := range got {
		if ans := p.Check(map[protocol.ModelID]*planner.Model{a.ID: a, b.ID: b, c.ID: c}[q.Model], planner.Assignment{Model: q.Model, Range: q.Range}); ans.Refused != nil {
			t.Errorf("proposal %s is refused: %s", q.Text, ans.Refused)
		}
	}
}

func TestLayersOnDiskComeFirst(t *testing.T) {
	t.Parallel()
	m := plain("Maple", 32, 500*mb)
	held := planner.Held{Model: m.ID, Parts: planner.Parts{Header: 8 * mb, All: 1024, Layers: make([]int64, 32)}}
	for i := 12; i < 30; i++ {
		held.Parts.Layers[i] = 500 * mb
	}
	got, err := planner.New(desktop(), []planner.Held{held}).Propose([]planner.Need{{Model: m, Demand: 1}})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	// There is room for more than these, but not for as many without them.
	if !got[0].Range.Contains(protocol.Range{First: 12, Last: 30}) {
		t.Errorf("%s, although layers 12 to 29 are here", got[0].Text)
	}
}

func TestWhatThisComputerCanHold(t *testing.T) {
	t.Parallel()
	small, large, huge := plain("Tiny", 16, 50*mb), plain("Large", 64, 500*mb), plain("Huge", 64, 50*gb)
	p := planner.New(desktop(), nil)
	got, err := p.Holdings([]*planner.Model{small, large, huge})
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if !got[0].Whole || len(got[0].Ranges) != 1 || got[0].Ranges[0].Range.Len() != 16 || !strings.HasPrefix(got[0].Text, "All 16 layers of Tiny: ") {
		t.Errorf("%+v", got[0])
	}
	if got[1].Whole || len(got[1].Ranges) != 3 || got[1].Ranges[0].Range.First != 0 || got[1].Ranges[2].Range.Last != 64 {
		t.Errorf("%+v", got[1])
	}
	for _, q := range got[1].Ranges {
		if a := check(t, p, large, q.Range.First, q.Range.Last); a.Refused != nil {
			t.Errorf("%s: %v", q.Range, a.Refused)
		}
	}
	if r := got[1].Ranges; r[1].Range.Len() <= r[0].Range.Len() || r[1].Range.Len() <= r[2].Range.Len() {
		t.Errorf("the middle one is not the longest: %s %s %s", r[0].Range, r[1].Range, r[2].Range)
	}
	if got[2].Refused == nil || got[2].Refused.Code != protocol.CodeDoesNotFit || got[2].Ranges != nil {
		t.Errorf("%+v", got[2])
	}
	for _, h := range got {
		t.Log(h.Text)
	}
}

// Against trying every range: nothing proposed is refused, no longer range
// with the same beginning fits, and a part of what fits does too.
func TestLongestRangeAgainstTryingAll(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := plain("Random", 3+rng.IntN(20), 0)
		for i := range m.Parts.Layers {
			m.Parts.Layers[i] = rng.Int64N(2 * gb)
			m.KV[i] = rng.Int64N(64 << 10)
		}
		m.Parts.Ends = rng.Int64N(2 * gb)
		if rng.IntN(2) == 0 {
			m.Ends = make([][]manifest.Span, m.Layers)
			for a := range m.Ends {
				if e := a + 1 + rng.IntN(m.Layers-a); rng.IntN(4) > 0 {
					m.Ends[a] = []manifest.Span{{From: e, To: min(m.Layers, e+rng.IntN(4))}}
				}
			}
		}
		l := planner.Limits{Disk: rng.Int64N(20 * gb), Memory: rng.Int64N(20 * gb), Down: 1, NoRepack: rng.IntN(2) == 0}
		if rng.IntN(2) == 0 {
			l.Devices = []planner.Device{{Name: "a", Memory: rng.Int64N(10 * gb)}, {Name: "b", Memory: rng.Int64N(10 * gb)}}
		}
		p := planner.New(l, nil)
		longest := 0
		for first := range m.Layers {
			for last := first + 1; last <= m.Layers; last++ {
				if check(t, p, m, first, last).Refused == nil {
					longest = max(longest, last-first)
				}
			}
		}
		hold, err := p.Holdings([]*planner.Model{m})
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, q := range hold[0].Ranges {
			got = max(got, q.Range.Len())
			if a := check(t, p, m, q.Range.First, q.Range.Last); a.Refused != nil {
				t.Errorf("seed %d: %s is said to fit: %v", seed, q.Range, a.Refused)
			}
		}
		if got != longest {
			t.Errorf("seed %d: the longest range has %d layers, %d would fit", seed, got, longest)
		}
	}
}

func TestFiguresOfAManifest(t *testing.T) {
	t.Parallel()
	m := &manifest.Manifest{
		Model: protocol.ModelID(strings.Repeat("ab", 32)), Name: "M", Layers: 2, Context: 2048, Width: 8,
		Files: []manifest.File{{Header: 77}}, Torrent: manifest.Torrent{PieceLength: 5},
		Tensors: []manifest.Tensor{
			{Name: "token_embd.weight", Dims: []uint64{8, 100}, Bytes: 1, Use: manifest.UseEnds, Layer: -1},
			{Name: "blk.0.x", Bytes: 2, Use: manifest.UseLayer, Layer: 0},
			{Name: "blk.1.x", Bytes: 4, Use: manifest.UseLayer, Layer: 1},
			{Name: "blk.1.y", Bytes: 8, Use: manifest.UseLayer, Layer: 1},
			{Name: "output_norm.weight", Bytes: 16, Use: manifest.UseTail, Layer: -1},
			{Name: "rope_freqs.weight", Bytes: 32, Use: manifest.UseAll, Layer: -1},
			{Name: "head.weight", Bytes: 64, Use: manifest.UseHead, Layer: -1},
			{Name: "blk.2.nextn.weight", Bytes: 128, Use: manifest.UseUnused, Layer: -1},
		},
	}
	got, err := planner.ModelOf(m)
	if err != nil {
		t.Fatal(err)
	}
	want := planner.Parts{Header: 77, All: 32, Ends: 1, Head: 64, Tail: 16, Layers: []int64{2, 12}}
	if !reflect.DeepEqual(got.Parts, want) || got.Vocab != 100 || got.PieceLength != 5 {
		t.Errorf("%+v", got)
	}
	p := planner.New(desktop(), nil)
	for r, bytes := range map[protocol.Range]int64{{First: 0, Last: 1}: 77 + 32 + 1 + 64 + 2, {First: 1, Last: 2}: 77 + 32 + 1 + 16 + 12, {First: 0, Last: 2}: 77 + 32 + 1 + 64 + 16 + 14} {
		a := p.Check(got, planner.Assignment{Model: got.ID, Range: r})
		if a.Refused != nil || a.Cost.FetchBytes != bytes || a.Cost.Weights != bytes-77 {
			t.Errorf("%s: %v, %d bytes to fetch, %d of weights, want %d", r, a.Refused, a.Cost.FetchBytes, a.Cost.Weights, bytes)
		}
		// A model of 2,048 tokens has no conversation of 4K.
		if a.Cost.Context != 2048 || a.Cost.Fit4K != 0 || a.Cost.Fit32K != 0 {
			t.Errorf("context %d, %d and %d fit", a.Cost.Context, a.Cost.Fit4K, a.Cost.Fit32K)
		}
	}
	m.Tensors[1].Layer = 2
	if _, err := planner.ModelOf(m); err == nil {
		t.Error("a tensor of a layer that does not exist")
	}
	m.Tensors[1].Layer, m.Tensors[1].Bytes = 0, -1
	if _, err := planner.ModelOf(m); err == nil {
		t.Error("a negative size")
	}
}
