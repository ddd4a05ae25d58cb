package enginetest

import (
	"testing"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// Catalog is an engine of a network with three models: whole, with a gap, and
// private with nothing of it there.
func Catalog(t testing.TB) *Engine {
	t.Helper()
	e := Start(t)
	e.With(func(s *State) {
		replicas := func(n, first, last int) []int {
			out := make([]int, n)
			for i := range out {
				out[i] = 1 + i%3
				if i >= first && i < last {
					out[i] = 0
				}
			}
			return out
		}
		s.Network = localapi.Network{Nodes: 128, Sessions: 17, Asked: Now, Models: []localapi.NetworkModel{
			{Info: protocol.ModelInfo{Model: "a", Name: "Qwen3 8B Instruct Q4_K_M", Layers: 36, Context: 40960, Replicas: replicas(36, 0, 0), Routable: true}, Bytes: 5_030_000_000, License: "Apache-2.0", Local: &protocol.Range{First: 6, Last: 18}},
			{Info: protocol.ModelInfo{Model: "b", Name: "DeepSeek V4 Flash", Layers: 43, Context: 131072, Replicas: replicas(43, 20, 26)}, Bytes: 158_000_000_000, License: "MIT"},
			{Info: protocol.ModelInfo{Model: "c", Name: "Our own tune of a model with quite a long name for one line", Layers: 8, Replicas: replicas(8, 0, 8)}, Private: true},
		}}
		s.Status.Tracker.Name = "Neuron for Friends"
		s.Plans = []localapi.Plan{
			{Model: "b", Name: "DeepSeek V4 Flash", Ranges: []localapi.PlanRange{{Range: protocol.Range{First: 12, Last: 20}, Weights: 6_200 << 20, Memory: 7_000 << 20, KVPerToken: 12_800, Fit4K: 20, Fit32K: 2}}},
			{Model: "c", Name: "Our own tune of a model with quite a long name for one line"},
		}
		s.Access = localapi.Access{URL: "http://127.0.0.1:8555/v1", Key: "sk-secret-key"}
	})
	return e
}
