package program

import (
	"context"
	"strings"

	"neuron/engine/planner"
	"neuron/engine/protocol"
	"neuron/engine/stage"
	"neuron/engine/stage/gpu"
)

// lookForDevices finds out what the chosen GPUs have free, for the planner. A
// library that cannot be loaded says so when a stage starts.
func (n *Node) lookForDevices(ctx context.Context) {
	if len(n.o.GPUs) == 0 {
		return
	}
	about, err := stage.About(ctx, n.spawn, n.o.NativeDir)
	if err != nil {
		n.log.Warn("The graphics cards are not known", "error", err)
		return
	}
	chosen, missing := gpu.Choose(about.Devices, n.o.GPUs)
	names := gpu.Names(about.Devices)
	for _, i := range chosen {
		n.devices = append(n.devices, planner.Device{Name: names[i], Memory: about.Devices[i].Free})
	}
	n.log.Info("Graphics cards", "chosen", len(chosen), "missing", len(missing))
}

// missingDevices is about chosen GPUs that the stage has not found, nil while it
// has all.
func (n *Node) missingDevices() *protocol.Error {
	p := n.shard.Process()
	if p == nil {
		return nil
	}
	missing := p.Loaded().Missing
	if len(missing) == 0 {
		return nil
	}
	return protocol.Errorf(protocol.CodeDeviceMissing, "the chosen graphics card is not there: %s", strings.Join(missing, ", "))
}
