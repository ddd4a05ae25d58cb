package worker

import (
	"os"

	"neuron/engine/protocol"
	"neuron/engine/stage/gpu"
	"neuron/engine/stage/wire"
	"neuron/llama"
)

// placed is which devices a stage computes on.
type placed struct {
	list    []wire.Device // all that there are, as they were before loading
	devices []llama.Device
	names   []string // of devices
	missing []string
	layers  int   // on devices
	budget  int64 // for state of conversations, in bytes
}

// place chooses the devices that the load message asks for, and how much of the
// stage they take. What does not fit there stays in main memory.
func place(c *wire.Load) (placed, error) {
	all := llama.Devices()
	on := placed{list: wireDevices(all), budget: c.KVBudget}
	chosen, missing := gpu.Choose(on.list, c.GPUs)
	on.missing = missing
	if len(chosen) == 0 {
		return on, nil
	}
	var weights int64
	for _, path := range c.Paths {
		st, err := os.Stat(path)
		if err != nil {
			return on, protocol.Errorf(protocol.CodeModelInvalid, "a file of the stage: %w", err)
		}
		weights += st.Size()
	}
	on.layers, on.budget = gpu.Place(c.Last-c.First, weights, c.KVBudget, gpu.Room(on.list, chosen))
	if on.layers == 0 {
		return on, nil
	}
	names := gpu.Names(on.list)
	for _, i := range chosen {
		on.devices, on.names = append(on.devices, all[i]), append(on.names, names[i])
	}
	return on, nil
}

// wireDevices are devices in the library's own words.
func wireDevices(list []llama.Device) []wire.Device {
	out := make([]wire.Device, len(list))
	for i, d := range list {
		out[i] = wire.Device{Name: d.Name, Description: d.Description, Kind: d.Kind.String(), Free: int64(d.MemFree), Total: int64(d.MemTotal)}
	}
	return out
}
