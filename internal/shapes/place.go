package shapes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/planner"
	"neuron/engine/protocol"
	"neuron/internal/publish"
	"neuron/tracker-server/placement/places"
)

// NodeSizes are the computers that routes are made of, in GB of memory.
var NodeSizes = []int{8, 16, 24, 64}

// A computer keeps systemMemory for its system and its owner's programs; of the
// rest the planner leaves a fifth free. Its disk has room.
const (
	gigabyte     = 1_000_000_000
	systemMemory = 2 * gigabyte
	roomyDisk    = 2000 * gigabyte
	// downlink is what it fetches per second: a line of 100 Mbit/s.
	downlink  = 100_000_000 / 8
	mostNodes = 400
	// enough nodes in a row that bring no layer that is missing end the search.
	enough = 3
)

// Route is what computers of one size hold of a model that nobody held before.
type Route struct {
	Gigabytes int
	// Ranges are those of the nodes until the model is covered, in the order of
	// their first layers.
	Ranges []protocol.Range
	// Refused says why the model cannot be covered, or is "".
	Refused string
}

// Describe writes the header of the model in dir, describes it as a publisher
// does, and removes it.
func (s *Shape) Describe(dir string, r Recipe) (*manifest.Manifest, error) {
	path := filepath.Join(dir, s.Name+".gguf")
	if err := s.WriteHeader(path, r); err != nil {
		return nil, err
	}
	m, err := publish.Describe([]string{path}, publish.Options{Name: s.Name})
	if rerr := os.Remove(path); err == nil && rerr != nil {
		err = fmt.Errorf("shapes: %w", rerr)
	}
	if err != nil {
		return nil, err
	}
	// Nothing was hashed: any id does.
	m.Model = protocol.ModelIDOf([][32]byte{{1}})
	return m, nil
}

// Place lets computers of one size join an empty network, one after the other,
// until they cover the model: each asks the tracker's placement, and its own
// planner accepts the answer or refuses it, as nodes do.
func Place(m *manifest.Manifest, gigabytes int) (*Route, error) {
	model, err := planner.ModelOf(m)
	if err != nil {
		return nil, err
	}
	out := &Route{Gigabytes: gigabytes}
	p := places.New()
	for _, err := range p.SetModels([]*manifest.Manifest{m}) {
		return nil, err
	}
	now := time.Unix(1_700_000_000, 0) // any: decisions depend on differences
	p.Asked(now, m.Model)
	computer := planner.New(planner.Limits{Memory: int64(gigabytes)*gigabyte - systemMemory, Disk: roomyDisk, Down: downlink}, nil)
	idle := 0
	for i := range mostNodes {
		id := protocol.NodeID(fmt.Sprintf("node-%03d", i))
		got, refused, err := join(p, computer, model, id, now)
		if err != nil {
			return nil, err
		}
		if refused != nil {
			out.Refused = refused.Message
			return out, nil
		}
		before := len(missing(out.Ranges, m.Layers))
		out.Ranges = append(out.Ranges, got)
		slices.SortFunc(out.Ranges, func(a, b protocol.Range) int { return a.First*1000 + a.Last - b.First*1000 - b.Last })
		p.Report(now, id, protocol.Build{}, &protocol.Report{Shards: []protocol.ShardReport{{
			State: protocol.ShardReady, Capability: protocol.Capability{Model: m.Model, Loaded: got},
		}}})
		left := missing(out.Ranges, m.Layers)
		if len(left) == 0 {
			return out, nil
		}
		if idle++; len(left) < before {
			idle = 0
		}
		if idle == enough {
			out.Refused = fmt.Sprintf("no such computer can hold %s of %d layers", some(left), m.Layers)
			return out, nil
		}
	}
	return nil, fmt.Errorf("shapes: %d nodes do not cover %s", mostNodes, m.Name)
}

// some names layers: few of them, or how many there are.
func some(layers []int) string {
	switch {
	case len(layers) == 1:
		return fmt.Sprintf("layer %d", layers[0])
	case len(layers) <= 4:
		return "layers " + strings.Trim(strings.ReplaceAll(fmt.Sprint(layers), " ", ", "), "[]")
	}
	return fmt.Sprint(len(layers))
}

// join is one node that asks until it accepts.
func join(p *places.Places, computer *planner.Planner, model *planner.Model, id protocol.NodeID, now time.Time) (protocol.Range, *protocol.Error, error) {
	q := protocol.PlaceRequest{Offer: computer.Offer()}
	for range 64 {
		d, err := p.Place(now, id, protocol.Build{}, &q)
		if err != nil {
			return protocol.Range{}, protocol.AsError(err), nil
		}
		a := computer.Check(model, planner.Assignment{Model: d.Model, Range: d.Range})
		if a.Refused == nil {
			return d.Range, nil, nil
		}
		q.Refused = append(q.Refused, protocol.PlaceRefusal{Model: d.Model, Range: d.Range, Error: a.Refused})
	}
	return protocol.Range{}, nil, fmt.Errorf("shapes: %s refuses all that it is told of %s", id, model.Name)
}

// missing lists the layers that no range holds.
func missing(ranges []protocol.Range, layers int) []int {
	var out []int
	for l := range layers {
		if !slices.ContainsFunc(ranges, func(r protocol.Range) bool { return r.First <= l && l < r.Last }) {
			out = append(out, l)
		}
	}
	return out
}
