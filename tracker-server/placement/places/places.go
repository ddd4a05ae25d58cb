// Package places keeps what placement knows between requests: which node holds
// what, what it was told and has not reported yet, and which models are asked
// for. Package placement decides. It is pure: the caller gives the time and
// holds the lock. Only the tracker's server imports it.
package places

import (
	"math"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/tracker-server/placement"
)

// Places is what the placement of layers knows: the map, and beside it what
// nodes were told and have not reported yet. It has no lock: its owner guards it.
type Places struct {
	m      *placement.Map
	known  map[protocol.ModelID]bool // models of the catalog
	told   map[protocol.NodeID]told
	demand map[protocol.ModelID]demand
	memory map[protocol.NodeID]int64 // of the newest offer
	speed  map[protocol.NodeID]int64
}

// told is an assignment on its way.
type told struct {
	shard placement.Shard
	at    time.Time
}

// toldFor is how long an assignment counts that no report confirms.
const toldFor = time.Minute

// demand is a count of requests that halves every demandHalf.
type demand struct {
	count float64
	at    time.Time
}

const demandHalf = time.Hour

// New returns one that knows nothing.
func New() *Places {
	return &Places{
		m: placement.New(placement.Config{}), told: map[protocol.NodeID]told{}, demand: map[protocol.ModelID]demand{},
		memory: map[protocol.NodeID]int64{}, speed: map[protocol.NodeID]int64{},
	}
}

// placementModel takes a manifest's figures.
func placementModel(m *manifest.Manifest) placement.Model {
	out := placement.Model{
		ID: m.Model, Name: m.Name, Layers: m.Layers, LayerBytes: m.LayerBytes(), KVLayerBytes: m.KVLayerBytes,
		HeaderBytes: m.Files[0].Header, AllBytes: m.UseBytes(manifest.UseAll), HeadBytes: m.UseBytes(manifest.UseHead),
		TailBytes: m.UseBytes(manifest.UseTail), EndsBytes: m.UseBytes(manifest.UseEnds), WholeOnly: m.WholeOnly != "",
	}
	// Buffers of a call, as engine/planner estimates them: 14 copies of a row in
	// F32, 256 rows, two pools of sessions. A node knows better and refuses.
	out.ComputeBytes = int64(m.Width) * 4 * 14 * 256 * 2
	if len(out.KVLayerBytes) == 0 {
		out.KVLayerBytes = make([]int64, m.Layers)
	}
	for _, spans := range m.Ends {
		var to []placement.Span
		for _, s := range spans {
			to = append(to, placement.Span{From: s.From, To: s.To})
		}
		out.Ends = append(out.Ends, to)
	}
	return out
}

// SetModels replaces the catalog; what cannot be placed is returned.
func (p *Places) SetModels(list []*manifest.Manifest) (failed map[protocol.ModelID]error) {
	keep := map[protocol.ModelID]bool{}
	for _, m := range list {
		keep[m.Model] = true
		if err := p.m.SetModel(placementModel(m)); err != nil {
			if failed == nil {
				failed = map[protocol.ModelID]error{}
			}
			failed[m.Model] = err
		}
	}
	for id := range p.known {
		if !keep[id] {
			p.m.DropModel(id)
			delete(p.demand, id)
		}
	}
	p.known = keep
	return failed
}

// Asked counts a request for a model, whether there was a route or not.
func (p *Places) Asked(now time.Time, id protocol.ModelID) {
	if p.known[id] {
		p.demand[id] = demand{p.demand[id].now(now) + 1, now}
	}
}

func (d demand) now(t time.Time) float64 {
	if d.count == 0 {
		return 0
	}
	return d.count * math.Exp2(-t.Sub(d.at).Hours()/demandHalf.Hours())
}

// Report takes what a node says it holds.
func (p *Places) Report(now time.Time, id protocol.NodeID, build protocol.Build, r *protocol.Report) {
	n := placement.Node{ID: id, Build: build, Memory: p.memory[id], Speed: p.speed[id]}
	since := map[placement.Shard]time.Time{}
	for _, s := range p.m.Held(id) {
		since[placement.Shard{Model: s.Model, Range: s.Range}] = s.Since
	}
	for i := range r.Shards {
		s := &r.Shards[i]
		key := placement.Shard{Model: s.Capability.Model, Range: s.Capability.Loaded}
		began, ok := since[key]
		if !ok {
			began = now
		}
		if s.StepMicros > 0 && s.Capability.WeightBytes > 0 {
			n.Speed = int64(float64(s.Capability.WeightBytes) / float64(s.StepMicros) * 1e6)
		}
		n.Shards = append(n.Shards, placement.Shard{Model: key.Model, Range: key.Range, State: s.State, Since: began})
	}
	switch t, ok := p.told[id]; {
	case !ok:
	case len(n.Shards) > 0 || now.Sub(t.at) > toldFor:
		delete(p.told, id)
	default:
		n.Shards = append(n.Shards, t.shard)
	}
	p.speed[id] = n.Speed
	p.m.Put(n)
}

// Drop forgets a node.
func (p *Places) Drop(id protocol.NodeID) {
	p.m.Drop(id)
	delete(p.told, id)
	delete(p.memory, id)
	delete(p.speed, id)
}

// Place answers what a node should hold and counts it as on its way.
func (p *Places) Place(now time.Time, id protocol.NodeID, build protocol.Build, q *protocol.PlaceRequest) (*placement.Decision, error) {
	for m := range p.known {
		p.m.SetDemand(m, p.demand[m].now(now))
	}
	// What was told before and is asked about again was not accepted.
	held := p.m.Held(id)
	if _, ok := p.told[id]; ok {
		delete(p.told, id)
		held = nil
		p.m.Put(placement.Node{ID: id, Build: build, Memory: p.memory[id], Speed: p.speed[id]})
	}
	if q.Offer.Speed == 0 {
		q.Offer.Speed = p.speed[id]
	}
	d, err := p.m.Decide(placement.Join{Node: id, Build: build, Request: *q, Now: now})
	if err != nil {
		return nil, err
	}
	p.memory[id], p.speed[id] = q.Offer.Memory, q.Offer.Speed
	s := placement.Shard{Model: d.Model, Range: d.Range, State: protocol.ShardDownloading, Since: now}
	p.told[id] = told{s, now}
	p.m.Put(placement.Node{ID: id, Build: build, Memory: q.Offer.Memory, Speed: q.Offer.Speed, Shards: append(held, s)})
	return d, nil
}
