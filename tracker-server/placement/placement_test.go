package placement_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/placement"
)

const (
	mb = 1_000_000
	gb = 1_000 * mb
)

var (
	build = protocol.Build{Protocol: 1, Llama: "v0.4.0"}
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

func modelID(i int) protocol.ModelID { return protocol.ModelID(fmt.Sprintf("%064x", i)) }

func nodeID(i int) protocol.NodeID { return protocol.NodeID(fmt.Sprintf("n%05d", i)) }

// plain is a model of equal layers, without KV memory.
func plain(i, layers int, layer int64) placement.Model {
	return placement.Model{
		ID: modelID(i), Name: fmt.Sprintf("M%d", i), Layers: layers,
		LayerBytes: slices.Repeat([]int64{layer}, layers), KVLayerBytes: make([]int64, layers),
	}
}

func set(t testing.TB, m *placement.Map, model placement.Model, demand float64) {
	t.Helper()
	if err := m.SetModel(model); err != nil {
		t.Fatal(err)
	}
	m.SetDemand(model.ID, demand)
}

// holds makes a ready node with one range.
func holds(i int, model protocol.ModelID, first, last int) placement.Node {
	return placement.Node{ID: nodeID(i), Build: build, Speed: 20 * gb, Memory: 16 * gb, Shards: []placement.Shard{
		{Model: model, Range: protocol.Range{First: first, Last: last}, State: protocol.ShardReady, Since: start},
	}}
}

// join is a node that can hold so many bytes.
func join(i int, memory int64) placement.Join {
	return placement.Join{Node: nodeID(i), Build: build, Now: start.Add(24 * time.Hour), Request: protocol.PlaceRequest{
		Offer: protocol.Offer{Disk: 1000 * gb, Memory: memory, DownRate: 100 * mb, Speed: 200 * gb},
	}}
}

func decide(t testing.TB, m *placement.Map, j placement.Join) *placement.Decision {
	t.Helper()
	if err := placement.CheckRequest(&j.Request); err != nil {
		t.Fatal(err)
	}
	d, err := m.Decide(j)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// take lets a node hold what was decided.
func take(m *placement.Map, j placement.Join, d *placement.Decision) {
	m.Put(placement.Node{ID: j.Node, Build: j.Build, Speed: j.Request.Offer.Speed, Memory: j.Request.Offer.Memory, Shards: []placement.Shard{
		{Model: d.Model, Range: d.Range, State: protocol.ShardReady, Since: j.Now},
	}})
}

func view(t testing.TB, m *placement.Map, id protocol.ModelID) *placement.View {
	t.Helper()
	v, err := m.View(id)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestNodesOfOneSizeMakeRoutes(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 32, 500*mb), 1)
	for i := range 12 { // each holds 8 layers
		j := join(i, 4*gb)
		d := decide(t, m, j)
		if d.Range.Len() != 8 || d.Range.First%8 != 0 {
			t.Errorf("node %d gets %s", i, d.Range)
		}
		t.Log(d.Reason, d.Text)
		take(m, j, d)
		if v := view(t, m, modelID(1)); v.Routes != (i+1)/4 || v.PlannedRoutes != v.Routes {
			t.Errorf("%d nodes make %d routes", i+1, v.Routes)
		}
		if wantAfter := (i + 1) / 4; d.RoutesAfter != wantAfter || d.RoutesBefore != i/4 {
			t.Errorf("node %d: %d to %d routes", i, d.RoutesBefore, d.RoutesAfter)
		}
	}
	if v := view(t, m, modelID(1)); v.Boundaries != 3 || len(v.Missing) != 0 || v.TokensPerSecond < 149 || v.TokensPerSecond > 151 {
		t.Errorf("%+v", v)
	}
}

func TestMissingLayersComeFirst(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 32, 500*mb), 100)
	set(t, m, plain(2, 32, 500*mb), 1)
	for i := range 4 {
		m.Put(holds(i, modelID(1), 0, 32))
	}
	m.Put(holds(10, modelID(2), 0, 10))
	m.Put(holds(11, modelID(2), 14, 32))
	lacks := m.Lacks()
	if len(lacks) != 1 || lacks[0].Model != modelID(2) || !slices.Equal(lacks[0].Missing, []protocol.Range{{First: 10, Last: 14}}) || lacks[0].Bytes != 4*500*mb || lacks[0].Coming != nil {
		t.Fatalf("%+v", lacks)
	}
	d := decide(t, m, join(20, 4*gb))
	if d.Model != modelID(2) || !d.Range.Contains(protocol.Range{First: 10, Last: 14}) || d.Reason != placement.ReasonMissing || d.RoutesAfter != 1 {
		t.Fatalf("%+v", d)
	}
	// While it is being fetched, the next node goes elsewhere.
	n := holds(20, d.Model, d.Range.First, d.Range.Last)
	n.Shards[0].State = protocol.ShardDownloading
	m.Put(n)
	if l := m.Lacks(); len(l) != 1 || !slices.Equal(l[0].Coming, l[0].Missing) {
		t.Errorf("%+v", l)
	}
	if d := decide(t, m, join(21, 4*gb)); d.Reason == placement.ReasonMissing {
		t.Errorf("two nodes fetch the same missing layers: %s", d.Text)
	}
	// A failed or draining shard covers nothing.
	n.Shards[0].State = protocol.ShardFailed
	m.Put(n)
	if d := decide(t, m, join(21, 4*gb)); d.Reason != placement.ReasonMissing {
		t.Errorf("a failed shard counts: %s", d.Text)
	}
}

