package program

import (
	"slices"

	"neuron/engine/artifact"
	"neuron/engine/manifest"
	"neuron/engine/planner"
	"neuron/engine/protocol"
)

// held is what of models lies on this computer's disk, and those of them whose
// manifests are known.
func (n *Node) held() (parts []planner.Held, models []*planner.Model) {
	for _, src := range n.files() {
		parts = append(parts, heldFile(src))
	}
	if n.models == nil {
		return parts, nil
	}
	report, _ := n.shard.Report()
	for dir, m := range n.models.catalog.Kept() {
		x, err := planner.ModelOf(m)
		if err != nil {
			continue // nothing of it can be held
		}
		models = append(models, x)
		if n.localSource(m.Model) != nil {
			continue
		}
		list, err := artifact.Held(dir, m)
		if err != nil || len(list) == 0 {
			continue // what cannot be read counts as missing
		}
		h := planner.Held{Model: m.Model, Parts: heldParts(m, list)}
		if report.Capability.Model == m.Model && report.State == protocol.ShardReady {
			h.Serving = report.Capability.Loaded
		}
		parts = append(parts, h)
	}
	return parts, models
}

// heldFile is a whole model: no part of it is missing, however large.
func heldFile(src *artifact.Source) planner.Held {
	w := src.Weight
	p := planner.Parts{Header: w, All: w, Ends: w, Head: w, Tail: w, Layers: slices.Repeat([]int64{w}, src.Model.Layers)}
	return planner.Held{Model: src.ID, InPlace: true, Parts: p}
}

// heldParts sums tensors by what needs them.
func heldParts(m *manifest.Manifest, tensors []int) planner.Parts {
	p := planner.Parts{Header: m.Files[0].Header, Layers: make([]int64, m.Layers)}
	for _, i := range tensors {
		switch t := &m.Tensors[i]; t.Use {
		case manifest.UseLayer:
			p.Layers[t.Layer] += t.Bytes
		case manifest.UseHead:
			p.Head += t.Bytes
		case manifest.UseTail:
			p.Tail += t.Bytes
		case manifest.UseEnds:
			p.Ends += t.Bytes
		case manifest.UseAll:
			p.All += t.Bytes
		}
	}
	return p
}
