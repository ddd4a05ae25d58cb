// Package gpu says which devices of the native library a user can choose, by
// which names, and how many layers of a stage go onto those that he has chosen.
//
// The stage process, the node and the desktop import it. It asks no device: it
// reads the list that a stage process has told.
package gpu

import (
	"fmt"
	"slices"

	"neuron/engine/stage/wire"
)

// Names are what the devices of a list are called in settings, "" for those that
// cannot be chosen (the processor, and what works beside it). A description is
// stabler than the library's own name, which counts; equal cards get a number.
func Names(list []wire.Device) []string {
	names := make([]string, len(list))
	seen := map[string]int{}
	for i, d := range list {
		if d.Kind != "gpu" && d.Kind != "igpu" {
			continue
		}
		name := d.Description
		if name == "" {
			name = d.Name
		}
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s #%d", name, seen[name])
		}
		names[i] = name
	}
	return names
}

// Choose are the indexes of the devices that names ask for, in the list's order,
// and the names of those that are not there.
func Choose(list []wire.Device, names []string) (chosen []int, missing []string) {
	all := Names(list)
	for i, n := range all {
		if n != "" && slices.Contains(names, n) {
			chosen = append(chosen, i)
		}
	}
	for _, n := range names {
		if !slices.Contains(all, n) {
			missing = append(missing, n)
		}
	}
	return chosen, missing
}

// A fifth of a device's free memory stays free, as the planner has it: compute
// buffers go there, and a display needs some. An eighth of the rest is for
// conversations.
const (
	headroom = 5
	forKV    = 8
)

// Room is what stages may use of devices, in bytes.
func Room(list []wire.Device, chosen []int) int64 {
	var room int64
	for _, i := range chosen {
		free := max(0, list[i].Free)
		room += free - free/headroom
	}
	return room
}

// Place says how many of a stage's layers go onto devices with so much room, and
// how much state of conversations then fits beside them. weights are those of the
// whole stage and kv is what main memory gives for state, in bytes.
func Place(layers int, weights, kv, room int64) (n int, budget int64) {
	if layers < 1 || room <= 0 {
		return 0, kv
	}
	state := room / forKV
	if weights <= room-state {
		return layers, min(kv, room-weights)
	}
	perLayer := max(1, weights/int64(layers))
	n = int(min(int64(layers-1), (room-state)/perLayer))
	if n == 0 {
		return 0, kv
	}
	// State lies where its layer is, evenly.
	return n, min(kv, state/int64(n)*int64(layers))
}