func TestUncoverableModelDoesNotStarveOthers(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 80, 100*gb), 1) // 8 TB
	set(t, m, plain(2, 8, 500*mb), 1)
	d := decide(t, m, join(1, 200*gb))
	if d.Model != modelID(2) {
		t.Errorf("one computer begins a model of 8 TB: %s", d.Text)
	}
}

func TestRoutesSpreadAsDemandDoes(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 32, 500*mb), 6)
	set(t, m, plain(2, 32, 500*mb), 3)
	set(t, m, plain(3, 32, 500*mb), 0)
	for i := range 4 * 27 {
		j := join(i, 4*gb)
		take(m, j, decide(t, m, j))
	}
	a, b, c := view(t, m, modelID(1)), view(t, m, modelID(2)), view(t, m, modelID(3))
	if a.Routes+b.Routes+c.Routes != 27 || a.Routes < 17 || a.Routes > 19 || c.Routes != 0 {
		t.Errorf("%d, %d and %d routes for a demand of 6, 3 and 0", a.Routes, b.Routes, c.Routes)
	}
}

func TestSlowNodesDoNotCountAsFastOnes(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 32, 500*mb), 1)
	set(t, m, plain(2, 32, 500*mb), 1)
	for i := range 4 {
		for k, speed := range []int64{40 * gb, 3 * gb} {
			n := holds(10*k+i, modelID(k+1), 8*i, 8*i+8)
			n.Speed = speed
			m.Put(n)
		}
	}
	if d := decide(t, m, join(50, 4*gb)); d.Model != modelID(2) {
		t.Errorf("both have one route, one of slow nodes; the next node goes to the fast one: %s", d.Text)
	}
	// Inside a model, too.
	m = placement.New(placement.Config{})
	set(t, m, plain(1, 16, 500*mb), 1)
	fast, slow := holds(1, modelID(1), 0, 8), holds(2, modelID(1), 8, 16)
	slow.Speed = 3 * gb
	m.Put(fast)
	m.Put(slow)
	if d := decide(t, m, join(50, 4*gb)); d.Range != (protocol.Range{First: 8, Last: 16}) {
		t.Errorf("the slow half gets no help: %s", d.Text)
	}
}

