package places

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/publish"
)

var guide = sync.OnceValues(func() (*publish.Result, error) {
	return publish.Build(context.Background(), []string{"../../../assets/model/guide-q8_0.gguf"}, publish.Options{Name: "guide"})
})

var t0 = time.Unix(1_700_000_000, 0)

// world is a tracker that knows one model.
func world(t *testing.T) (*Places, *manifest.Manifest) {
	t.Helper()
	r, err := guide()
	if err != nil {
		t.Fatal(err)
	}
	p := New()
	if failed := p.SetModels([]*manifest.Manifest{r.Manifest}); len(failed) > 0 {
		t.Fatal(failed)
	}
	return p, r.Manifest
}

func ask(t *testing.T, p *Places, at time.Time, id protocol.NodeID) protocol.Range {
	t.Helper()
	d, err := p.Place(at, id, protocol.Build{}, &protocol.PlaceRequest{Offer: protocol.Offer{Disk: 1 << 40, Memory: 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	return d.Range
}

// TestToldCountsUntilReported: what a node was told counts as on its way, until
// a report confirms it or its time is over.
func TestToldCountsUntilReported(t *testing.T) {
	t.Parallel()
	p, m := world(t)
	whole := protocol.Range{First: 0, Last: m.Layers}
	if got := ask(t, p, t0, "a"); got != whole {
		t.Fatalf("a node with room for everything is told %s", got)
	}
	held := func() int { return len(p.m.Held("a")) }
	p.Report(t0.Add(time.Second), "a", protocol.Build{}, &protocol.Report{})
	if held() != 1 {
		t.Error("an empty report takes back what the node was just told")
	}
	p.Report(t0.Add(toldFor+time.Second), "a", protocol.Build{}, &protocol.Report{})
	if held() != 0 {
		t.Error("an assignment that nobody confirms counts for ever")
	}
	ask(t, p, t0, "a")
	ready := protocol.ShardReport{State: protocol.ShardReady, Capability: protocol.Capability{Model: m.Model, Loaded: whole}}
	p.Report(t0.Add(time.Second), "a", protocol.Build{}, &protocol.Report{Shards: []protocol.ShardReport{ready}})
	if list := p.m.Held("a"); len(list) != 1 || list[0].State != protocol.ShardReady || !list[0].Since.Equal(t0) {
		t.Errorf("after the report: %+v", list)
	}
	p.Drop("a")
	if held() != 0 {
		t.Error("a dropped node holds layers")
	}
}

// TestAskedAgain: a node that asks again has not taken what it was told.
func TestAskedAgain(t *testing.T) {
	t.Parallel()
	p, _ := world(t)
	for range 3 {
		ask(t, p, t0, "a")
		if n := len(p.m.Held("a")); n != 1 {
			t.Fatalf("%d shards are counted for one assignment", n)
		}
	}
}

func TestDemandHalves(t *testing.T) {
	t.Parallel()
	p, m := world(t)
	p.Asked(t0, m.Model)
	p.Asked(t0, m.Model)
	p.Asked(t0, "unknown")
	if got := p.demand[m.Model].now(t0.Add(demandHalf)); got != 1 {
		t.Errorf("two requests count %g after one half-life", got)
	}
	if len(p.demand) != 1 {
		t.Error("requests for models that are not published are counted")
	}
	if p.SetModels(nil); len(p.demand) != 0 {
		t.Error("the demand of a withdrawn model is kept")
	}
	if _, err := p.Place(t0, "a", protocol.Build{}, &protocol.PlaceRequest{}); !errors.As(err, new(*protocol.Error)) {
		t.Errorf("with no model: %v", err)
	}
}
