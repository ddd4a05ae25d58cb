package planner

import (
	"maps"
	"slices"

	"neuron/engine/protocol"
)

// Offer is what the tracker learns of this computer when a node asks what to
// hold: headroom is taken off already, and held layers count as room.
func (p *Planner) Offer() protocol.Offer {
	o := protocol.Offer{
		Disk: max(0, p.limits.Disk), Memory: usable(p.limits.Memory),
		DownRate: p.limits.Down, Speed: p.limits.DecodeRate,
	}
	for _, h := range p.held {
		if !h.InPlace {
			o.Disk += h.Parts.total()
		}
	}
	for _, d := range p.limits.Devices {
		o.Memory += usable(d.Memory)
		o.Speed = max(o.Speed, d.DecodeRate)
	}
	return o
}

// HeldLayers lists the layers of models that are on the disk in full, by model
// id.
func (p *Planner) HeldLayers(models []*Model) []protocol.HeldLayers {
	byID := make(map[protocol.ModelID]*Model, len(models))
	for _, m := range models {
		byID[m.ID] = m
	}
	var out []protocol.HeldLayers
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		h := p.held[id]
		if h == nil {
			continue
		}
		have := protocol.HeldLayers{Model: id}
		for i, need := range byID[id].Parts.Layers {
			if i >= len(h.Parts.Layers) || h.Parts.Layers[i] < need || need == 0 {
				continue
			}
			if n := len(have.Ranges); n > 0 && have.Ranges[n-1].Last == i {
				have.Ranges[n-1].Last++
				continue
			}
			have.Ranges = append(have.Ranges, protocol.Range{First: i, Last: i + 1})
		}
		if len(have.Ranges) > 0 {
			out = append(out, have)
		}
	}
	return out
}
