package planner

import (
	"cmp"
	"slices"

	"neuron/engine/protocol"
)

// Need is what the tracker says of one model.
type Need struct {
	Model *Model
	// Coverage counts, per layer, the other nodes that hold it or fetch it.
	// Shorter than the model: 0 for the rest.
	Coverage []int
	// Demand weighs models against each other; 0: nobody asks for it.
	Demand float64
}

// Proposal is a range that this computer could take.
type Proposal struct {
	Model protocol.ModelID
	Name  string
	Range protocol.Range
	Cost  Cost
	// Level is the model's lowest coverage before; Fills counts the layers at
	// that level that the range adds to.
	Level, Fills int
	// Gain is the part of the next route that the range brings, weighted by
	// demand and by how many routes there are; comparable between models.
	Gain float64
	// Text says what it costs, in one sentence.
	Text string
}

// slowDown is the rate that ranks proposals when none is known, and patience
// the time of fetching that halves a gain: of two ranges that are worth the
// same the one that is sooner there, or there already, comes first.
const (
	slowDown = 2e6    // bytes per second
	patience = 2 * 60 // minutes
)

// Propose gives the best range of each model in need that fits, best first: a
// model that is asked for and lacks layers comes before all others. Models
// without a range that fits are left out; Check says why. Errors:
// model_invalid.
func (p *Planner) Propose(needs []Need) ([]Proposal, error) {
	type ranked struct {
		Proposal
		urgent bool
		score  float64
	}
	var all []ranked
	for i := range needs {
		n := &needs[i]
		if err := n.Model.check(); err != nil {
			return nil, err
		}
		g := newGap(n)
		best := ranked{urgent: g.level == 0 && n.Demand > 0}
		found := false
		for _, r := range p.candidates(newFigures(n.Model, &p.limits), g) {
			gain := g.gain(r.Range)
			score := gain / (1 + p.fetchMinutes(&r.Cost)/patience)
			if !found || cmp.Or(cmp.Compare(best.score, score), cmp.Compare(r.Cost.WireBytes, best.Cost.WireBytes), r.Range.First-best.Range.First) < 0 {
				found = true
				best.Proposal, best.score = r, score
				best.Gain, best.Level, best.Fills = gain, g.level, g.fills(r.Range)
			}
		}
		if found {
			best.Text = sentence(n.Model, best.Range, &best.Cost)
			all = append(all, best)
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		if a.urgent != b.urgent {
			if a.urgent {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.Cost.WireBytes, b.Cost.WireBytes), cmp.Compare(a.Model, b.Model))
	})
	out := make([]Proposal, len(all))
	for i := range all {
		out[i] = all[i].Proposal
	}
	return out, nil
}

func (p *Planner) fetchMinutes(c *Cost) float64 {
	if p.limits.Down > 0 {
		return c.FetchTime.Minutes()
	}
	return float64(c.WireBytes) / slowDown / 60
}

// candidates lists, per first layer, the longest range that fits and the
// longest that ends where coverage changes: where other ranges begin or end.
// They have no Text yet.
func (p *Planner) candidates(f *figures, g *gap) []Proposal {
	var out []Proposal
	for first := range f.m.Layers {
		ends := f.m.ends(first, f.m.Layers)
		c, j := p.longest(f, first, ends)
		if j < 0 {
			continue
		}
		out = append(out, Proposal{Model: f.m.ID, Name: f.m.Name, Range: protocol.Range{First: first, Last: ends[j]}, Cost: c})
		for k := j - 1; k >= 0; k-- {
			if !g.step(ends[k]) {
				continue
			}
			r := protocol.Range{First: first, Last: ends[k]}
			if c, err := p.cost(f, r); err == nil {
				out = append(out, Proposal{Model: f.m.ID, Name: f.m.Name, Range: r, Cost: c})
			}
			break
		}
	}
	return out
}

// longest is the last of ends such that [first, end) fits, with its cost; -1
// for none. The last end is tried on its own, since the tail's tensors may be
// larger than a layer; below it, a longer range never costs less.
func (p *Planner) longest(f *figures, first int, ends []int) (Cost, int) {
	at := func(j int) (Cost, bool) {
		c, err := p.cost(f, protocol.Range{First: first, Last: ends[j]})
		return c, err == nil
	}
	if len(ends) == 0 {
		return Cost{}, -1
	}
	if c, ok := at(len(ends) - 1); ok {
		return c, len(ends) - 1
	}
	n, _ := slices.BinarySearchFunc(ends[:len(ends)-1], true, func(end int, _ bool) int {
		if _, err := p.cost(f, protocol.Range{First: first, Last: end}); err == nil {
			return -1
		}
		return 1
	})
	if n == 0 {
		return Cost{}, -1
	}
	c, _ := at(n - 1)
	return c, n - 1
}

func (p *Planner) proposal(f *figures, r protocol.Range, c Cost) Proposal {
	return Proposal{Model: f.m.ID, Name: f.m.Name, Range: r, Cost: c, Text: sentence(f.m, r, &c)}
}

// gap is what a model lacks for its next route: with early exit, k nodes on
// every layer are k routes of distinct nodes, so the layers with the lowest
// coverage are what lacks.
type gap struct {
	level  int
	demand float64
	cover  []int
	bytes  []float64 // of lacking layers in [0, i)
	count  []int
}

func newGap(n *Need) *gap {
	g := &gap{demand: max(0, n.Demand), cover: make([]int, n.Model.Layers), bytes: make([]float64, n.Model.Layers+1), count: make([]int, n.Model.Layers+1)}
	copy(g.cover, n.Coverage)
	g.level = slices.Min(g.cover)
	for i, c := range g.cover {
		g.bytes[i+1], g.count[i+1] = g.bytes[i], g.count[i]
		if c == g.level {
			// One more, for models whose bytes belong to no layer.
			g.bytes[i+1] += float64(n.Model.Parts.Layers[i] + 1)
			g.count[i+1]++
		}
	}
	return g
}

// gain of a range: the share of the lacking bytes that it brings. The first
// route is worth twice the second, and so on.
func (g *gap) gain(r protocol.Range) float64 {
	total := g.bytes[len(g.bytes)-1]
	return g.demand * (g.bytes[r.Last] - g.bytes[r.First]) / total / float64(g.level+1)
}

func (g *gap) fills(r protocol.Range) int { return g.count[r.Last] - g.count[r.First] }

// step reports whether coverage changes at boundary b.
func (g *gap) step(b int) bool {
	return b == 0 || b == len(g.cover) || g.cover[b] != g.cover[b-1]
}
