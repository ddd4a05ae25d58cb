package planner

import (
	"neuron/engine/protocol"
)

// Answer is what a node says to an assignment.
type Answer struct {
	// Refused is nil when the node accepts. Codes: model_not_found (another
	// model was asked for), range_invalid, model_whole_only, does_not_fit
	// (weights and memory), kv_budget (too little is left for conversations),
	// disk_full; the last three with "needs" and "has" in bytes, and "fits", the
	// range that would fit, where there is one.
	Refused *protocol.Error
	Cost    Cost // also when refused for size
	// Instead would fit: the longest front part of the asked range, else its
	// longest part. Nil: none, or accepted.
	Instead *Proposal
	// Text says it in one sentence.
	Text string
}

// Check accepts an assignment of the tracker or refuses it.
func (p *Planner) Check(m *Model, a Assignment) Answer {
	if m == nil || m.ID != a.Model {
		e := protocol.Errorf(protocol.CodeModelUnknown, "the manifest of model %s is not here", a.Model.Short())
		return Answer{Refused: e, Text: e.Message}
	}
	err := m.check()
	if err == nil {
		err = m.Legal(a.Range)
	}
	if err != nil {
		e := protocol.AsError(err)
		return Answer{Refused: e, Text: e.Message}
	}
	f := newFigures(m, &p.limits)
	c, e := p.cost(f, a.Range)
	if e == nil {
		return Answer{Cost: c, Text: sentence(m, a.Range, &c)}
	}
	out := Answer{Refused: e, Cost: c, Text: e.Message}
	if out.Instead = p.part(f, a.Range); out.Instead != nil {
		out.Refused = e.With("fits", out.Instead.Range.String())
		out.Text += "; layers " + words(out.Instead.Range) + " would fit"
	}
	return out
}

// part is the longest part of r that fits, the front part first.
func (p *Planner) part(f *figures, r protocol.Range) *Proposal {
	var best *Proposal
	for first := r.First; first < r.Last; first++ {
		ends := f.m.ends(first, r.Last)
		c, j := p.longest(f, first, ends)
		if j < 0 {
			continue
		}
		if got := (protocol.Range{First: first, Last: ends[j]}); best == nil || got.Len() > best.Range.Len() {
			q := p.proposal(f, got, c)
			best = &q
		}
		if first == r.First {
			break
		}
	}
	return best
}

// Holding is what of a model fits on this computer.
type Holding struct {
	Model protocol.ModelID
	Name  string
	// Whole says that all layers fit; Ranges then has one entry.
	Whole bool
	// Ranges are the longest range from the first layer on, the longest one
	// anywhere, and the longest one that ends with the last layer, each once
	// and as far as there is one; ascending by first layer.
	Ranges []Proposal
	// Refused says why nothing fits, or is nil.
	Refused *protocol.Error
	// Text says it in one sentence.
	Text string
}

// Holdings says for each model what this computer can hold, in the order of
// models. Errors: model_invalid.
func (p *Planner) Holdings(models []*Model) ([]Holding, error) {
	out := make([]Holding, 0, len(models))
	for _, m := range models {
		if err := m.check(); err != nil {
			return nil, err
		}
		out = append(out, p.holding(m))
	}
	return out, nil
}

func (p *Planner) holding(m *Model) Holding {
	f := newFigures(m, &p.limits)
	h := Holding{Model: m.ID, Name: m.Name}
	c, whole := p.cost(f, m.whole())
	if whole == nil {
		q := p.proposal(f, m.whole(), c)
		h.Whole, h.Ranges, h.Text = true, []Proposal{q}, q.Text
		return h
	}
	var head, longest, tail *Proposal
	for first := range m.Layers {
		ends := m.ends(first, m.Layers)
		c, j := p.longest(f, first, ends)
		if j < 0 {
			continue
		}
		q := p.proposal(f, protocol.Range{First: first, Last: ends[j]}, c)
		if first == 0 {
			head = &q
		}
		if longest == nil || q.Range.Len() > longest.Range.Len() {
			longest = &q
		}
		// The first one is the longest: later ones begin later.
		if tail == nil && q.Range.Last == m.Layers {
			tail = &q
		}
	}
	for _, q := range []*Proposal{head, longest, tail} {
		if q != nil && (len(h.Ranges) == 0 || h.Ranges[len(h.Ranges)-1].Range != q.Range) {
			h.Ranges = append(h.Ranges, *q)
		}
	}
	if longest == nil {
		h.Refused, h.Text = whole, whole.Message
		// The smallest middle part says more than the whole.
		first := m.Layers / 2
		if ends := m.ends(first, m.Layers-1); len(ends) > 0 {
			if _, e := p.cost(f, protocol.Range{First: first, Last: ends[0]}); e != nil {
				h.Refused, h.Text = e, "Not even one part fits: "+e.Message
			}
		}
		return h
	}
	h.Text = upTo(m, longest)
	return h
}
