package gpu_test

import (
	"slices"
	"testing"

	"neuron/engine/stage/gpu"
	"neuron/engine/stage/wire"
)

var devices = []wire.Device{
	{Name: "Vulkan0", Description: "Radeon", Kind: "gpu", Free: 10 << 30, Total: 16 << 30},
	{Name: "Vulkan1", Description: "Radeon", Kind: "gpu", Free: 5 << 30, Total: 16 << 30},
	{Name: "Vulkan2", Description: "", Kind: "igpu", Free: 1 << 30, Total: 4 << 30},
	{Name: "BLAS", Description: "BLAS", Kind: "accel"},
	{Name: "CPU", Description: "Ryzen", Kind: "cpu", Free: 8 << 30, Total: 16 << 30},
}

func TestEqualCardsHaveNamesOfTheirOwn(t *testing.T) {
	if got, want := gpu.Names(devices), []string{"Radeon", "Radeon #2", "Vulkan2", "", ""}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name    string
		ask     []string
		chosen  []int
		missing []string
	}{
		{"nothing", nil, nil, nil},
		{"the second of two", []string{"Radeon #2"}, []int{1}, nil},
		{"the list's order", []string{"Vulkan2", "Radeon"}, []int{0, 2}, nil},
		{"one that is gone", []string{"Arc", "Radeon"}, []int{0}, []string{"Arc"}},
		{"the processor cannot be chosen", []string{"Ryzen", ""}, nil, []string{"Ryzen"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			chosen, missing := gpu.Choose(devices, c.ask)
			if !slices.Equal(chosen, c.chosen) || !slices.Equal(missing, c.missing) {
				t.Errorf("chosen %v and missing %q, want %v and %q", chosen, missing, c.chosen, c.missing)
			}
		})
	}
	if got, want := gpu.Room(devices, []int{0, 1}), int64(12<<30); got != want {
		t.Errorf("room %d, want %d", got, want)
	}
}

// TestPlaceKeepsWithinTheRoom: weights and state of the layers on devices never
// take more than there is, and no layer is left out that would fit.
func TestPlaceKeepsWithinTheRoom(t *testing.T) {
	const layers = 32
	for room := int64(0); room < 4000; room += 13 {
		for _, weights := range []int64{layers, 640, 3200} {
			for _, kv := range []int64{0, 100, 100_000} {
				n, budget := gpu.Place(layers, weights, kv, room)
				if n < 0 || n > layers || budget < 0 || budget > kv {
					t.Fatalf("room %d, weights %d, kv %d: %d layers, budget %d", room, weights, kv, n, budget)
				}
				if n == 0 {
					if budget != kv {
						t.Fatalf("room %d: the processor's budget is %d, not %d", room, budget, kv)
					}
					continue
				}
				if used := (weights + budget) * int64(n) / layers; used > room {
					t.Fatalf("room %d, weights %d, kv %d: %d layers use %d", room, weights, kv, n, used)
				}
				if more := weights * int64(n+1) / layers; n < layers && more <= room-room/8-weights/layers {
					t.Fatalf("room %d, weights %d: one more than %d layers would fit", room, weights, n)
				}
			}
		}
	}
}
