package library

import (
	"neuron/engine/planner"
	"neuron/engine/protocol"
)

// Takes says what layers of the model cost, in a sentence for people: "layers 12
// to 19 take 6.2 GB and 410 MB per 32K conversation". Layers that look back at
// all positions count tokens of KV memory, those with a window no more than the
// window. tokens is at most what the model was trained for.
func (m *Model) Takes(r protocol.Range, tokens int) string {
	x := m.Manifest
	if x.Context > 0 {
		tokens = min(tokens, x.Context)
	}
	slides := map[int]bool{}
	for _, i := range x.KVWindowLayers {
		slides[i] = true
	}
	var kv int64
	for i := r.First; i < min(r.Last, len(x.KVLayerBytes)); i++ {
		n := tokens
		if slides[i] {
			n = min(n, x.KVWindow)
		}
		kv += x.KVLayerBytes[i] * int64(n)
	}
	return planner.Takes(r, x.WeightBytes(r), kv, tokens)
}