func TestSlowNodeGetsFewerLayers(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 32, 500*mb), 1)
	j := join(1, 16*gb)
	j.Request.Offer.Speed = 4 * gb // half a second for four layers
	if d := decide(t, m, j); d.Range.Len() != 4 {
		t.Errorf("%s", d.Range)
	}
	j.Request.Offer.Speed = 1 // slower than any layer: still one
	if d := decide(t, m, j); d.Range.Len() != 1 {
		t.Errorf("%s", d.Range)
	}
}

func TestLayersOnDiskAreTakenAgain(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 32, 500*mb), 1)
	set(t, m, plain(2, 32, 500*mb), 1)
	j := join(1, 4*gb)
	j.Request.Offer.DownRate = 2 * mb
	j.Request.Held = []protocol.HeldLayers{{Model: modelID(2), Ranges: []protocol.Range{{First: 11, Last: 19}}}, {Model: modelID(9), Ranges: []protocol.Range{{First: 0, Last: 8}}}}
	d := decide(t, m, j)
	if d.Model != modelID(2) || d.Range != (protocol.Range{First: 11, Last: 19}) || d.FetchBytes != 0 {
		t.Errorf("%s, %d bytes to fetch", d.Text, d.FetchBytes)
	}
}

func TestRefusalsAreLearntFrom(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 32, 500*mb), 1)
	j := join(1, 8*gb)
	d := decide(t, m, j)
	if d.Range.Len() != 16 {
		t.Fatal(d.Range)
	}
	no := protocol.Errorf(protocol.CodeDoesNotFit, "too large")
	j.Request.Refused = []protocol.PlaceRefusal{{Model: d.Model, Range: d.Range, Error: no.With("fits", "0-5")}}
	if d := decide(t, m, j); d.Range.Len() != 5 {
		t.Errorf("0-5 would fit, asked is %s", d.Range)
	}
	j.Request.Refused[0].Error = no.With("fits", "no range")
	if d := decide(t, m, j); d.Range.Len() >= 16 {
		t.Errorf("asked again for %s", d.Range)
	}
	for code, want := range map[protocol.Code]int{protocol.CodeDiskFull: 5, protocol.CodeKVBudget: 5} {
		j.Request.Refused[0].Error = protocol.Errorf(code, "x").With("fits", "3-8")
		if d := decide(t, m, j); d.Range.Len() != want {
			t.Errorf("%s: %s", code, d.Range)
		}
	}
}

