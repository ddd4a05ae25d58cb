package stage

import (
	"context"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
)

// About starts a child that loads the native library and no model, and ends
// it: what it says of the library, the processor's variant and the devices is
// what a stage will find. Errors: native_missing, native_layout, stage_lost.
func About(ctx context.Context, s Spawn, nativeDir string) (wire.Loaded, error) {
	c, err := startChild(ctx, s, wire.Load{NativeDir: nativeDir}, func(*protocol.Frame) {}, nil)
	if err != nil {
		return wire.Loaded{}, err
	}
	c.stop()
	return c.loaded, nil
}
