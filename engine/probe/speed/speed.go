// Package speed measures how fast this computer runs a real stage: the bundled
// model, whole, in a stage process. The desktop engine imports it. It knows no
// network, and nothing of how stages are served.
package speed

import (
	"context"

	"neuron/engine/artifact"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/engine/stage"
	"neuron/engine/stage/wire"
	"neuron/internal/logging"
)

// Options say what to measure with.
type Options struct {
	Spawn     stage.Spawn // starts the stage's process
	NativeDir string      // as in wire.Load
	Model     string      // a GGUF file
	Cache     string      // folder that remembers the file's hash, "" for none
	Threads   int         // at least 1
	GPUs      []string    // as in wire.Load
}

// The stage that is measured: one conversation, and chunks as the gateway sends
// them while others decode.
const (
	chunkRows  = 64
	maxContext = 512
)

// Measure loads the model, which measures itself, and ends the process. It takes
// about a second with the bundled model. The figures are the best of a few steps
// with all the threads: what the computer can do, not what it does while other
// programs run. Errors: those of artifact.Inspect and stage.Start.
func Measure(ctx context.Context, o Options) (*localapi.Speed, error) {
	src, err := artifact.Inspect(ctx, o.Model, o.Cache, logging.Discard())
	if err != nil {
		return nil, err
	}
	// The whole model is used where it lies: no folder is needed.
	shard, err := src.Shard(ctx, protocol.Range{Last: src.Model.Layers}, "", nil)
	if err != nil {
		return nil, err
	}
	paths, release, err := shard.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	report := shard.Capability(chunkRows)
	p, err := stage.Start(ctx, o.Spawn, wire.Load{
		NativeDir: o.NativeDir, Paths: paths, Last: report.Layers, Layers: report.Layers, ExitNode: src.Model.Family().Exit,
		Threads: max(1, o.Threads), GPUs: o.GPUs, ChunkRows: chunkRows, MaxContext: maxContext, MaxSessions: 1,
		KVBudget: maxContext * report.KVBytesPerCell, KVBytesPerCell: report.KVBytesPerCell,
	}, report)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	l := p.Loaded()
	if l.StepMicros <= 0 || l.ChunkMicros <= 0 || l.ChunkRows <= 0 {
		return nil, protocol.Errorf(protocol.CodeInternal, "the stage has not measured itself")
	}
	return &localapi.Speed{
		Model: src.Name, StepMicros: l.StepMicros, TokensPerSecond: 1e6 / float64(l.StepMicros),
		PrefillPerSec: float64(l.ChunkRows) * 1e6 / float64(l.ChunkMicros), Threads: max(1, o.Threads),
	}, nil
}