func TestOwnersChoice(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 32, 500*mb), 1)
	whole := plain(2, 8, 500*mb)
	whole.WholeOnly = true
	set(t, m, whole, 0)
	cut := plain(3, 8, 500*mb)
	cut.Ends = make([][]placement.Span, 8)
	cut.Ends[0], cut.Ends[4] = []placement.Span{{From: 4, To: 4}}, []placement.Span{{From: 8, To: 8}}
	set(t, m, cut, 0)
	for _, c := range []struct {
		model string
		r     *protocol.Range
		want  protocol.Range
		code  protocol.Code
	}{
		{"M1", &protocol.Range{First: 3, Last: 9}, protocol.Range{First: 3, Last: 9}, ""},
		{string(modelID(2)), nil, protocol.Range{First: 0, Last: 8}, ""},
		{"M2", &protocol.Range{First: 0, Last: 4}, protocol.Range{}, protocol.CodeModelUncut},
		{"M3", nil, protocol.Range{First: 0, Last: 8}, ""},
		{"M3", &protocol.Range{First: 4, Last: 8}, protocol.Range{First: 4, Last: 8}, ""},
		{"M3", &protocol.Range{First: 0, Last: 5}, protocol.Range{}, protocol.CodeRangeInvalid},
		{"M1", &protocol.Range{First: 0, Last: 32}, protocol.Range{}, protocol.CodeDoesNotFit},
		{"M1", &protocol.Range{First: 30, Last: 33}, protocol.Range{}, protocol.CodeRangeInvalid},
		{"nobody", nil, protocol.Range{}, protocol.CodeModelUnknown},
	} {
		j := join(1, 5*gb)
		j.Request.Model, j.Request.Range = c.model, c.r
		d, err := m.Decide(j)
		if c.code != "" {
			if err == nil || protocol.AsError(err).Code != c.code {
				t.Errorf("%s %v: %v, want %s", c.model, c.r, err, c.code)
			}
			continue
		}
		if err != nil || d.Range != c.want || c.r != nil && d.Reason != placement.ReasonAsked {
			t.Errorf("%s %v: %+v, %v", c.model, c.r, d, err)
		}
	}
	// Small limits: a refusal says which.
	j := join(1, 100)
	if _, err := m.Decide(j); err == nil || protocol.AsError(err).Code != protocol.CodeDoesNotFit {
		t.Errorf("100 bytes of memory: %v", err)
	}
	j = join(1, 16*gb)
	j.Request.Offer.Disk = 100
	if _, err := m.Decide(j); err == nil || protocol.AsError(err).Code != protocol.CodeDiskFull {
		t.Errorf("100 bytes of disk: %v", err)
	}
	if _, err := placement.New(placement.Config{}).Decide(join(1, 1)); err == nil || protocol.AsError(err).Code != protocol.CodeModelUnknown {
		t.Errorf("an empty catalog: %v", err)
	}
}

func TestASurvivorKeepsItsRange(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 32, 500*mb), 5)
	for i := range 8 {
		j := join(i, 4*gb)
		take(m, j, decide(t, m, j))
	}
	was := m.Held(nodeID(3))[0]
	ask := func(now time.Time) *placement.Decision {
		j := join(3, 4*gb)
		j.Now = now
		return decide(t, m, j)
	}
	later := start.Add(48 * time.Hour)
	// A neighbour goes: its hole is for the next one that joins.
	m.Drop(nodeID(2))
	if d := ask(later); d.Reason != placement.ReasonKeep || d.Range != was.Range || d.FetchBytes != 0 {
		t.Errorf("it moves: %s", d.Text)
	}
	// Another model, worth a little more, but not four times.
	set(t, m, plain(2, 8, 500*mb), 0.5)
	m.Put(holds(50, modelID(2), 0, 8))
	if d := ask(later); d.Reason != placement.ReasonKeep {
		t.Errorf("it moves: %s", d.Text)
	}
	// A model that lacks layers, but routes need this node.
	m.Drop(nodeID(50))
	for i := range 8 {
		if s := m.Held(nodeID(i)); i != 3 && len(s) > 0 && s[0].Range == was.Range {
			m.Drop(nodeID(i))
		}
	}
	if d := ask(later); d.Reason != placement.ReasonKeep {
		t.Errorf("the last node with these layers moves: %s", d.Text)
	}
	// Not needed any more: after a while, yes.
	m.Put(holds(60, modelID(1), was.Range.First, was.Range.Last))
	m.Put(holds(61, modelID(1), was.Range.First, was.Range.Last))
	if d := ask(was.Since.Add(time.Minute)); d.Reason != placement.ReasonKeep {
		t.Errorf("it moves at once: %s", d.Text)
	}
	if d := ask(later); d.Reason != placement.ReasonMissing || d.Model != modelID(2) {
		t.Errorf("a model that is asked for stays without layers: %s", d.Text)
	}
	// The request itself moved nobody.
	if got := m.Held(nodeID(3))[0]; got != was {
		t.Errorf("%+v became %+v", was, got)
	}
}

