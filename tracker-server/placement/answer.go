package placement

import (
	"math"
	"strconv"

	"neuron/engine/protocol"
)

// asked checks what the node's owner wants.
func (s *seek) asked(e *entry, r protocol.Range) (*Decision, error) {
	if !r.Valid(e.Layers) || !e.WholeOnly && !e.legal(r.First, r.Last) {
		return nil, protocol.Errorf(protocol.CodeRangeInvalid, "layers %s may not be a stage of %s", r, e.Name)
	}
	if !e.legal(r.First, r.Last) {
		return nil, protocol.Errorf(protocol.CodeModelUncut, "%s may not be cut", e.Name)
	}
	memory, disk := s.room(e)
	if !s.fits(e, r.First, r.Last, memory, disk, math.MaxInt64) {
		return nil, s.tooLarge(e, r)
	}
	c := e.cover(s.j.Build)
	ch := Choice{Model: e.ID, Name: e.Name, Range: r, FetchBytes: fetch(e, s.held[e.ID], r.First, r.Last), Reason: ReasonAsked, Fill: c.fill(r.First, r.Last)}
	base, _ := s.base(e, c)
	ch.Score = base * s.worth(e, c, s.held[e.ID], &ch)
	return s.decision(ch, nil), nil
}

// tooLarge says what of the offer is too small for a range.
func (s *seek) tooLarge(e *entry, r protocol.Range) *protocol.Error {
	memory, disk := s.room(e)
	if need := e.weight(r.First, r.Last) + e.HeaderBytes; need > disk {
		return protocol.Errorf(protocol.CodeDiskFull, "layers %s of %s take %d bytes, %d are offered", r, e.Name, need, disk).
			With("needs", strconv.FormatInt(need, 10)).With("has", strconv.FormatInt(disk, 10))
	}
	need := e.memory(r.First, r.Last, s.m.cfg.ReserveCells)
	return protocol.Errorf(protocol.CodeDoesNotFit, "layers %s of %s take %d bytes of memory, %d are offered", r, e.Name, need, memory).
		With("needs", strconv.FormatInt(need, 10)).With("has", strconv.FormatInt(memory, 10))
}

// nothing explains why no range of models fits, by the smallest one.
func (s *seek) nothing(models []*entry) *protocol.Error {
	var e *entry
	var r protocol.Range
	least := int64(math.MaxInt64)
	for _, m := range models {
		for a := range m.Layers {
			for b := a + 1; b <= m.Layers; b++ {
				if !m.legal(a, b) {
					continue
				}
				if need := m.memory(a, b, s.m.cfg.ReserveCells); need < least {
					least, e, r = need, m, protocol.Range{First: a, Last: b}
				}
				break
			}
		}
	}
	err := s.tooLarge(e, r)
	err.Message = "no range of any model fits: " + err.Message
	return err
}

// decision completes a choice. The node's own shards are taken off the map.
func (s *seek) decision(best Choice, all []Choice) *Decision {
	e := s.m.byID[best.Model]
	c := e.cover(s.j.Build)
	routes, _ := e.totals()
	d := &Decision{Choice: best, RoutesBefore: routes, RoutesAfter: routes - c.level + least(c.planned, best.Range, 1)}
	for _, a := range all {
		if a.Model != best.Model && len(d.Alternatives) < alternatives {
			d.Alternatives = append(d.Alternatives, a)
		}
	}
	d.Text = d.sentence(e)
	return d
}