func TestBuildsDoNotMix(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 16, 500*mb), 1)
	m.Put(holds(1, modelID(1), 0, 8))
	old := holds(2, modelID(1), 8, 16)
	old.Build.Llama = "v0.3.0"
	m.Put(old)
	v := view(t, m, modelID(1))
	if v.Routes != 0 || len(v.Missing) != 0 || len(m.Lacks()) != 1 {
		t.Errorf("%d routes across builds, lacks %v", v.Routes, m.Lacks())
	}
	if d := decide(t, m, join(3, 4*gb)); d.Range != (protocol.Range{First: 8, Last: 16}) || d.RoutesAfter != 1 {
		t.Errorf("%+v", d)
	}
	routes, err := m.Routes(modelID(1))
	if err != nil || len(routes) != 0 {
		t.Errorf("%v %v", routes, err)
	}
}

func TestSeveralShardsOfOneModelAreOneNode(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 16, 500*mb), 1)
	n := holds(1, modelID(1), 0, 6)
	n.Shards = append(n.Shards, placement.Shard{Model: modelID(1), Range: protocol.Range{First: 6, Last: 16}, State: protocol.ShardReady})
	m.Put(n)
	if v := view(t, m, modelID(1)); v.Routes != 0 || !slices.Equal(v.Missing, []protocol.Range{{First: 0, Last: 6}}) {
		t.Errorf("a route would visit one node twice: %+v", v)
	}
	m.Drop(n.ID)
	if v := view(t, m, modelID(1)); slices.Max(v.Ready) != 0 {
		t.Errorf("%+v", v)
	}
}

func TestStrangeFigures(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	for name, bad := range map[string]func(*placement.Model){
		"no layers":     func(m *placement.Model) { m.Layers = 0 },
		"many layers":   func(m *placement.Model) { m.Layers = 513 },
		"sizes":         func(m *placement.Model) { m.LayerBytes = m.LayerBytes[1:] },
		"KV sizes":      func(m *placement.Model) { m.KVLayerBytes = nil },
		"negative":      func(m *placement.Model) { m.HeadBytes = -1 },
		"sum":           func(m *placement.Model) { m.LayerBytes[0], m.LayerBytes[1] = 1<<45, 1<<45+1 },
		"negative KV":   func(m *placement.Model) { m.KVLayerBytes[3] = -1 },
		"ends":          func(m *placement.Model) { m.Ends = make([][]placement.Span, 3) },
		"compute bytes": func(m *placement.Model) { m.ComputeBytes = 1 << 60 },
	} {
		model := plain(1, 8, mb)
		bad(&model)
		if err := m.SetModel(model); err == nil || protocol.AsError(err).Code != protocol.CodeModelInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	set(t, m, plain(1, 8, mb), 1)
	// What does not exist is ignored, also when it is taken away again.
	m.Put(holds(1, modelID(1), 4, 12))
	m.Put(holds(2, modelID(7), 0, 8))
	m.Put(placement.Node{ID: nodeID(3)})
	for i := range 4 {
		m.Drop(nodeID(i))
	}
	if v := view(t, m, modelID(1)); slices.Max(v.Planned) != 0 || v.Boundaries != 0 {
		t.Errorf("%+v", v)
	}
	for name, r := range map[string]protocol.PlaceRequest{
		"disk":            {Offer: protocol.Offer{Disk: -1}},
		"speed":           {Offer: protocol.Offer{Speed: 1 << 62}},
		"a range alone":   {Range: &protocol.Range{First: 0, Last: 1}},
		"a strange range": {Model: "x", Range: &protocol.Range{First: 3, Last: 1}},
		"held":            {Held: []protocol.HeldLayers{{Ranges: []protocol.Range{{First: -1, Last: 4}}}}},
		"held models":     {Held: make([]protocol.HeldLayers, 257)},
		"refusals":        {Refused: []protocol.PlaceRefusal{{}}},
	} {
		if placement.CheckRequest(&r) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzPlaceRequest: whatever passes the check gets an answer or a code.
func FuzzPlaceRequest(f *testing.F) {
	f.Add([]byte(`{"offer":{"disk":100000000000,"memory":4000000000,"down_rate":1000000,"speed":20000000000}}`))
	f.Add([]byte(`{"offer":{"disk":1,"memory":1},"model":"M1","range":{"first":0,"last":8},"held":[{"model":"` + string(modelID(1)) + `","ranges":[{"first":0,"last":500}]}]}`))
	f.Add([]byte(`{"offer":{"disk":100000000000,"memory":4000000000},"refused":[{"model":"` + string(modelID(1)) + `","range":{"first":0,"last":8},"error":{"code":"disk_full","message":"x","detail":{"fits":"0-7"}}}]}`))
	m := placement.New(placement.Config{})
	set(f, m, plain(1, 8, 500*mb), 1)
	set(f, m, plain(2, 32, 500*mb), 0)
	m.Put(holds(1, modelID(1), 0, 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r protocol.PlaceRequest
		if json.Unmarshal(b, &r) != nil || placement.CheckRequest(&r) != nil {
			return
		}
		j := placement.Join{Node: nodeID(1), Build: build, Request: r, Now: start}
		d, err := m.Decide(j)
		if err != nil {
			if protocol.AsError(err).Code == protocol.CodeInternal {
				t.Fatal(err)
			}
			return
		}
		if !strings.Contains(d.Text, d.Name) || d.Range.Len() < 1 {
			t.Fatalf("%+v", d)
		}
	})
}

// A decision reads: coverage, routes and nodes are the same after it, also
// when the node that asks holds something.
func TestDecisionsChangeNothing(t *testing.T) {
	t.Parallel()
	m := placement.New(placement.Config{})
	set(t, m, plain(1, 32, 500*mb), 3)
	set(t, m, plain(2, 16, 500*mb), 2)
	for i := range 20 {
		j := join(i, 4*gb)
		take(m, j, decide(t, m, j))
	}
	state := func() []any {
		r, _ := m.Routes(modelID(1))
		q, _ := m.Routes(modelID(2))
		return []any{view(t, m, modelID(1)), view(t, m, modelID(2)), r, q, m.Nodes(), m.Lacks()}
	}
	before := state()
	for i := range 40 {
		for range 2 {
			decide(t, m, join(i, 8*gb))
		}
	}
	if after := state(); !reflect.DeepEqual(before, after) {
		t.Errorf("%v became %v", before, after)
	}
}

// One history of joins and losses, twice: the same decisions, and no decision
// or loss changes another node's range.
func TestSameHistorySameDecisions(t *testing.T) {
	t.Parallel()
	play := func(seed uint64) (out []string) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := placement.New(placement.Config{})
		for i := range 6 {
			set(t, m, plain(i, 8+rng.IntN(40), int64(100+rng.IntN(500))*mb), rng.Float64()*10)
		}
		held := make(map[protocol.NodeID][]placement.Shard)
		for range 300 {
			i := rng.IntN(60)
			id := nodeID(i)
			if held[id] != nil && rng.IntN(3) == 0 {
				m.Drop(id)
				delete(held, id)
			} else {
				j := join(i, int64(1+rng.IntN(16))*gb)
				j.Request.Offer.Speed = rng.Int64N(60 * gb)
				d, err := m.Decide(j)
				if err != nil {
					out = append(out, err.Error())
					continue
				}
				out = append(out, d.Text)
				take(m, j, d)
				held[id] = m.Held(id)
			}
			if got := m.Nodes(); len(got) != len(held) {
				t.Fatalf("%d nodes, %d are there", len(held), len(got))
			}
			for id, s := range held {
				if !reflect.DeepEqual(m.Held(id), s) {
					t.Fatalf("a survivor moved from %v to %v", s, m.Held(id))
				}
			}
		}
		return out
	}
	for seed := range uint64(5) {
		if a, b := play(seed), play(seed); !slices.Equal(a, b) {
			t.Fatalf("seed %d: two answers to one history", seed)
		}
	}
}
